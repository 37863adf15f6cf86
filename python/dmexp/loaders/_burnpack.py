"""Burnpack, the record format of the burn framework: a CBOR table, then aligned raw tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from dmexp.errors import (
    FileFormatError,
    FormatError,
    LimitExceededError,
    ShapeMismatchError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedShapeError,
)

from ._cbor import decode
from ._mapped import MappedFile

MAGIC = b"NRUB"
VERSION = 1
PREFIX_BYTES = 10
ALIGNMENT_BYTES = 256
LARGEST_METADATA_BYTES = 100 * 1024 * 1024
MOST_TENSORS = 100_000
LARGEST_RANK = 8
LARGEST_TENSOR_BYTES = 10 * 1024**3
LARGEST_FILE_BYTES = 100 * 1024**3

# Name in the file -> canonical name and width in bytes. Flex32 is computed with as it likes and
# stored as f32.
DTYPES = {
    "F64": ("f64", 8),
    "F32": ("f32", 4),
    "Flex32": ("f32", 4),
    "F16": ("f16", 2),
    "BF16": ("bf16", 2),
    "I64": ("i64", 8),
    "I32": ("i32", 4),
    "I16": ("i16", 2),
    "I8": ("i8", 1),
    "U64": ("u64", 8),
    "U32": ("u32", 4),
    "U16": ("u16", 2),
    "U8": ("u8", 1),
}


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """One tensor. ``offset`` is counted in bytes from the start of the file."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    offset: int


def read_burnpack(file: MappedFile, start: int, length: int) -> list[PackedTensor]:
    """Read the table of a burnpack that lies at ``start`` and is ``length`` bytes long.

    Returns
    -------
    list of PackedTensor
        In the order of their data, which is the order in which the model was walked; the table
        itself is sorted by name.

    Raises
    ------
    FileFormatError, UnsupportedDtypeError
        One cause each; nothing is allocated that the section's length does not justify.
    """
    try:
        return _read(file, start, length)
    except (FileFormatError, UnsupportedDtypeError) as error:
        raise error.with_path(str(file.path)) from None


def _read(file: MappedFile, start: int, length: int) -> list[PackedTensor]:
    if length > LARGEST_FILE_BYTES:
        raise _limit("the model section", length, LARGEST_FILE_BYTES, "bytes")
    if length < PREFIX_BYTES:
        raise TruncatedError(
            f"the model section has {length} bytes; its own header needs {PREFIX_BYTES}. The "
            "checkpoint was saved without a model or is damaged.",
            expected=PREFIX_BYTES,
            actual=length,
        )
    magic, version, metadata_bytes = struct.unpack("<4sHI", file.bytes_at(start, PREFIX_BYTES))
    if magic != MAGIC:
        raise FormatError(
            f"the model section starts with {magic.hex(' ')}; a burnpack starts with "
            f"{MAGIC.hex(' ')} (NRUB). The checkpoint is damaged."
        )
    if version != VERSION:
        raise UnsupportedError(
            f"the model section is burnpack version {version}; version {VERSION} is read here.",
            found=version,
            expected=VERSION,
        )
    if metadata_bytes > LARGEST_METADATA_BYTES:
        raise _limit("the metadata", metadata_bytes, LARGEST_METADATA_BYTES, "bytes")
    if metadata_bytes > length - PREFIX_BYTES:
        raise TruncatedError(
            f"the metadata has {metadata_bytes} bytes and the model section ends after "
            f"{length - PREFIX_BYTES}.",
            expected=PREFIX_BYTES + metadata_bytes,
            actual=length,
        )
    metadata = decode(file.bytes_at(start + PREFIX_BYTES, metadata_bytes), most_items=MOST_TENSORS)
    table = metadata.get("tensors") if isinstance(metadata, dict) else None
    if not isinstance(table, dict):
        raise FormatError("the metadata has no table of tensors.", key="tensors")
    if not table:
        raise FormatError("the model section names no tensor.", key="tensors")
    data_start = _aligned(PREFIX_BYTES + metadata_bytes)
    return _checked(table, start + data_start, length - data_start)


def _checked(table: dict[str, Any], data_start: int, data_bytes: int) -> list[PackedTensor]:
    placed = []
    for name, entry in table.items():
        dtype, width, dims, begin, end = _entry(name, entry)
        count = 1
        for dim in dims:
            count *= dim
        if count * width >= 1 << 64:
            raise SizeOverflowError(
                f"tensor {name!r}: dims {list(dims)} are more bytes than 64 bits can count.",
                tensor=name,
                dims=list(dims),
            )
        if end > data_bytes:
            raise TruncatedError(
                f"tensor {name!r}: its data ends at byte {end} of {data_bytes} in the model "
                "section. The checkpoint is truncated or damaged.",
                tensor=name,
                expected=end,
                actual=data_bytes,
            )
        if end - begin > LARGEST_TENSOR_BYTES:
            raise _limit(f"tensor {name!r}", end - begin, LARGEST_TENSOR_BYTES, "bytes")
        if end - begin != count * width:
            raise ShapeMismatchError(
                f"tensor {name!r}: dims {list(dims)} of dtype {dtype} are {count * width} bytes, "
                f"data_offsets [{begin}, {end}] hold {end - begin}.",
                tensor=name,
                conflicts=[
                    {"name": name, "problem": "shape", "expected": list(dims), "found": None}
                ],
            )
        placed.append((begin, end, PackedTensor(name, dtype, dims, data_start + begin)))
    placed.sort(key=lambda item: item[:2])
    position = 0
    for begin, end, tensor in placed:
        if begin != _aligned(position):
            raise FormatError(
                f"tensor {tensor.name!r} begins at byte {begin} of the data; expected "
                f"{_aligned(position)}, the next multiple of {ALIGNMENT_BYTES} after the tensor "
                "before it.",
                tensor=tensor.name,
                key="data_offsets",
            )
        position = end
    if data_bytes - position >= ALIGNMENT_BYTES:
        raise FormatError(
            f"{data_bytes - position} bytes of the model section follow its last tensor.",
            expected=position,
            actual=data_bytes,
        )
    return [tensor for _, _, tensor in placed]


def _entry(name: str, entry: Any) -> tuple[str, int, tuple[int, ...], int, int]:
    if not isinstance(entry, dict):
        raise FormatError(f"tensor {name!r}: its entry is no map.", tensor=name)
    raw_dtype = entry.get("dtype")
    if isinstance(raw_dtype, dict) and len(raw_dtype) == 1:
        # Variants with a payload (Bool, QFloat) are maps of one key.
        raw_dtype = next(iter(raw_dtype))
    if raw_dtype == "Bool":
        dtype, width = "bool", 1
    elif isinstance(raw_dtype, str) and raw_dtype in DTYPES:
        dtype, width = DTYPES[raw_dtype]
    else:
        shown = raw_dtype if isinstance(raw_dtype, str) else type(raw_dtype).__name__
        raise UnsupportedDtypeError(
            f"tensor {name!r}: dtype {shown!r} is not one that can be read. "
            f"Known: {', '.join(DTYPES)}, Bool.",
            tensor=name,
            dtype=shown,
            known=[*DTYPES, "Bool"],
        )
    dims = _sizes(name, "shape", entry.get("shape"))
    offsets = _sizes(name, "data_offsets", entry.get("data_offsets"))
    if len(dims) > LARGEST_RANK:
        raise UnsupportedShapeError(
            f"tensor {name!r} has {len(dims)} dims; at most {LARGEST_RANK} are read.",
            tensor=name,
            dims=None,
            rank=len(dims),
        )
    if 0 in dims:
        raise UnsupportedShapeError(
            f"tensor {name!r} has dims {list(dims)}: no element at all.",
            tensor=name,
            dims=list(dims),
        )
    if len(offsets) != 2 or offsets[1] < offsets[0]:
        raise FormatError(
            f"tensor {name!r}: data_offsets are {list(offsets)}. Expected two, begin and end.",
            tensor=name,
            key="data_offsets",
        )
    return dtype, width, dims, offsets[0], offsets[1]


def _sizes(name: str, key: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int and item >= 0 for item in value):
        raise FormatError(
            f"tensor {name!r}: {key} is no array of integers of 0 or more.", tensor=name, key=key
        )
    return tuple(value)


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _limit(what: str, found: int, limit: int, unit: str) -> LimitExceededError:
    return LimitExceededError(
        f"{what} has {found} {unit}; at most {limit} are read.", found=found, limit=limit
    )
