"""Read a header front to back through a small window, with every length checked first."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import BinaryIO

from dmexp.errors import FormatError, TruncatedError

WINDOW_BYTES = 1 << 20
"""How much of the file is held at a time. A header of gigabytes costs no more than this."""

_U32 = Struct("<I")
_U64 = Struct("<Q")


class Cursor:
    """A position in a file of known length.

    Ordinary reads rather than a mapping: a file that is cut short while it is read must end in
    an exception, not in a signal, and network file systems serve large reads best.

    Parameters
    ----------
    file
        Opened for reading in binary mode.
    length_bytes
        The length of the file. Nothing beyond it is asked for, whatever the file claims.
    start_bytes
        Where to begin.
    """

    def __init__(self, file: BinaryIO, length_bytes: int, start_bytes: int = 0) -> None:
        self._file = file
        self.length = length_bytes
        self._base = start_bytes
        self._window = b""
        self._at = 0

    @property
    def offset(self) -> int:
        """The position, in bytes from the start of the file."""
        return self._base + self._at

    @property
    def remaining(self) -> int:
        """Bytes between the position and the end of the file."""
        return self.length - self.offset

    def require(self, count: int, what: str) -> None:
        """Refuse when the file cannot hold ``count`` more bytes of ``what``."""
        if count > self.remaining:
            raise TruncatedError(
                f"{what} at byte {self.offset} takes {count} bytes, and the file ends after "
                f"{self.remaining} more. The file is cut off or damaged: fetch it again.",
                expected=self.offset + count,
                actual=self.length,
                offset=self.offset,
            )

    def take(self, count: int, what: str) -> bytes:
        """The next ``count`` bytes."""
        end = self._at + count
        if end > len(self._window):
            self._fill(count, what)
            end = count
        chunk = self._window[self._at : end]
        self._at = end
        return chunk

    def u32(self, what: str) -> int:
        return int(_U32.unpack(self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(_U64.unpack(self.take(8, what))[0])

    def scalar(self, layout: Struct, what: str) -> int | float:
        value: int | float = layout.unpack(self.take(layout.size, what))[0]
        return value

    def string(self, what: str, *, limit_bytes: int | None = None) -> str:
        """A length-prefixed UTF-8 string."""
        start = self.offset
        count = self.u64(f"the length of {what}")
        self.require(count, what)
        if limit_bytes is not None and count > limit_bytes:
            raise FormatError(
                f"{what} at byte {start} is {count} bytes long; at most {limit_bytes} are allowed. "
                "The file is damaged.",
                offset=start,
            )
        return decode_utf8(self.take(count, what), what, start + 8)

    def skip(self, count: int, what: str) -> None:
        """Move past ``count`` bytes without reading them."""
        self.require(count, what)
        end = self._at + count
        if end <= len(self._window):
            self._at = end
        else:
            self._base += end
            self._window = b""
            self._at = 0

    def chunks(self, count: int, what: str) -> Iterator[bytes]:
        """The next ``count`` bytes in pieces no longer than the window."""
        self.require(count, what)
        while count:
            piece = min(count, WINDOW_BYTES)
            yield self.take(piece, what)
            count -= piece

    def skip_strings(self, count: int, what: str) -> None:
        """Move past ``count`` length-prefixed strings without building them."""
        # A vocabulary has hundreds of thousands of entries, so the loop holds nothing but the
        # walk: a length that leads out of the window makes the next unpack fail, however large
        # it is, and `skip` then compares the whole distance with the file.
        unpack = _U64.unpack_from
        while count:
            window, at = self._window, self._at
            try:
                while count:
                    at += 8 + unpack(window, at)[0]
                    count -= 1
            except (StructError, OverflowError):
                pass
            self.skip(at - self._at, what)
            if count:
                self._fill(8, what)

    def _fill(self, count: int, what: str) -> None:
        """Start a new window at the position, of at least ``count`` bytes."""
        self.require(count, what)
        self._base += self._at
        self._at = 0
        self._file.seek(self._base)
        want = min(max(count, WINDOW_BYTES), self.length - self._base)
        window = self._file.read(want)
        if len(window) < count:
            # The length was right when the file was opened: somebody cut it since.
            raise TruncatedError(
                f"{what} at byte {self._base}: {count} bytes expected, {len(window)} could be "
                "read. The file became shorter while it was being read.",
                expected=self._base + count,
                actual=self._base + len(window),
                offset=self._base,
            )
        self._window = window


def decode_utf8(raw: bytes, what: str, offset: int) -> str:
    """Decode, or refuse with the offset of the byte at fault."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{what} is not UTF-8: byte 0x{raw[error.start]:02x} at byte {offset + error.start} "
            "of the file. The file is damaged.",
            offset=offset + error.start,
        ) from None
