"""The tensor list of a GGUF header: every entry checked by itself and against the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from dmexp.errors import (
    FormatError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)

from ._cursor import Cursor
from ._types import TENSOR_TYPES, type_name

RANK_LIMIT = 4
NAME_BYTES_LIMIT = 65_535
"""Of keys and of tensor names."""

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


def read_tensors(cursor: Cursor, count: int, alignment: int) -> tuple[tuple[GgufTensor, ...], int]:
    """Read the list; also give the offset in bytes at which the data begins."""
    infos = [_tensor_info(cursor) for _ in range(count)]
    data_offset = -(-cursor.offset // alignment) * alignment
    return _placed(infos, alignment, data_offset), data_offset


def check_name(name: str, what: str, offset: int) -> None:
    if not name:
        raise FormatError(f"{what} at byte {offset} has an empty name.", offset=offset)
    if not name.isprintable():
        raise FormatError(
            f"{what} at byte {offset}: name {name!r} holds characters that cannot be printed. "
            "The file is damaged.",
            offset=offset,
        )


@dataclass(frozen=True, slots=True)
class _Info:
    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int


def _tensor_info(cursor: Cursor) -> _Info:
    start = cursor.offset
    name = cursor.string("a tensor name", limit_bytes=NAME_BYTES_LIMIT)
    check_name(name, "tensor", start)
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


def _placed(infos: list[_Info], alignment: int, data_offset: int) -> tuple[GgufTensor, ...]:
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


def check_extent_of(tensors: Iterable[GgufTensor], length: int) -> None:
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
