"""Narrowing and widening of whole arrays."""

from __future__ import annotations

import sys
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from . import _native
from ._arrays import Array, as_array, require_float, segments, suggest
from ._dtypes import NUMPY_DTYPES, WIDTH_BYTES, storage_dtype
from ._native import NarrowStats
from .errors import InvalidArgumentError, UnsupportedDtypeError, ValueOverflowError

_OVERFLOW = ("raise", "inf")


def narrow(
    array: ArrayLike,
    dtype: DTypeLike = "bf16",
    *,
    out: Array | None = None,
    overflow: Literal["raise", "inf"] = "raise",
) -> Array:
    """Round an array to a narrower dtype, each value once, to nearest with ties to even.

    Parameters
    ----------
    array : array_like
        float32, float64, float16 or bfloat16 values of any shape, order, stride, byte order and
        alignment; also a PyTorch tensor on the CPU, or what NumPy makes a float array of.
        Not changed.
    dtype : str or dtype, default "bf16"
        ``"bf16"``, ``"f16"`` or ``"f32"``, or another spelling of one of them.
    out : ndarray, optional
        Where the result goes: C-contiguous, writeable, in native byte order, of that dtype and of
        the shape of ``array``. May overlap ``array``, which then costs a copy.
    overflow : {"raise", "inf"}
        What becomes of a finite value that rounds to infinity: an error, or infinity.

    Returns
    -------
    ndarray
        ``out``, or a new C-ordered array of the shape of ``array`` and dtype
        ``ml_dtypes.bfloat16``, ``float16`` or ``float32``.

    Raises
    ------
    ValueOverflowError
        For the first finite value that rounds to infinity, unless ``overflow="inf"``. If ``out``
        was given, it holds the whole result by then, infinities included.
    UnsupportedDtypeError
        For integers, booleans, complex numbers, objects, anonymous two-byte voids, and for a
        ``dtype`` outside the three.
    InvalidArgumentError
        For an ``out`` that does not fit, another ``overflow``, a tensor on another device or one
        that requires grad, a masked array.

    Notes
    -----
    Subnormal results are kept. A NaN becomes the quiet NaN of its sign without its payload;
    infinities stay. To its own dtype an array is copied bit for bit, NaNs too. An empty array
    gives an empty one, a 0-d array a 0-d one.

    Other threads run meanwhile from 2 KiB on; do not write to either array during the call.

    Examples
    --------
    >>> import numpy as np
    >>> from dmexp import narrow
    >>> narrow(np.float32([1.0, 1.00390625, 1.01171875]))
    array([1, 1, 1.01562], dtype=bfloat16)
    """
    return narrow_with_stats(array, dtype, out=out, overflow=overflow)[0]


def narrow_with_stats(
    array: ArrayLike,
    dtype: DTypeLike = "bf16",
    *,
    out: Array | None = None,
    overflow: Literal["raise", "inf"] = "raise",
) -> tuple[Array, NarrowStats]:
    """Narrow an array as `narrow` does, and say what was seen.

    The counts cost next to nothing: they are taken while the values are in the nearest cache.

    Parameters
    ----------
    array, dtype, out, overflow
        As in `narrow`.

    Returns
    -------
    ndarray
        As from `narrow`.
    NarrowStats
        ``count flushed subnormal overflowed nan inf max_abs min_nonzero_abs``.

    Raises
    ------
    ValueOverflowError, UnsupportedDtypeError, InvalidArgumentError
        As in `narrow`.

    Examples
    --------
    >>> import numpy as np
    >>> from dmexp import narrow_with_stats
    >>> _, stats = narrow_with_stats(np.float32([0.0, 1e-8, 6e-8, 0.5]), "f16")
    >>> stats.flushed, stats.subnormal, stats.max_abs, stats.min_nonzero_abs
    (1, 1, 0.5, 5.960464477539063e-08)
    """
    if overflow not in _OVERFLOW:
        raise InvalidArgumentError(
            f"overflow is {overflow!r}. Known: 'raise', 'inf'.",
            argument="overflow",
            known=list(_OVERFLOW),
        )
    # Plain arrays go straight through; for anything else this gives None.
    done = _native.narrow_array(array, dtype, out) or _narrow_prepared(array, dtype, out)
    if done[1].overflowed and overflow == "raise":
        raise _overflow_error(as_array(array, None), *done)
    return done


def _narrow_prepared(
    value: ArrayLike, dtype: DTypeLike, out: Array | None
) -> tuple[Array, NarrowStats]:
    name = storage_dtype(dtype)
    array = as_array(value, None)
    source = require_float(array, None)
    if out is None:
        out = np.empty(array.shape, NUMPY_DTYPES[name].newbyteorder("="))
    else:
        _check_out(out, array.shape, name)
        if np.may_share_memory(array, out):
            array = array.copy()
    stats = NarrowStats()
    target = out.reshape(-1).view(np.uint8)
    start = 0
    for segment in segments(array, source):
        stop = start + segment.size // WIDTH_BYTES[source] * WIDTH_BYTES[name]
        stats = _native.narrow_bytes(segment, source, target[start:stop], name, stats)
        start = stop
    _to_native_order(out)
    return out, stats


def widen(array: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Turn bfloat16 or float16 values into float32, exactly.

    Parameters
    ----------
    array : array_like
        bfloat16, float16 or float32 values of any shape, order, stride, byte order and alignment;
        also a PyTorch tensor on the CPU. Or uint16 bits, if ``dtype`` says of what.
    dtype : str or dtype, optional
        ``"bf16"`` or ``"f16"``: what the bits of a uint16 array are. For other arrays it may be
        left out, or must be their own dtype.

    Returns
    -------
    ndarray of float32
        A new C-ordered array of the same shape, a copy also where ``array`` is float32.

    Raises
    ------
    UnsupportedDtypeError
        For any other dtype.
    InvalidArgumentError
        For uint16 without ``dtype``, and for a ``dtype`` that is not that of the array.

    Notes
    -----
    Zeros keep their sign, subnormals and infinities their value. A NaN keeps its sign and payload;
    that of a float16 becomes quiet. Empty and 0-d arrays stay empty and 0-d.

    Other threads run meanwhile from 2 KiB on; do not write to the array during the call.

    Examples
    --------
    >>> import numpy as np
    >>> from dmexp import narrow, widen
    >>> widen(narrow(np.float32([0.1, -3.0])))
    array([ 0.10009766, -3.        ], dtype=float32)
    >>> widen(np.uint16([0x3F80, 0xC040]), "bf16")
    array([ 1., -3.], dtype=float32)
    """
    if dtype is None:
        plain = _native.widen_array(array)
        if plain is not None:
            return plain
    source = as_array(array, None)
    if source.dtype.kind == "u" and source.dtype.itemsize == 2:
        source = source.view(_dtype_of_bits(source, dtype))
    name = require_float(source, None)
    if name == "f64":
        raise UnsupportedDtypeError(
            "the array has dtype float64, which is wider than float32. "
            "To round it to float32, pass it to narrow(array, 'f32').",
            dtype="float64",
            known=["f32", "f16", "bf16"],
        )
    if dtype is not None and storage_dtype(dtype) != name:
        raise InvalidArgumentError(
            f"dtype is {storage_dtype(dtype)!r}, but the array is {source.dtype}. "
            "Leave dtype out, or pass the bits as uint16.",
            argument="dtype",
        )
    result = np.empty(source.shape, np.float32)
    target = result.reshape(-1).view(np.uint8)
    start = 0
    for segment in segments(source, name):
        stop = start + segment.size // WIDTH_BYTES[name] * WIDTH_BYTES["f32"]
        _native.widen_bytes(segment, name, target[start:stop])
        start = stop
    _to_native_order(result)
    return result


def _dtype_of_bits(bits: Array, dtype: DTypeLike | None) -> np.dtype[Any]:
    """The dtype that uint16 bits are to be seen as, in their own byte order."""
    name = None if dtype is None else storage_dtype(dtype)
    if name not in ("bf16", "f16"):
        said = "without dtype" if name is None else f"with dtype {name!r}"
        raise InvalidArgumentError(
            f"a uint16 array {said} says nothing of what its bits are. "
            "Pass dtype='bf16' or dtype='f16'.",
            argument="dtype",
            known=["bf16", "f16"],
        )
    return NUMPY_DTYPES[name].newbyteorder(bits.dtype.byteorder)


def _to_native_order(array: Array) -> None:
    """Kernels write little-endian values; on another host the array must be in its order."""
    if sys.byteorder == "big":
        array.byteswap(inplace=True)


def _check_out(out: Any, shape: tuple[int, ...], name: str) -> None:
    wanted = NUMPY_DTYPES[name].newbyteorder("=")
    if not isinstance(out, np.ndarray):
        problem = f"is a {type(out).__name__}, expected an ndarray"
    elif out.dtype != wanted:
        problem = f"has dtype {out.dtype}, expected {wanted}"
    elif out.shape != shape:
        problem = f"has shape {out.shape}, expected {shape}"
    elif not out.flags.c_contiguous:
        problem = "is not C-contiguous"
    elif not out.flags.writeable:
        problem = "is read-only"
    else:
        return
    raise InvalidArgumentError(
        f"out {problem}. Leave it out to get a new array.", argument="out", known=None
    )


def _overflow_error(array: Array, result: Array, stats: NarrowStats) -> ValueOverflowError:
    """The error for the first finite value that became infinite."""
    with np.errstate(invalid="ignore"):  # a signalling NaN among the values would warn
        new = np.isinf(result) & np.isfinite(array)
    index = tuple(int(axis) for axis in np.unravel_index(int(np.argmax(new)), new.shape))
    value = float(array[index])
    name = {np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype("f2"): "f16"}.get(result.dtype, "f32")
    suggestion = suggest(value, name)
    way_out = f"Use dtype {suggestion!r}, or pass" if suggestion else "Pass"
    return ValueOverflowError(
        f"index {list(index)}: the value {value!r} is beyond {name}, which would make it infinite "
        f"({stats.overflowed} of {stats.count} values are). "
        f"{way_out} overflow='inf' to let it through.",
        tensor=None,
        index=index,
        value=value,
        dtype=name,
        suggestion=suggestion,
    )
