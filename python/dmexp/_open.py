"""Opened bytes and their header: what `safe_open`, `load`, `info` and `verify` start from."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from . import _native
from ._check import Tally
from ._header import Header, file_bytes, read_header
from .errors import DmexpError, InvalidArgumentError, TruncatedError

Request = tuple[int, int, Any, bool]
"""Offset in the file, bytes, where the values go (or None), whether they are widened to f32."""

_PART_BYTES = 1 << 20

_ROUND_BYTES = 256 << 20
"""Payload read between two looks at pending signals and at the progress callback."""


class Opened:
    """One file, or the same bytes in memory, with its header checked.

    Attributes
    ----------
    data : buffer
        All bytes, read-only.
    header : Header
    path : str or None
        None for bytes in memory.
    """

    __slots__ = ("data", "file", "header", "path")

    def __init__(
        self, path: object = None, *, memory: bytes | bytearray | memoryview | None = None
    ) -> None:
        self.file: _native.FileBytes | None = None
        self.data: Any
        self.path: str | None = None
        if memory is None:
            self.path = name_of(path)
            found = _native.open_file(self.path)
            if found is not None:
                # Sound in all that can be told without the payload.
                self.file = self.data = found[0]
                self.header = Header.found(found[1])
                return
            self._open_at_length(self.path)
        else:
            self.data = memoryview(memory).cast("B")
        with self.named():
            self.header = read_header(self.data, len(self.data), self.path)

    def _open_at_length(self, path: str) -> None:
        """Open what the quick way did not take, or raise what is wrong with opening it."""
        mode = os.stat(path).st_mode
        # Opening a directory succeeds on some systems and reads nothing sensible.
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(
                f"{path} is a directory; a .dmexp file is expected. "
                f"To make one from it: dmexp export {path}"
            )
        if stat.S_ISREG(mode):
            self.file = self.data = _native.FileBytes(path)
        else:
            self.data = memoryview(_read_stream(path))

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Put the file's name on errors, and turn a file that shrank into one."""
        try:
            yield
        except DmexpError as error:
            if self.path is not None:
                error.with_path(self.path)
            raise
        except EOFError as cause:
            raise self.shrunk() from cause

    def shrunk(self) -> TruncatedError:
        """The error for a file that is shorter than when it was opened."""
        now = self.file.current_len() if self.file is not None else len(self.data)
        return TruncatedError(
            f"the file shrank from {len(self.data)} to {now} bytes while it was open. "
            "Another program wrote to it: get it again.",
            path=self.path,
            expected=len(self.data),
            actual=now,
        )

    def require_whole(self) -> None:
        """Raise `TruncatedError` where the file is shorter than when it was opened."""
        if self.file is not None and not (
            self.file.intact() and self.file.current_len() >= len(self.data)
        ):
            raise self.shrunk()

    def read(self, requests: Sequence[Request], threads: int) -> list[Tally]:
        """Read, check and place tensors by large sequential reads, in the order given."""
        tallies: list[Tally] = []
        with self.named():
            for batch in _batches(requests):
                if self.file is not None:
                    tallies += self.file.read(self.header.dtype, batch, threads)
                else:
                    tallies += _native.read_memory(self.data, self.header.dtype, batch, threads)
        return tallies

    def scan_one(self, offset: int, nbytes: int) -> Tally:
        """The tally of one run of stored values, read where it lies."""
        if self.file is None:
            request = (offset, nbytes, None, False)
            return _native.read_memory(self.data, self.header.dtype, [request], 1)[0]
        return self.file.scan(offset, nbytes, self.header.dtype)

    def scan(self, threads: int) -> list[Tally]:
        """The tallies of all tensors."""
        header = self.header
        entries = (header.index.get(place) for place in range(len(header.index)))
        requests = [(header.payload_offset + e[2], e[3], None, False) for e in entries]
        return self.read(requests, threads)


def _read_stream(path: str) -> bytearray:
    """The bytes of a pipe or a device, which may have no end: no more than its prefix calls for.

    One byte beyond that shows that there are too many. Of another kind of file, the bytes that
    tell which.
    """
    from ._sniff import HEAD_BYTES

    with open(path, "rb") as file:
        data = bytearray(file.read(HEAD_BYTES))
        wanted = file_bytes(data) + 1
        while len(data) < wanted:
            # In pieces, since memory is owed to bytes that came and not to bytes that were claimed.
            part = file.read(min(wanted - len(data), _PART_BYTES))
            if not part:
                break
            data += part
    return data


def _batches(requests: Sequence[Request]) -> Iterator[list[Request]]:
    batch: list[Request] = []
    size = 0
    for request in requests:
        batch.append(request)
        size += request[1]
        if size >= _ROUND_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def name_of(path: object) -> str:
    """A path in any of its types as text.

    Raises
    ------
    TypeError
        Naming the accepted types.
    InvalidArgumentError
        Where it cannot be a path: it is most likely a file's content.
    """
    try:
        name = os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"path is {type(path).__name__}; str, bytes and os.PathLike are accepted "
            "(for bytes in memory: dmexp.load)"
        ) from None
    if "\0" in name:
        raise InvalidArgumentError(
            f"path has a zero byte in it, which no path has ({len(name)} characters in all). "
            "For a file's bytes in memory: dmexp.load.",
            argument="path",
        )
    return name
