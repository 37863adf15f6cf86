"""Arrays on their way into a file: what is accepted, and how it becomes plain runs of bytes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._dtypes import NUMPY_DTYPES, source_dtype
from .errors import (
    InvalidArgumentError,
    NonFiniteError,
    UnsupportedDtypeError,
    ValueOverflowError,
)

Array = np.ndarray[Any, Any]

SEGMENT_BYTES = 64 << 20
"""Source bytes handed to native code at a time, so that Ctrl-C and progress are not kept waiting."""

OWED_BYTES = 48 << 20
"""Bytes of source that are kept in memory for nothing but being written together: copies made for
that, and pages of a mapped file, which its loader gives back afterwards."""

_COPY_BYTES = 4 << 20
"""Bytes of an array that cannot be read in place which are copied at a time."""


_HUGE_PAGE_BYTES = 2 << 20
_HUGE_FROM_BYTES = 4 << 20
"""Where NumPy starts to ask for huge pages."""


def new_array(dims: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """As `numpy.empty`, but large arrays start with a huge page of memory.

    Huge pages cover what lies between two multiples of 2 MiB. Of an array of 5 MiB that starts
    anywhere that is half or less, and the rest comes from the system in 512 times as many steps:
    filling many such arrays was measured to take twice as long. The 2 MiB that are asked for too
    are address space, not memory, but for what the last huge page has more than the array.
    """
    nbytes = math.prod(dims) * dtype.itemsize
    if nbytes < _HUGE_FROM_BYTES or sys.platform != "linux":
        return np.empty(dims, dtype)
    memory = np.empty(nbytes + _HUGE_PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % _HUGE_PAGE_BYTES
    return memory[start : start + nbytes].view(dtype).reshape(dims)


def as_array(value: Any, name: str | None) -> Array:
    """``value`` as a NumPy array that shares its memory where that is possible.

    NumPy arrays, anything NumPy can view or convert, and PyTorch tensors on the CPU (bfloat16 by
    its bits; PyTorch itself is not imported). The value is not changed. ``name`` is the tensor's,
    or None where there is none.

    Raises
    ------
    InvalidArgumentError
        For a PyTorch tensor that requires grad or lies on another device, for a masked array, and
        for what NumPy cannot make an array of.
    """
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            raise InvalidArgumentError(
                f"{_subject(name)} is a masked array, and masks are not kept. Pass .filled(value).",
                argument=_argument(name),
            )
        return np.asarray(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        return _from_torch(value, name)
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as cause:
        raise InvalidArgumentError(
            f"{_subject(name)} cannot be made an array: {cause}.", argument=_argument(name)
        ) from cause


def _subject(name: str | None) -> str:
    return "the array" if name is None else f"tensor {name!r}"


def _argument(name: str | None) -> str:
    return "array" if name is None else "tensors"


def _from_torch(value: Any, name: str | None) -> Array:
    if value.requires_grad:
        cure = ".detach()"
    elif value.device.type != "cpu":
        cure = ".cpu()"
    elif value.layout is not sys.modules["torch"].strided:
        cure = ".to_dense()"
    else:
        torch = sys.modules["torch"]
        if value.dtype is torch.bfloat16:
            # NumPy has no bfloat16 of its own, so the tensor goes through as bits.
            return np.asarray(value.view(torch.int16).numpy()).view(NUMPY_DTYPES["bf16"])
        return np.asarray(value.numpy())
    raise InvalidArgumentError(
        f"{_subject(name)} is a PyTorch tensor that NumPy cannot see into "
        f"(device {value.device.type}, requires_grad {value.requires_grad}). Pass it as x{cure}.",
        argument=_argument(name),
    )


def require_float(array: Array, name: str | None) -> str:
    """The canonical dtype of an array that can be narrowed.

    Raises
    ------
    UnsupportedDtypeError
        For integers, booleans, complex numbers, objects and anonymous two-byte voids. The message
        names the tensor, its dtype and the way out.
    """
    dtype = source_dtype(array.dtype)
    if dtype is not None:
        return dtype
    kind = array.dtype.kind
    if kind in "iub":
        cure = "convert it with astype('float32') if it really holds weights"
        if name is not None:
            cure = f"leave it out, or {cure}"
    elif kind == "c":
        cure = "take its real and imaginary parts as two arrays"
    elif array.dtype == np.dtype("V2"):
        cure = (
            "two-byte voids are usually bfloat16 that lost its name: "
            "if so, pass array.view(ml_dtypes.bfloat16)"
        )
    else:
        cure = "convert it to float32 first"
    raise UnsupportedDtypeError(
        f"{_subject(name)} has dtype {array.dtype}; float32, float64, float16 and bfloat16 can be "
        f"{'narrowed' if name is None else 'stored'}. To go on, {cure}.",
        tensor=name,
        dtype=str(array.dtype),
        known=["f32", "f64", "f16", "bf16"],
    )


def segments(array: Array, dtype: str) -> Iterator[Array]:
    """An array as flat runs of little-endian values, in row-major order.

    What lies in memory like that already is not copied. Anything else (strided, reversed,
    broadcast, column-major, big-endian) is copied, a few mebibytes at a time.

    Yields
    ------
    ndarray of uint8
    """
    wanted = NUMPY_DTYPES[dtype]
    if array.size == 0:
        return
    if array.flags.c_contiguous and array.dtype == wanted:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, SEGMENT_BYTES):
            yield flat[start : start + SEGMENT_BYTES]
    else:
        for part in _parts(array):
            yield np.ascontiguousarray(part, dtype=wanted).reshape(-1).view(np.uint8)


def _parts(array: Array) -> Iterator[Array]:
    if array.nbytes <= _COPY_BYTES or array.ndim == 0:
        yield array
        return
    rows = max(1, _COPY_BYTES * array.shape[0] // array.nbytes)
    for start in range(0, array.shape[0], rows):
        part = array[start : start + rows]
        if part.shape[0] == 1 and part.nbytes > _COPY_BYTES:
            yield from _parts(part[0])
        else:
            yield part


def non_finite(name: str, array: Array, index: int, dtype: str) -> NonFiniteError:
    """The error for value number ``index`` (row-major) of a tensor, which ``dtype`` cannot hold."""
    where = tuple(int(axis) for axis in np.unravel_index(index, array.shape)) if array.ndim else ()
    value = float(array[where])
    place = f"tensor {name!r}, index {list(where)}: "
    facts: dict[str, Any] = {"tensor": name, "index": where, "value": value, "dtype": dtype}
    if not np.isfinite(value):
        return NonFiniteError(
            f"{place}the value is {value}. No dtype makes it finite, and a file never holds such "
            "a value: repair the checkpoint, or leave the tensor out.",
            suggestion=None,
            **facts,
        )
    suggestion = suggest(value, dtype)
    way_out = (
        f"Use dtype {suggestion!r}."
        if suggestion
        else "No dtype of the format holds it: rescale the tensor."
    )
    return ValueOverflowError(
        f"{place}the value {value!r} is beyond {dtype}, which would store it as infinite. {way_out}",
        suggestion=suggestion,
        **facts,
    )


def suggest(value: float, dtype: str) -> str | None:
    """A dtype that keeps ``value`` finite where ``dtype`` does not, the narrowest first."""
    with np.errstate(over="ignore"):
        for other in ("bf16", "f32"):
            if other != dtype and np.isfinite(np.float64(value).astype(NUMPY_DTYPES[other])):
                return other
    return None
