"""The part of CBOR (RFC 8949) that checkpoints use, read strictly.

Maps with text keys, arrays, text, integers, floats and the three simple values, all of definite
length. No tags, no repeated keys, nothing after the value. A general library would take tags
that build dates, regular expressions and cyclic lists, and would be one more thing to install
before a training checkpoint can be exported.
"""

from __future__ import annotations

import struct
from typing import Any

from dmexp.errors import FormatError, LimitExceededError

LARGEST_DEPTH = 128
_SIMPLE = {20: False, 21: True, 22: None}
_FLOATS = {25: "e", 26: "f", 27: "d"}


def decode(data: bytes, *, most_items: int) -> Any:
    """Decode one value that fills ``data`` exactly.

    Parameters
    ----------
    data
        The encoded bytes.
    most_items
        The longest array or map that is accepted. A length is compared with it, and with the
        bytes that remain, before anything is built.

    Raises
    ------
    FormatError
        Not the CBOR described above; ``offset`` is the byte at fault.
    LimitExceededError
        Deeper than 128 levels, or an array or a map longer than ``most_items``.
    """
    reader = _Reader(data, most_items)
    value = reader.value(0)
    if reader.position != len(data):
        raise reader.fault(f"{len(data) - reader.position} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: bytes, most_items: int) -> None:
        self.data = data
        self.most_items = most_items
        self.position = 0

    def fault(self, problem: str) -> FormatError:
        return FormatError(
            f"the metadata is not the CBOR that is expected: {problem} (byte {self.position} of it). "
            "The file is damaged.",
            offset=self.position,
        )

    def value(self, depth: int) -> Any:
        if depth > LARGEST_DEPTH:
            raise LimitExceededError(
                f"the metadata is nested deeper than {LARGEST_DEPTH} levels.",
                limit=LARGEST_DEPTH,
                found=depth,
            )
        kind, low = divmod(self._take(1)[0], 32)
        if kind == 7:
            return self._simple(low)
        number = self._argument(low)
        if kind == 0:
            return number
        if kind == 1:
            return -1 - number
        if kind == 3:
            return self._text(number)
        if kind == 4:
            self._bound(number, 1)
            return [self.value(depth + 1) for _ in range(number)]
        if kind == 5:
            self._bound(number, 2)
            return self._map(number, depth)
        raise self.fault("a byte string" if kind == 2 else "a tag")

    def _argument(self, low: int) -> int:
        if low < 24:
            return low
        if low > 27:
            raise self.fault("an indefinite or reserved length")
        return int.from_bytes(self._take(1 << (low - 24)), "big")

    def _simple(self, low: int) -> Any:
        if low in _FLOATS:
            size = 1 << (low - 24)
            return struct.unpack(">" + _FLOATS[low], self._take(size))[0]
        if low not in _SIMPLE:
            raise self.fault("a simple value that is not false, true or null")
        return _SIMPLE[low]

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for _ in range(count):
            kind, low = divmod(self._take(1)[0], 32)
            if kind != 3:
                raise self.fault("a key that is no text")
            key = self._text(self._argument(low))
            if key in result:
                raise self.fault(f"key {key!r} twice in one map")
            result[key] = self.value(depth + 1)
        return result

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise self.fault("text that is not UTF-8") from None

    def _bound(self, count: int, least_bytes: int) -> None:
        if count * least_bytes > len(self.data) - self.position:
            raise self.fault(f"{count} items announced, fewer bytes left")
        if count > self.most_items:
            raise LimitExceededError(
                f"the metadata has an array or a map of {count} items; at most {self.most_items} "
                "are read.",
                limit=self.most_items,
                found=count,
            )

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise self.fault(f"{count} bytes expected, {len(self.data) - self.position} left")
        taken = self.data[self.position : end]
        self.position = end
        return taken
