"""Parse the header of a GGUF file: versions 2 and 3, little-endian, nothing taken on trust.

Every count, length and size is compared with the bytes that are left before anything is
allocated for it. Long arrays, such as vocabularies, are walked over and stay in the file. The
tensor data is not touched, so a file that is cut off where the data would begin parses as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dmexp.errors import (
    FileFormatError,
    FormatError,
    LimitExceededError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
)

from ._arrays import read_array
from ._cursor import Cursor
from ._tensors import NAME_BYTES_LIMIT, GgufTensor, check_extent_of, check_name, read_tensors
from ._types import VALUE_STRUCTS, VALUE_TYPES

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
ALIGNMENT_RANGE = (8, 65536)
KEY_LIMIT = 65_536
TENSOR_LIMIT = 131_072
"""Tensors in one file. The largest models published have a few thousand."""

# The least that one entry takes: a key's length, type and value; a tensor's name length, rank,
# type and offset. Both without the name, which has one byte at least.
_LEAST_KEY_BYTES = 8 + 1 + 4 + 1
_LEAST_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says before its data begins.

    Attributes
    ----------
    version : int
        2 or 3.
    architecture : str
        ``general.architecture`` as it is spelled in the file; empty where there is none, which
        is how the later parts of a split file look.
    metadata : Mapping[str, Any]
        Scalars and short arrays as Python values, long arrays as `SkippedArray`.
    tensors : tuple of GgufTensor
        In header order.
    data_offset : int
        Where the data begins, in bytes.
    alignment : int
        In bytes.
    value_types : Mapping[str, str]
        The type that each metadata value was stored with; arrays as ``"array[i32]"``.
    """

    version: int
    architecture: str
    metadata: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]
    data_offset: int
    alignment: int
    value_types: Mapping[str, str] = field(default_factory=dict)


def read_header(path: str | os.PathLike[str], *, check_extent: bool = False) -> GgufHeader:
    """Read the header of one GGUF file, and nothing else.

    Parameters
    ----------
    path
        The file. Of a split model this is one part, seen by itself.
    check_extent
        Whether to refuse tensors that reach beyond the end of the file. Off by default, because
        a header alone answers most questions about a file.

    Returns
    -------
    GgufHeader

    Raises
    ------
    UnsupportedFormatError
        The file is not GGUF.
    UnsupportedError
        GGUF, but version 1 or one not known yet, or big-endian.
    TruncatedError
        A length, a count or a tensor leads beyond the end of the file.
    FormatError, LimitExceededError, SizeOverflowError, UnsupportedShapeError
        The header breaks a rule; the message has the offset.
    UnsupportedDtypeError
        Tensor types that are not known, all of them, each with its number of tensors.
    """
    where = Path(path)
    with where.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        try:
            return _parse(file, length, where, check_extent)
        except (FileFormatError, UnsupportedDtypeError) as error:
            raise error.with_path(str(path)) from None


def _parse(file: BinaryIO, length: int, path: Path, check_extent: bool) -> GgufHeader:
    cursor = Cursor(file, length)
    version = _version(cursor)
    tensor_count = cursor.u64("the tensor count")
    key_count = cursor.u64("the metadata count")
    _bound("metadata entries", key_count, KEY_LIMIT, _LEAST_KEY_BYTES, cursor)
    _bound("tensors", tensor_count, TENSOR_LIMIT, _LEAST_TENSOR_BYTES, cursor)
    metadata, value_types = _metadata(cursor, path, key_count)
    alignment = _alignment(metadata, value_types)
    tensors, data_offset = read_tensors(cursor, tensor_count, alignment)
    if check_extent:
        check_extent_of(tensors, length)
    architecture = metadata.get("general.architecture", "")
    if not isinstance(architecture, str):
        raise FormatError(
            f"key 'general.architecture' is {architecture!r}, expected a string.",
            key="general.architecture",
        )
    return GgufHeader(version, architecture, metadata, tensors, data_offset, alignment, value_types)


def _version(cursor: Cursor) -> int:
    magic = cursor.take(4, "the magic") if cursor.length >= 4 else b""
    if magic == MAGIC[::-1]:
        raise _swapped(magic.decode())
    if magic != MAGIC:
        raise UnsupportedFormatError(
            f"this is not GGUF: the file begins with {magic!r}, expected {MAGIC!r}.",
            kind="unknown",
            command=None,
        )
    version = cursor.u32("the version")
    if version not in VERSIONS:
        # The magic is four letters and reads the same either way; the version tells the order.
        if version & 0xFFFF == 0 and version != 0:
            raise _swapped(f"version {int.from_bytes(version.to_bytes(4, 'little'))}")
        hint = (
            "Version 1 was replaced in 2023: convert the original checkpoint again."
            if version == 1
            else "The file is damaged or newer than this reader."
        )
        raise UnsupportedError(
            f"GGUF version {version} at byte 4; versions 2 and 3 are read. {hint}",
            found=version,
            expected=list(VERSIONS),
        )
    return version


def _swapped(found: str) -> UnsupportedError:
    return UnsupportedError(
        f"this GGUF file is big-endian ({found} with its bytes swapped at the start); only "
        "little-endian files are read. Convert it with gguf_convert_endian.py of the gguf package.",
        found="big-endian",
        expected="little-endian",
    )


def _bound(what: str, count: int, limit: int, least_bytes: int, cursor: Cursor) -> None:
    if count * least_bytes > cursor.remaining:
        raise TruncatedError(
            f"the header announces {count} {what}, which take {count * least_bytes} bytes at "
            f"least, and {cursor.remaining} are left. The file is cut off or damaged: fetch it "
            "again.",
            expected=cursor.offset + count * least_bytes,
            actual=cursor.length,
        )
    if count > limit:
        raise LimitExceededError(
            f"the header announces {count} {what}; at most {limit} are read.",
            limit=limit,
            found=count,
        )


def _metadata(cursor: Cursor, path: Path, count: int) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    types: dict[str, str] = {}
    for index in range(count):
        start = cursor.offset
        key = cursor.string(f"key {index}", limit_bytes=NAME_BYTES_LIMIT)
        check_name(key, "key", start)
        if key in values:
            raise FormatError(
                f"key {key!r} at byte {start} is there twice. Which of the two values holds is "
                "undefined; the file is damaged.",
                key=key,
                offset=start,
            )
        start = cursor.offset
        type_id = cursor.u32(f"the type of key {key!r}")
        if type_id >= len(VALUE_TYPES):
            raise FormatError(
                f"key {key!r}: value type {type_id} at byte {start} is unknown; "
                f"0 to {len(VALUE_TYPES) - 1} exist. The file is damaged.",
                key=key,
                offset=start,
            )
        kind = VALUE_TYPES[type_id]
        if kind == "array":
            inner, values[key] = read_array(cursor, path, f"the value of key {key!r}")
            types[key] = f"array[{inner}]"
        else:
            values[key], types[key] = _scalar(cursor, kind, key), kind
    return values, types


def _scalar(cursor: Cursor, kind: str, key: str) -> str | int | float | bool:
    what = f"the value of key {key!r}"
    if kind == "string":
        return cursor.string(what)
    start = cursor.offset
    value = cursor.scalar(VALUE_STRUCTS[kind], what)
    if kind == "bool":
        if value not in (0, 1):
            raise FormatError(
                f"key {key!r}: byte 0x{value:02x} at byte {start} stands for a bool, and only 0 "
                "and 1 do. The file is damaged.",
                key=key,
                offset=start,
            )
        return value == 1
    return value


def _alignment(metadata: Mapping[str, Any], types: Mapping[str, str]) -> int:
    key = "general.alignment"
    if key not in metadata:
        return DEFAULT_ALIGNMENT
    value = metadata[key]
    low, high = ALIGNMENT_RANGE
    if not isinstance(value, int) or isinstance(value, bool):
        raise FormatError(f"key {key!r} is a {types[key]}, expected an integer.", key=key)
    if not low <= value <= high or value & (value - 1):
        raise FormatError(
            f"key {key!r} is {value}, expected a power of two from {low} to {high}. "
            "The file is damaged.",
            key=key,
            found=value,
        )
    return value
