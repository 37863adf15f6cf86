"""Arrays of a GGUF header: short ones become lists, long ones stay in the file until asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from dmexp.errors import FormatError, LimitExceededError

from ._cursor import Cursor, decode_utf8
from ._types import NUMPY_VALUE_TYPES, VALUE_STRUCTS, VALUE_TYPES

LIST_LIMIT = 1024
"""Numbers and bools up to this count become a list: per-layer values are always this short."""

STRING_LIST_LIMIT = 64
"""Strings up to this count become a list: tags and languages, but no vocabulary."""

NESTING_LIMIT = 2
"""How deep arrays may lie within arrays. No known writer nests at all."""

NESTED_COUNT_LIMIT = 4096
"""How many arrays one array may hold: each costs a step here, not only bytes in the file."""

_U64 = Struct("<Q")


@dataclass(frozen=True, slots=True)
class SkippedArray:
    """A long array that was walked over, not read.

    Attributes
    ----------
    type : str
        The type of the elements: ``"string"``, ``"f32"``, ``"i32"`` …, ``"array"``.
    count : int
        How many elements there are.
    offset : int
        Where the first element begins, in bytes from the start of the file.
    nbytes : int
        How many bytes all elements take.
    path : Path
        The file that holds them.
    """

    type: str
    count: int
    offset: int
    nbytes: int
    path: Path

    def __len__(self) -> int:
        return self.count

    def values(self) -> list[Any]:
        """Read the elements. Costs memory in proportion to ``nbytes``.

        Raises
        ------
        TruncatedError
            When the file became shorter since the header was read.
        FormatError
            When a string is not UTF-8.
        """
        with self.path.open("rb") as file:
            cursor = Cursor(file, os.fstat(file.fileno()).st_size, self.offset)
            if self.type == "array":
                return [
                    listed(read_array(cursor, self.path, "a nested array")[1])
                    for _ in range(self.count)
                ]
            raw = cursor.take(self.nbytes, f"an array of {self.count} {self.type} values")
        if self.type == "string":
            return split_strings(raw, self.count, self.offset)
        return numbers(raw, self.type)

    def __repr__(self) -> str:
        return f"<{self.count} {self.type} values at byte {self.offset}>"


def listed(value: Any) -> list[Any]:
    """The elements of an array of either kind."""
    return value.values() if isinstance(value, SkippedArray) else list(value)


def read_array(
    cursor: Cursor, path: Path, what: str, depth: int = 1
) -> tuple[str, list[Any] | SkippedArray]:
    """Read an array value, or walk over it when it is long; also give its elements' type.

    Every count is compared with the bytes that are left before anything is done with it.
    """
    start = cursor.offset
    type_id = cursor.u32(f"the element type of {what}")
    count = cursor.u64(f"the length of {what}")
    if type_id >= len(VALUE_TYPES):
        raise FormatError(
            f"{what} at byte {start}: element type {type_id} is unknown; "
            f"0 to {len(VALUE_TYPES) - 1} exist. The file is damaged.",
            offset=start,
        )
    kind = VALUE_TYPES[type_id]
    offset = cursor.offset
    if kind == "array":
        _skip_nested(cursor, path, what, count, depth, start)
        return kind, SkippedArray(kind, count, offset, cursor.offset - offset, path)
    if kind == "string":
        # Each string brings its length, eight bytes, however short it is.
        cursor.require(count * 8, f"{what} ({count} strings)")
        if count <= STRING_LIST_LIMIT:
            return kind, [cursor.string(f"string {index} of {what}") for index in range(count)]
        cursor.skip_strings(count, what)
        return kind, SkippedArray(kind, count, offset, cursor.offset - offset, path)
    nbytes = count * VALUE_STRUCTS[kind].size
    cursor.require(nbytes, f"{what} ({count} {kind} values)")
    if count <= LIST_LIMIT:
        raw = cursor.take(nbytes, what)
        if kind == "bool":
            _check_bools(raw, what, offset)
        return kind, numbers(raw, kind)
    if kind == "bool":
        for chunk in cursor.chunks(nbytes, what):
            _check_bools(chunk, what, cursor.offset - len(chunk))
    else:
        cursor.skip(nbytes, what)
    return kind, SkippedArray(kind, count, offset, nbytes, path)


def _skip_nested(cursor: Cursor, path: Path, what: str, count: int, depth: int, start: int) -> None:
    if depth >= NESTING_LIMIT or count > NESTED_COUNT_LIMIT:
        raise LimitExceededError(
            f"{what} at byte {start}: {count} arrays within an array, nested {depth} deep. At most "
            f"{NESTED_COUNT_LIMIT} arrays, nested once, are read. The file is damaged or hostile.",
            limit=NESTED_COUNT_LIMIT,
            found=count,
            offset=start,
        )
    # A nested array brings its type and its count: twelve bytes, even when it is empty.
    cursor.require(count * 12, f"{what} ({count} arrays)")
    for _ in range(count):
        read_array(cursor, path, what, depth + 1)


def numbers(raw: bytes, kind: str) -> list[Any]:
    """Python numbers or bools from packed little-endian values."""
    values = np.frombuffer(raw, NUMPY_VALUE_TYPES[kind])
    found: list[Any] = (values != 0).tolist() if kind == "bool" else values.tolist()
    return found


def split_strings(raw: bytes, count: int, offset: int) -> list[str]:
    """Decode ``count`` length-prefixed strings that fill ``raw`` exactly."""
    unpack = _U64.unpack_from
    found: list[str] = []
    at = 0
    for index in range(count):
        end = at + 8 + unpack(raw, at)[0]
        piece = raw[at + 8 : end]
        try:
            found.append(piece.decode())
        except UnicodeDecodeError:
            decode_utf8(piece, f"element {index} of an array", offset + at + 8)
        at = end
    return found


def _check_bools(raw: bytes, what: str, offset: int) -> None:
    strange = raw.translate(None, b"\0\1")
    if strange:
        where = offset + raw.index(strange[:1])
        raise FormatError(
            f"{what}: byte 0x{strange[0]:02x} at byte {where} stands for a bool, and only 0 and 1 "
            "do. The file is damaged.",
            offset=where,
        )
