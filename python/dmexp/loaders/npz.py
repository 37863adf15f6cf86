"""An ``.npz`` archive: one ``.npy`` member for each tensor, read one at a time.

Stated sizes are compared with each other and with the length of the archive before memory is
taken for them; no array of objects is ever built.
"""

from __future__ import annotations

import copy
import os
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from dmexp.errors import (
    ChecksumError,
    DmexpError,
    FormatError,
    LimitExceededError,
    TensorNotFoundError,
    UnsupportedDtypeError,
    UnsupportedError,
)

from ._npy import NpyHeader, broken, read_npy_header
from ._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry

# Deflate cannot do better than this; a member that claims to is a trap.
LARGEST_RATIO = 1032
_BLOCK_BYTES = 1 << 20
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, NotImplementedError)


class NpzFile:
    """An open ``.npz`` archive, as a source for an export.

    Parameters
    ----------
    path
        The archive.
    options
        ``config`` names a config; an archive has none of its own.

    Raises
    ------
    FormatError, SizeOverflowError, LimitExceededError, UnsupportedError
        The archive or one of its headers is damaged, or states sizes that cannot be.
    UnsupportedDtypeError
        An anonymous void, which bfloat16 becomes when NumPy saves it; the message has the cure.
    OSError
        The file cannot be read.
    """

    info: SourceInfo

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        self._path = os.fspath(path)
        self._lock = threading.Lock()
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise FormatError(
                f"the archive cannot be read: {error}. It is truncated or damaged.", path=self._path
            ) from None
        try:
            self._open(options)
        except BaseException:
            self._archive.close()
            raise

    def _open(self, options: SourceOptions) -> None:
        archive_bytes = os.path.getsize(self._path)
        self._members: dict[str, tuple[zipfile.ZipInfo, NpyHeader]] = {}
        for file in self._archive.infolist():
            if file.is_dir():
                continue
            name = file.filename.removesuffix(".npy")
            if name == file.filename:
                raise FormatError(
                    f"member {file.filename!r} is no .npy array. An .npz holds nothing else.",
                    path=self._path,
                    tensor=file.filename,
                )
            if name in self._members:
                raise FormatError(
                    f"member {file.filename!r} is there twice. Two readers would take two arrays.",
                    path=self._path,
                    tensor=name,
                )
            try:
                _require_plausible(file, archive_bytes)
            except DmexpError as error:
                raise error.with_path(self._path) from None
            with self._stream(file, name) as stream:
                self._members[name] = (file, read_npy_header(stream, file.file_size, name))
        if not self._members:
            raise FormatError("the archive holds no array.", path=self._path)
        self.info = SourceInfo(
            path=Path(self._path),
            kind=".npz archive",
            label=self._path,
            weight_bytes=archive_bytes,
        )
        if options.config is not None:
            from .hf_config import read_config

            config = read_config(options.config)
            self.info.config, self.info.config_origin = config.text, str(options.config)
            self.info.notices += config.notices

    @contextmanager
    def _stream(self, file: zipfile.ZipInfo, name: str) -> Iterator[IO[bytes]]:
        """A member, open; every way in which it can be damaged is an error that names it."""
        try:
            # The archive has one position in one file.
            with self._lock, self._archive.open(_unchecked(file)) as stream:
                yield stream
        except _ZIP_ERRORS as error:
            problem = str(error) or type(error).__name__
            raise broken(name, problem).with_path(self._path) from None
        except DmexpError as error:
            raise error.with_path(self._path) from None

    def entries(self) -> list[TensorEntry]:
        """All arrays in the order of the archive."""
        return [
            TensorEntry(name, header.dims, header.kind)
            for name, (_, header) in self._members.items()
        ]

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One array, read-only, unpacked into memory of its own and checked against its CRC.

        Raises
        ------
        TensorNotFoundError
            No such array.
        UnsupportedDtypeError
            Objects, text, times, structs: nothing that a model's weights are.
        ChecksumError, FormatError
            The member is damaged.
        """
        found = self._members.get(name)
        if found is None:
            raise TensorNotFoundError(
                f"no array {name!r} in this archive.", path=self._path, name=name, close=[]
            )
        file, header = found
        if header.dtype is None:
            raise UnsupportedDtypeError(
                f"array {name!r} holds {header.kind}, not numbers. Objects are pickles, and those "
                "are never opened. Leave it out, or save its numbers as arrays of their own.",
                path=self._path,
                tensor=name,
                dtype=header.kind,
                known=["f64", "f32", "f16"],
            )
        flat = np.empty(file.file_size - header.offset, np.uint8)
        with self._stream(file, name) as stream:
            _fill(flat, stream, header.offset, file.CRC, name)
        dims = header.dims[::-1] if header.fortran else header.dims
        array: np.ndarray[Any, np.dtype[Any]] = flat.view(header.dtype).reshape(dims)
        array = array.transpose() if header.fortran else array
        array.flags.writeable = False
        return array

    def close(self) -> None:
        """Close the archive. Arrays that were read stay valid."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_npz(path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> NpzFile:
    """Open an ``.npz`` archive; see `NpzFile`."""
    return NpzFile(path, options)


def _fill(
    flat: np.ndarray[Any, Any], stream: IO[bytes], offset: int, stored: int, name: str
) -> None:
    """Unpack what follows the header into ``flat``, and hold the whole to its checksum."""
    computed = zlib.crc32(stream.read(offset))
    position = 0
    while position < flat.size:
        block = stream.read(min(_BLOCK_BYTES, flat.size - position))
        if not block:
            raise broken(name, f"its data ends after {position} bytes of {flat.size}")
        flat[position : position + len(block)] = np.frombuffer(block, np.uint8)
        computed = zlib.crc32(block, computed)
        position += len(block)
    if computed != stored:
        raise ChecksumError(
            f"array {name!r}: checksum is {computed:08x}, the archive says {stored:08x}. The "
            "archive is damaged.",
            tensor=name,
            what="tensor",
            stored=f"{stored:08x}",
            computed=f"{computed:08x}",
        )


def _unchecked(file: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """The same member without its checksum, which zipfile would compare and not tell."""
    twin = copy.copy(file)
    del twin.CRC
    return twin


def _require_plausible(file: zipfile.ZipInfo, archive_bytes: int) -> None:
    if file.flag_bits & 1:
        raise UnsupportedError(
            f"member {file.filename!r} is encrypted, which is not read here.",
            found="encrypted",
            expected=None,
        )
    if not 0 <= file.header_offset < archive_bytes:
        raise broken(file.filename, "the archive's list of members points outside of it")
    stored = file.compress_type == zipfile.ZIP_STORED
    if file.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnsupportedError(
            f"member {file.filename!r} is packed with method {file.compress_type}; NumPy writes "
            "0 (stored) and 8 (deflate).",
            found=file.compress_type,
            expected=[zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED],
        )
    most = file.compress_size if stored else LARGEST_RATIO * file.compress_size
    if file.compress_size > archive_bytes or file.file_size > most:
        raise LimitExceededError(
            f"member {file.filename!r} claims {file.file_size} bytes from {file.compress_size} in "
            f"an archive of {archive_bytes}: no such packing exists.",
            tensor=file.filename,
            found=file.file_size,
            limit=most,
        )
