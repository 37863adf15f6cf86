"""The header of a safetensors file: from its bytes to a checked list of tensors.

Statuses follow the LIS project's reader where that one looks; rules that it leaves open are
closed here and refused as ``FORMAT``. ``docs/loaders.md`` lists both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dmexp.errors import (
    FormatError,
    ShapeMismatchError,
    SizeOverflowError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)

from ._json import BEYOND_64_BITS, kind_of, parse_object

LARGEST_HEADER_BYTES = 100 * 1024 * 1024
LARGEST_RANK = 8
PREFIX_BYTES = 8
METADATA_KEY = "__metadata__"

WIDTH_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
    "C64": 8,
}
"""Every dtype that can be read, as the header spells it, with its width in bytes."""

_SCALED = ("F8_", "F6_", "F4", "E8M0", "MX")


@dataclass(frozen=True, slots=True)
class HeaderTensor:
    """One tensor of the header. ``begin`` and ``end`` are bytes from the start of the payload."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    begin: int
    end: int


def header_length(prefix: bytes, file_bytes: int, *, path: str) -> int:
    """Read and bound the header's length, in bytes, before anything of that size is allocated.

    Raises
    ------
    FormatError
        Fewer than 8 bytes; a length of 0, above 100 MiB, or beyond the end of the file.
    """
    if len(prefix) < PREFIX_BYTES:
        raise FormatError(
            f"the file has {file_bytes} bytes; a safetensors file starts with 8 bytes that hold "
            "its header's length. The file is truncated: download or save it again.",
            path=path,
            expected=PREFIX_BYTES,
            actual=file_bytes,
        )
    (length,) = struct.unpack("<Q", prefix[:PREFIX_BYTES])
    if length == 0:
        raise FormatError(
            "the header's length is 0 bytes. A header holds at least one tensor.", path=path
        )
    if length > LARGEST_HEADER_BYTES:
        raise FormatError(
            f"the header's length is {length} bytes; at most {LARGEST_HEADER_BYTES} are read. "
            "The first 8 bytes are no header length: this is no safetensors file, or a damaged one.",
            path=path,
            found=length,
            limit=LARGEST_HEADER_BYTES,
        )
    if length > file_bytes - PREFIX_BYTES:
        raise FormatError(
            f"the header's length is {length} bytes and the file holds {file_bytes - PREFIX_BYTES} "
            "after the prefix. The file is truncated: download or save it again.",
            path=path,
            expected=PREFIX_BYTES + length,
            actual=file_bytes,
        )
    return int(length)


def parse_header(
    data: bytes, payload_bytes: int, *, path: str
) -> tuple[list[HeaderTensor], dict[str, str]]:
    """Parse and check a whole header against the payload that follows it.

    Parameters
    ----------
    data
        The header's bytes.
    payload_bytes
        How many bytes of the file follow the header.

    Returns
    -------
    tuple
        The tensors in payload order, and the string values of ``__metadata__``.

    Raises
    ------
    FormatError, UnsupportedDtypeError, UnsupportedShapeError, SizeOverflowError, ShapeMismatchError
        One cause each; the message names the tensor.
    """
    parsed = parse_object(data, path=path)
    raw_metadata = parsed.pop(METADATA_KEY, None)
    metadata: dict[str, str] = {}
    if isinstance(raw_metadata, dict):
        # The reference allows strings alone; LIS skips whatever is there. So do we.
        metadata = {key: text for key, text in raw_metadata.items() if isinstance(text, str)}
    if not parsed:
        raise FormatError("the header names no tensor. Expected at least one.", path=path)
    tensors = [_tensor(name, entry, payload_bytes, path) for name, entry in parsed.items()]
    _refuse_scaled(tensors, path)
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    _refuse_gaps(tensors, payload_bytes, path)
    return tensors, metadata


def _tensor(name: str, entry: Any, payload_bytes: int, path: str) -> HeaderTensor:
    if not isinstance(entry, dict):
        raise FormatError(
            f"tensor {name!r}: its entry is of kind {kind_of(entry)}. Expected an object with "
            "dtype, shape and data_offsets.",
            path=path,
            tensor=name,
        )
    dtype = _field(entry, "dtype", str, name, path)
    shape = _field(entry, "shape", list, name, path)
    offsets = _field(entry, "data_offsets", list, name, path)
    width = _width(name, dtype, path)
    dims = _dims(name, shape, path)
    begin, end = _offsets(name, offsets, payload_bytes, path)
    count = 1
    for dim in dims:
        count *= dim
    if count * (width or 1) >= BEYOND_64_BITS:
        raise SizeOverflowError(
            f"tensor {name!r}: dims {list(dims)} of dtype {dtype} are more bytes than 64 bits "
            "can count. The header is damaged.",
            path=path,
            tensor=name,
            dims=list(dims),
        )
    if width is not None and end - begin != count * width:
        raise ShapeMismatchError(
            f"tensor {name!r}: dims {list(dims)} of dtype {dtype} are {count * width} bytes, "
            f"data_offsets [{begin}, {end}] hold {end - begin}. Header and payload disagree: "
            "the file is damaged or was edited by hand.",
            path=path,
            tensor=name,
            conflicts=[{"name": name, "problem": "shape", "expected": list(dims), "found": None}],
            expected_bytes=count * width,
            found_bytes=end - begin,
        )
    return HeaderTensor(name, dtype, dims, begin, end)


def _field(entry: dict[str, Any], key: str, kind: type, name: str, path: str) -> Any:
    if key not in entry:
        raise FormatError(
            f"tensor {name!r}: {key} is missing. Expected dtype, shape and data_offsets.",
            path=path,
            tensor=name,
            key=key,
        )
    value = entry[key]
    if not isinstance(value, kind):
        wanted = "a string" if kind is str else "an array of integers"
        raise FormatError(
            f"tensor {name!r}: {key} is of kind {kind_of(value)}. Expected {wanted}.",
            path=path,
            tensor=name,
            key=key,
        )
    return value


def _width(name: str, dtype: str, path: str) -> int | None:
    width = WIDTH_BYTES.get(dtype)
    if width is None and not dtype.startswith(_SCALED):
        raise UnsupportedDtypeError(
            f"tensor {name!r}: dtype {dtype!r} is not one that can be read. "
            f"Known: {', '.join(WIDTH_BYTES)}.",
            path=path,
            tensor=name,
            dtype=dtype,
            known=list(WIDTH_BYTES),
        )
    return width


def _dims(name: str, shape: list[Any], path: str) -> tuple[int, ...]:
    if len(shape) > LARGEST_RANK:
        raise UnsupportedShapeError(
            f"tensor {name!r} has {len(shape)} dims; at most {LARGEST_RANK} are read.",
            path=path,
            tensor=name,
            dims=None,
            rank=len(shape),
        )
    for dim in shape:
        _require_size(dim, "a dim", name, "shape", path)
    if 0 in shape:
        raise UnsupportedShapeError(
            f"tensor {name!r} has dims {shape}: no element at all. A checkpoint saved in the "
            "middle of sharded training holds such placeholders, and the weights are elsewhere: "
            "gather the shards with the training framework and save again.",
            path=path,
            tensor=name,
            dims=list(shape),
        )
    return tuple(shape)


def _offsets(name: str, offsets: list[Any], payload_bytes: int, path: str) -> tuple[int, int]:
    if len(offsets) != 2:
        raise FormatError(
            f"tensor {name!r}: data_offsets holds {len(offsets)} values. Expected two, begin and end.",
            path=path,
            tensor=name,
            key="data_offsets",
        )
    for offset in offsets:
        _require_size(offset, "an offset", name, "data_offsets", path)
    begin, end = offsets
    if end < begin or end > payload_bytes:
        problem = (
            "ends before it begins"
            if end < begin
            else f"runs past the payload's {payload_bytes} bytes: the file is truncated or damaged"
        )
        raise FormatError(
            f"tensor {name!r}: data_offsets [{begin}, {end}] {problem}.",
            path=path,
            tensor=name,
            key="data_offsets",
            expected=payload_bytes,
            actual=end,
        )
    return begin, end


def _require_size(value: Any, what: str, name: str, key: str, path: str) -> None:
    # type() rather than isinstance: True is an int to Python and not to JSON.
    if type(value) is not int:
        found = kind_of(value) if not isinstance(value, float) else repr(value)
        raise FormatError(
            f"tensor {name!r}: {what} in {key} is {found}. Expected an integer of 0 or more.",
            path=path,
            tensor=name,
            key=key,
        )
    if value >= BEYOND_64_BITS:
        raise SizeOverflowError(
            f"tensor {name!r}: {what} in {key} is beyond 64 bits. The header is damaged.",
            path=path,
            tensor=name,
            dims=None,
        )


def _refuse_scaled(tensors: Iterable[HeaderTensor], path: str) -> None:
    scaled = [tensor for tensor in tensors if tensor.dtype not in WIDTH_BYTES]
    if not scaled:
        return
    first = scaled[0]
    others = f" (and {len(scaled) - 1} more)" if len(scaled) > 1 else ""
    raise UnsupportedDtypeError(
        f"tensor {first.name!r}{others} is {first.dtype}: a quantised dtype, whose values mean "
        "nothing without the scale that belongs to them. Casting them would be off by that "
        "scale. Dequantise the model with the tool that quantised it, or take the original "
        "weights.",
        path=path,
        tensor=first.name,
        tensors=[tensor.name for tensor in scaled],
        dtype=first.dtype,
        known=list(WIDTH_BYTES),
    )


def _refuse_gaps(tensors: list[HeaderTensor], payload_bytes: int, path: str) -> None:
    """Every byte of the payload belongs to exactly one tensor, or something is hidden in it."""
    position = 0
    before = "the payload's start"
    for tensor in tensors:
        if tensor.begin != position:
            problem = (
                f"overlaps {before}, which ends at {position}"
                if tensor.begin < position
                else f"leaves {tensor.begin - position} bytes unused after {before}"
            )
            raise FormatError(
                f"tensor {tensor.name!r}: data_offsets [{tensor.begin}, {tensor.end}] {problem}. "
                "Tensors must lie back to back: save the file again with the safetensors library.",
                path=path,
                tensor=tensor.name,
                key="data_offsets",
            )
        position = tensor.end
        before = f"tensor {tensor.name!r}"
    if position != payload_bytes:
        raise FormatError(
            f"{payload_bytes - position} bytes follow the last tensor, {before}, which ends at "
            f"byte {position} of {payload_bytes}. Expected nothing after it: the file is damaged or "
            "carries something else.",
            path=path,
            expected=position,
            actual=payload_bytes,
        )
