"""One safetensors file, mapped: entries from its header, tensors without a copy."""

from __future__ import annotations

import difflib
import os
from types import TracebackType
from typing import Any, Self

import numpy as np

from dmexp.errors import TensorNotFoundError
from dmexp.loaders._mapped import MappedFile
from dmexp.loaders._numpy_types import SOURCE_DTYPES
from dmexp.loaders._source import TensorEntry

from ._header import PREFIX_BYTES, HeaderTensor, header_length, parse_header


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
        self._file = MappedFile(path)
        self.path = self._file.path
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> None:
        name = str(self.path)
        file_bytes = self._file.length_bytes
        length = header_length(self._file.bytes_at(0, PREFIX_BYTES), file_bytes, path=name)
        header = self._file.bytes_at(PREFIX_BYTES, length)
        self._payload_start = PREFIX_BYTES + length
        self.payload_bytes = file_bytes - self._payload_start
        tensors, self.metadata = parse_header(header, self.payload_bytes, path=name)
        self._tensors: dict[str, HeaderTensor] = {tensor.name: tensor for tensor in tensors}

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
        process shortens *between* that look and the use of the array reads as zeros there, and
        `TruncatedError` is raised in the main thread right after. Replace files by renaming, not
        by writing into them.

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
        return self._file.array_at(
            self._payload_start + tensor.begin,
            tensor.dims,
            SOURCE_DTYPES[tensor.dtype.lower()],
            f"tensor {name!r}",
        )

    def close(self) -> None:
        """Close the file. Arrays that were read stay valid."""
        self._file.close()

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
            close = difflib.get_close_matches(name, self._tensors, 3)
            hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            raise TensorNotFoundError(
                f"no tensor {name!r} in this file.{hint}",
                path=str(self.path),
                name=name,
                close=close,
            ) from None
