"""A file mapped for reading: arrays over it without a copy, and an exception where it shrinks."""

from __future__ import annotations

import os
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from dmexp._arrays import OWED_BYTES
from dmexp._native import FileBytes
from dmexp.errors import InvalidArgumentError, TruncatedError

# Below this, giving pages back costs more than they weigh.
_WORTH_RELEASING_BYTES = 1 << 20


class Window:
    """The arrays of a mapping that were asked for last.

    Those before them are given back to the system, so that a walk over a large file does not count
    all of it as this process's memory. An array still in use reads its pages again.
    """

    def __init__(self) -> None:
        self._ranges: deque[tuple[int, int]] = deque()
        self._nbytes = 0

    def move(self, mapping: FileBytes, offset: int, nbytes: int) -> None:
        """Note that the array of ``nbytes`` at ``offset`` is about to be handed out."""
        # A writer takes as much together as is left, and is done with what was before.
        while self._nbytes > OWED_BYTES:
            first, length = self._ranges.popleft()
            mapping.give_back(first, length)
            self._nbytes -= length
        if nbytes >= _WORTH_RELEASING_BYTES:
            self._ranges.append((offset, nbytes))
            self._nbytes += nbytes


class MappedFile:
    """An open file and its mapping; where a mapping cannot be had, reading works all the same.

    Parameters
    ----------
    path
        The file. A symbolic link is followed.

    Attributes
    ----------
    path : Path
        As given.
    length_bytes : int
        The file's length when it was opened.

    Raises
    ------
    OSError
        The file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = os.open(
            self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        self._lock = threading.Lock()
        self._open = True
        self._window = Window()
        self.length_bytes = os.fstat(self._descriptor).st_size
        # Empty files and some network mounts cannot be mapped.
        self._map = FileBytes.map(self.path)

    def bytes_at(self, offset: int, count: int) -> bytes:
        """A copy of ``count`` bytes, or fewer where the file ends before."""
        parts = []
        while count > 0:
            # One call reads at most 2 GiB on Linux, less elsewhere.
            part = self._read_once(offset, min(count, 1 << 30))
            if not part:
                break
            parts.append(part)
            offset += len(part)
            count -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_once(self, offset: int, count: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._descriptor, count, offset)
        with self._lock:
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            return os.read(self._descriptor, count)

    def array_at(
        self, offset: int, dims: tuple[int, ...], dtype: np.dtype[Any], what: str
    ) -> np.ndarray[Any, np.dtype[Any]]:
        """A read-only array over the file, at whatever alignment ``offset`` (bytes) has.

        The array keeps the mapping alive and works after `close`. Where the file could not be
        mapped it is a copy. The file's length is looked at first; where another process shortens
        it *between* that look and the use of the array, the lost part reads as zeros and
        `TruncatedError` is raised in the main thread right after.

        Parameters
        ----------
        what
            Names the array in messages, e.g. ``"tensor 'a'"``.

        Raises
        ------
        TruncatedError
            The file has become shorter since it was opened.
        InvalidArgumentError
            The file is closed.
        """
        if not self._open:
            raise InvalidArgumentError(
                "the file object is closed; open the file again.", path=str(self.path)
            )
        self._require_length(what)
        count = 1
        for dim in dims:
            count *= dim
        length = count * dtype.itemsize
        if self._map is None:
            data = self.bytes_at(offset, length)
            if len(data) != length:
                self._require_length(what)
            return np.frombuffer(data, dtype).reshape(dims)
        self._window.move(self._map, offset, length)
        buffer: Any = self._map
        return np.frombuffer(buffer, dtype, count, offset).reshape(dims)

    def close(self) -> None:
        """Close the file. Arrays over it stay valid."""
        if self._open:
            self._open = False
            os.close(self._descriptor)
            # The mapping goes when the last array over it goes.
            self._map = None

    def _require_length(self, what: str) -> None:
        now = os.fstat(self._descriptor).st_size
        if now < self.length_bytes:
            raise TruncatedError(
                f"the file had {self.length_bytes} bytes when it was opened and has {now} now; "
                f"{what} was not read. Something is writing to it: try again when it is complete.",
                path=str(self.path),
                expected=self.length_bytes,
                actual=now,
            )
