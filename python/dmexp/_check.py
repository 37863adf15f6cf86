"""What a payload shows, against what its header claims. One table for `load`, `info` and `verify`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ._dtypes import WIDTH_BYTES
from ._header import Header
from .errors import ChecksumError, FormatError, NonFiniteError

Tally = tuple[int, int, int, int, int, float, float, int | None, int, int]
"""count, flushed, subnormal, nan, inf, max_abs, min_nonzero_abs, first_bad, zeros, crc32."""


def check_payload(header: Header, tallies: Sequence[Tally], data: Any) -> None:
    """Everything that the payload shows: checksums, finiteness, and the header's claims.

    ``data`` is a buffer of the whole file.
    """
    check_sums(header, tallies)
    for place, tally in enumerate(tallies):
        check_finite(header, place, tally, data)
    check_claims(header, tallies)


def check_sums(header: Header, tallies: Sequence[Tally]) -> None:
    """Compare the payload's checksum, and each tensor's where the header has one.

    Raises
    ------
    ChecksumError
        Naming the first damaged tensor where tensors have checksums of their own.
    """
    damaged = []
    for place, tally in enumerate(tallies):
        stored = header.index.get(place)[4]
        if stored is not None and stored != tally[9]:
            damaged.append(place)
    if damaged:
        first = damaged[0]
        raise tensor_damage(header, first, tallies[first][9], more=len(damaged) - 1)
    whole = header.index.fold_crc32([tally[9] for tally in tallies])
    if whole != header.payload_crc32:
        raise payload_damage(header, whole)


def tensor_damage(header: Header, place: int, computed: int, *, more: int = 0) -> ChecksumError:
    """The error for one tensor whose bytes are not the ones that were written."""
    name, _, offset, nbytes, stored = header.index.get(place)
    also = f", and {more} more tensors" if more > 1 else ", and 1 more tensor" if more else ""
    return ChecksumError(
        f"tensor {name!r}{also}: checksum is 0x{computed:08x}, header says 0x{stored or 0:08x} "
        f"(payload bytes {offset} to {offset + nbytes}). "
        "The file is damaged or was edited by hand: get it again.",
        stored=f"{stored or 0:08x}",
        computed=f"{computed:08x}",
        tensor=name,
        what="tensor",
        offset=offset,
        nbytes=nbytes,
    )


def payload_damage(header: Header, computed: int) -> ChecksumError:
    """The error for a payload as a whole."""
    where = (
        "every tensor matches its own checksum, so the prefix is damaged"
        if len(header.index) and header.index.all_have_crc32()
        else "the file is damaged or was edited by hand"
    )
    return ChecksumError(
        f"payload: checksum is 0x{computed:08x}, the prefix says 0x{header.payload_crc32:08x}; "
        f"{where}. Get it again, and do not load it.",
        stored=f"{header.payload_crc32:08x}",
        computed=f"{computed:08x}",
        tensor=None,
        what="payload",
    )


def check_finite(header: Header, place: int, tally: Tally, data: Any) -> None:
    """Refuse a tensor that holds a NaN or an infinity.

    Raises
    ------
    NonFiniteError
    """
    index = tally[7]
    if index is None:
        return
    name, dims, offset, _, _ = header.index.get(place)
    width = WIDTH_BYTES[header.dtype]
    at = header.payload_offset + offset + index * width
    value = _value(bytes(memoryview(data)[at : at + width]), header.dtype)
    where = _position(index, dims)
    raise NonFiniteError(
        f"tensor {name!r}, index {list(where)}: the stored value is {value} "
        f"({tally[3]} NaN and {tally[4]} infinite in this tensor). A file never holds such a "
        "value: export again from the original checkpoint.",
        tensor=name,
        index=where,
        value=value,
        dtype=header.dtype,
        suggestion=None,
    )


def _value(raw: bytes, dtype: str) -> float:
    if dtype == "bf16":
        raw = b"\0\0" + raw
    value: float = struct.unpack("<e" if dtype == "f16" else "<f", raw)[0]
    return value


def check_claims(header: Header, tallies: Sequence[Tally]) -> None:
    """Recompute what the header claims of the payload.

    Raises
    ------
    FormatError
        ``max_abs``, ``min_nonzero_abs`` or ``subnormal`` is not what the values give, or more
        values are said to be flushed than there are zeros.
    """
    max_abs = max((tally[5] for tally in tallies), default=0.0)
    least = min((tally[6] for tally in tallies if tally[6]), default=0.0)
    for key, found in (("max_abs", max_abs), ("min_nonzero_abs", least)):
        said = getattr(header, key)
        if _as_f32(said) != _as_f32(found):
            raise _claim(key, said, found)
    subnormal = sum(tally[2] for tally in tallies)
    if header.subnormal is not None and header.subnormal != subnormal:
        raise _claim("subnormal", header.subnormal, subnormal)
    zeros = sum(tally[8] for tally in tallies)
    if header.flushed > zeros:
        raise FormatError(
            f"the header's 'flushed' is {header.flushed}, but only {zeros} values are zero. "
            "The header was edited: export the model again.",
            key="flushed",
            found=header.flushed,
            expected=zeros,
        )


def _position(index: int, dims: Sequence[int]) -> tuple[int, ...]:
    """The place of the index-th value of a row-major tensor."""
    where = []
    for dim in reversed(dims):
        index, axis = divmod(index, dim)
        where.append(axis)
    return tuple(reversed(where))


def _as_f32(value: float) -> float:
    # `struct` and not NumPy: `dmexp info` looks at a file without loading it.
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf")


def _claim(key: str, said: float, found: float) -> FormatError:
    return FormatError(
        f"the header's '{key}' is {said}, but the payload gives {found}. "
        "The header was edited: export the model again.",
        key=key,
        found=said,
        expected=found,
    )
