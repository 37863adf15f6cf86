"""One safetensors file, mapped: entries from its header, tensors without a copy."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np

from dmexp.errors import InvalidArgumentError, TensorNotFoundError, TruncatedError
from dmexp.loaders._source import TensorEntry

from ._header import PREFIX_BYTES, HeaderTensor, header_length, parse_header

_NUMPY: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "C64": np.dtype("<c8"),
}

# Below this, giving pages back costs more than they weigh.
_WORTH_RELEASING_BYTES = 1 << 20


class SafetensorsFile:
    """An open safetensors file.

    The header is read and checked when the object is made; the payload is not touched before
    `read`.

    Parameters
    ----------
    path
        The file. A symbolic link is followed.

    Attributes
    ----------
    path : Path
        As given.
    metadata : dict of str to str
        The string values of ``__metadata__``; others are left out.
    payload_bytes : int
        Bytes of the file that hold tensors.

    Raises
    ------
    FormatError, UnsupportedDtypeError, UnsupportedShapeError, SizeOverflowError, ShapeMismatchError
        See ``docs/loaders.md``. A file cut off anywhere is a `FormatError`.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> with SafetensorsFile(path) as file:  # doctest: +SKIP
    ...     first = file.read(file.entries()[0].name)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = os.open(
            self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        self._map: mmap.mmap | None = None
        self._released = False
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        name = str(self.path)
        self._file_bytes = os.fstat(self._descriptor).st_size
        prefix = self._pread(PREFIX_BYTES, 0)
        length = header_length(prefix, self._file_bytes, path=name)
        header = self._pread(length, PREFIX_BYTES)
        self._payload_start = PREFIX_BYTES + length
        self.payload_bytes = self._file_bytes - self._payload_start
        tensors, self.metadata = parse_header(header, self.payload_bytes, path=name)
        self._tensors: dict[str, HeaderTensor] = {tensor.name: tensor for tensor in tensors}
        self._last: HeaderTensor | None = None
        try:
            self._map = mmap.mmap(self._descriptor, self._file_bytes, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            # Some network mounts cannot be mapped; reading still works there.
            self._map = None

    def entries(self) -> list[TensorEntry]:
        """All tensors in payload order, dtypes in lower case (``"bf16"``, ``"i64"``)."""
        return [
            TensorEntry(tensor.name, tensor.dims, tensor.dtype.lower())
            for tensor in self._tensors.values()
        ]

    def payload_range(self, name: str) -> tuple[int, int]:
        """First byte and the byte after the last of one tensor, counted from the file's start.

        Raises
        ------
        TensorNotFoundError
            No such tensor.
        """
        tensor = self._find(name)
        return self._payload_start + tensor.begin, self._payload_start + tensor.end

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One tensor as a read-only array over the mapped file, at whatever alignment it has.

        The array keeps the mapping alive and works after `close`. Where the file could not be
        mapped it is a copy. The file's length is looked at before each read; a file that another
        process shortens *between* that look and the use of the array ends the process with
        SIGBUS, as with any mapping. Replace files by renaming, not by writing into them.

        Raises
        ------
        TensorNotFoundError
            No such tensor.
        TruncatedError
            The file has become shorter since it was opened.
        InvalidArgumentError
            The file object is closed.
        """
        tensor = self._find(name)
        if self._released:
            raise InvalidArgumentError(
                "the file object is closed; open the file again.", path=str(self.path)
            )
        self._require_length(name)
        start = self._payload_start + tensor.begin
        byte_count = tensor.end - tensor.begin
        dtype = _NUMPY[tensor.dtype]
        if self._map is None:
            data = np.frombuffer(self._pread(byte_count, start), dtype)
        else:
            self._give_back(self._last)
            self._last = tensor
            data = np.frombuffer(self._map, dtype, byte_count // dtype.itemsize, start)
        return data.reshape(tensor.dims)

    def close(self) -> None:
        """Close the file. Arrays that were read stay valid."""
        if not self._released:
            self._released = True
            os.close(self._descriptor)
            # The mapping goes when the last array over it goes.
            self._map = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _find(self, name: str) -> HeaderTensor:
        try:
            return self._tensors[name]
        except KeyError:
            import difflib

            close = difflib.get_close_matches(name, self._tensors, 3)
            hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            raise TensorNotFoundError(
                f"no tensor {name!r} in this file.{hint}",
                path=str(self.path),
                name=name,
                close=close,
            ) from None

    def _require_length(self, name: str) -> None:
        now = os.fstat(self._descriptor).st_size
        if now < self._file_bytes:
            raise TruncatedError(
                f"the file had {self._file_bytes} bytes when it was opened and has {now} now; "
                f"tensor {name!r} was not read. Something is writing to it: export again when it "
                "is complete.",
                path=str(self.path),
                expected=self._file_bytes,
                actual=now,
                tensor=name,
            )

    def _pread(self, count: int, offset: int) -> bytes:
        """Exactly ``count`` bytes, unless the file ends before."""
        os.lseek(self._descriptor, offset, os.SEEK_SET)
        parts = []
        while count > 0:
            part = os.read(self._descriptor, min(count, 1 << 30))
            if not part:
                break
            parts.append(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _give_back(self, tensor: HeaderTensor | None) -> None:
        """Let the kernel drop pages that were read already, so that a walk over a large file
        does not count all of it as this process's memory. An array still in use reads its pages
        again."""
        if (
            tensor is None
            or self._map is None
            or tensor.end - tensor.begin < _WORTH_RELEASING_BYTES
            or not hasattr(mmap, "MADV_DONTNEED")
        ):
            return
        page = mmap.PAGESIZE
        first = -(-(self._payload_start + tensor.begin) // page) * page
        length = self._payload_start + tensor.end - first
        if length > 0:
            self._map.madvise(mmap.MADV_DONTNEED, first, length)
