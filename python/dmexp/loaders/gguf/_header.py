"""Parse the header of a GGUF file: versions 2 and 3, little-endian, nothing taken on trust.

Every count, length and size is compared with the bytes that are left before anything is
allocated for it. Long arrays, such as vocabularies, are walked over and stay in the file. The
tensor data is not touched, so a file that is cut off where the data would begin parses as well.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from dmexp.errors import (
    FormatError,
    LimitExceededError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
    UnsupportedShapeError,
)

from ._arrays import read_array
from ._cursor import Cursor
from ._types import TENSOR_TYPES, VALUE_STRUCTS, VALUE_TYPES, type_name

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
ALIGNMENT_RANGE = (8, 65536)
RANK_LIMIT = 4
KEY_BYTES_LIMIT = 65_535
KEY_LIMIT = 65_536
TENSOR_LIMIT = 131_072
"""Tensors in one file. The largest models published have a few thousand."""

# The least that one entry takes: a key's length, type and value; a tensor's name length, rank,
# type and offset. Both without the name, which has one byte at least.
_LEAST_KEY_BYTES = 8 + 1 + 4 + 1
_LEAST_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8

_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor as its header describes it.

    ``dims`` is in checkpoint order, slowest axis first, the reverse of the header's list.
    ``offset`` is absolute, in bytes from the start of the part that holds the tensor.
    """

    name: str
    dims: tuple[int, ...]
    type_name: str
    type_id: int
    offset: int
    nbytes: int
    part: int = 0


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
        except (
            FormatError,
            LimitExceededError,
            SizeOverflowError,
            TruncatedError,
            UnsupportedDtypeError,
            UnsupportedError,
            UnsupportedFormatError,
            UnsupportedShapeError,
        ) as error:
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
    infos = [_tensor_info(cursor) for _ in range(tensor_count)]
    data_offset = -(-cursor.offset // alignment) * alignment
    tensors = _tensors(infos, alignment, data_offset)
    if check_extent:
        _check_extent(tensors, length)
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
        key = cursor.string(f"key {index}", limit_bytes=KEY_BYTES_LIMIT)
        _check_name(key, "key", start)
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


def _check_name(name: str, what: str, offset: int) -> None:
    if not name:
        raise FormatError(f"{what} at byte {offset} has an empty name.", offset=offset)
    if not name.isprintable():
        raise FormatError(
            f"{what} at byte {offset}: name {name!r} holds characters that cannot be printed. "
            "The file is damaged.",
            offset=offset,
        )


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


@dataclass(frozen=True, slots=True)
class _Info:
    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int


def _tensor_info(cursor: Cursor) -> _Info:
    start = cursor.offset
    name = cursor.string("a tensor name", limit_bytes=KEY_BYTES_LIMIT)
    _check_name(name, "tensor", start)
    at = cursor.offset
    rank = cursor.u32(f"the rank of tensor {name!r}")
    if rank > RANK_LIMIT:
        raise UnsupportedShapeError(
            f"tensor {name!r}: rank {rank} at byte {at}; GGUF tensors have at most {RANK_LIMIT} "
            "dims. The file is damaged.",
            tensor=name,
            dims=None,
            offset=at,
        )
    what = f"the dims of tensor {name!r}"
    dims = tuple(reversed([cursor.u64(what) for _ in range(rank)]))
    if 0 in dims:
        raise UnsupportedShapeError(
            f"tensor {name!r}: dims {list(dims)} at byte {at + 4} hold a zero, and GGUF cannot "
            "store a tensor without elements.",
            tensor=name,
            dims=list(dims),
            offset=at,
        )
    type_id = cursor.u32(f"the type of tensor {name!r}")
    return _Info(name, dims, type_id, cursor.u64(f"the offset of tensor {name!r}"))


def _tensors(infos: list[_Info], alignment: int, data_offset: int) -> tuple[GgufTensor, ...]:
    check_duplicates(info.name for info in infos)
    unknown = Counter(info.type_id for info in infos if info.type_id not in TENSOR_TYPES)
    if unknown:
        raise unsupported_types({type_name(kind): n for kind, n in sorted(unknown.items())})
    tensors = []
    for info in infos:
        kind = TENSOR_TYPES[info.type_id]
        nbytes = _size_bytes(info)
        if info.offset % alignment:
            raise FormatError(
                f"tensor {info.name!r}: offset {info.offset} is not a multiple of the alignment, "
                f"{alignment}. The file is damaged.",
                tensor=info.name,
                offset=info.offset,
            )
        start = data_offset + info.offset
        if start + nbytes > _INT64_MAX:
            raise SizeOverflowError(
                f"tensor {info.name!r}: offset {info.offset} plus {nbytes} bytes is beyond 64 "
                "bits. The file is damaged.",
                tensor=info.name,
                dims=list(info.dims),
            )
        tensors.append(GgufTensor(info.name, info.dims, kind.name, kind.id, start, nbytes))
    _check_overlap(tensors)
    return tuple(tensors)


def _size_bytes(info: _Info) -> int:
    kind = TENSOR_TYPES[info.type_id]
    elements = 1
    for dim in info.dims:
        elements *= dim
    if elements > _INT64_MAX or elements * kind.nbytes > _INT64_MAX:
        raise SizeOverflowError(
            f"tensor {info.name!r}: dims {list(info.dims)} take more than 2^63 bytes. "
            "The file is damaged.",
            tensor=info.name,
            dims=list(info.dims),
        )
    row = info.dims[-1] if info.dims else 1
    if row % kind.elements:
        raise UnsupportedShapeError(
            f"tensor {info.name!r}: rows of {row} elements cannot be stored as {kind.name}, whose "
            f"blocks have {kind.elements}. The file is damaged.",
            tensor=info.name,
            dims=list(info.dims),
        )
    return elements // kind.elements * kind.nbytes


def check_duplicates(names: Iterable[str], where: str = "") -> None:
    """Refuse a list in which a tensor name occurs twice, naming all that do."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        listed = ", ".join(repr(name) for name in twice[:8])
        more = f" and {len(twice) - 8} more" if len(twice) > 8 else ""
        raise FormatError(
            f"tensor names occur more than once{where}: {listed}{more}. Which of the two is meant "
            "is undefined; the file is damaged.",
            names=twice,
        )


def unsupported_types(counts: Mapping[str, int]) -> UnsupportedDtypeError:
    """One refusal for all types that are not read, each with its number of tensors."""
    listed = ", ".join(
        f"{name}: {count} tensor{'s' * (count != 1)}" for name, count in counts.items()
    )
    return UnsupportedDtypeError(
        f"tensor types that are not read: {listed}. Export the model again as F32, F16, BF16 or "
        "one of the common quantized types.",
        dtype=", ".join(counts),
        types=dict(counts),
        known=sorted(kind.name for kind in TENSOR_TYPES.values()),
    )


def _check_overlap(tensors: list[GgufTensor]) -> None:
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for before, after in pairwise(ordered):
        end = before.offset + before.nbytes
        if after.offset < end:
            raise FormatError(
                f"tensors {before.name!r} and {after.name!r} overlap: the first takes bytes "
                f"{before.offset}–{end - 1}, the second begins at {after.offset}. The file is "
                "damaged.",
                tensors=[before.name, after.name],
                offset=after.offset,
            )


def _check_extent(tensors: Iterable[GgufTensor], length: int) -> None:
    beyond = [tensor for tensor in tensors if tensor.nbytes > length - tensor.offset]
    if beyond:
        first = beyond[0]
        end = max(tensor.offset + tensor.nbytes for tensor in beyond)
        more = f" {len(beyond)} tensors in all reach beyond the end." if len(beyond) > 1 else ""
        raise TruncatedError(
            f"tensor {first.name!r} takes bytes {first.offset}–{first.offset + first.nbytes - 1}, "
            f"and the file ends after {length}.{more} At least {end} bytes are expected: the file "
            "is cut off, fetch it again.",
            expected=end,
            actual=length,
            tensor=first.name,
        )
