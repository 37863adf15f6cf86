"""What the tests of narrowing share: values at the edges, layouts, a reference in fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
NUMPY = {"bf16": BF16, "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8")}

# Mantissa bits and exponent bits.
_LAYOUT = {"bf16": (7, 8), "f16": (10, 5), "f32": (23, 8)}

Array = np.ndarray[Any, Any]


def bits(array: Array) -> list[int]:
    """The bits of every value, row-major."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel().tolist()


def f32(*patterns: int) -> Array:
    return np.array(patterns, np.uint32).view(np.float32)


def edge_values() -> Array:
    """f32 values at which a narrowing changes its mind: around each power of two and each tie."""
    upper = np.arange(0x10000, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    ties = (np.arange(0x200, dtype=np.uint32) << 23)[:, None] + (
        (np.arange(32, dtype=np.uint32) << 12)[None, :]
    )
    near = (ties.ravel()[:, None] + np.array([-1, 0, 1], np.int64)).astype(np.uint32)
    return np.concatenate([(upper[:, None] + lower).ravel(), near.ravel()]).view(np.float32)


def round_fraction(value: float, dtype: str) -> int:
    """The bits of a finite value in a narrower dtype, from the definition of rounding."""
    mantissa, exponent = _LAYOUT[dtype]
    bias = 2 ** (exponent - 1) - 1
    sign = int(np.signbit(np.float64(value))) << (mantissa + exponent)
    exact = abs(Fraction(value))
    if exact == 0:
        return sign
    # The place of the last bit: that of the value's binade, or that of the subnormals.
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    power -= exact < Fraction(2) ** power
    lowest = 1 - bias - mantissa
    place = max(power - mantissa, lowest)
    units = round(exact / Fraction(2) ** place)  # Python rounds halves to even
    magnitude = units + ((place - lowest) << mantissa)
    return sign | min(magnitude, ((1 << exponent) - 1) << mantissa)


def layouts(array: Array) -> dict[str, Array]:
    """The same values of a two-dimensional array, laid out in every way NumPy has."""
    rows, columns = array.shape
    wide = np.zeros((2 * rows, 3 * columns), array.dtype)
    wide[::2, ::3] = array
    raw = np.zeros(array.nbytes + 1, np.uint8)
    odd = raw[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    assert not odd.flags.aligned or array.dtype.itemsize == 1
    read_only = array.copy()
    read_only.flags.writeable = False
    found = {
        "C": array.copy(),
        "Fortran": np.asfortranarray(array),
        "transposed twice": array.T.copy().T,
        "strided": wide[::2, ::3],
        "reversed": array[::-1, ::-1].copy()[::-1, ::-1],
        "misaligned": odd,
        "read-only": read_only,
        "subclass": array.view(_Subclass),
        "column by column": np.moveaxis(np.stack([array[:, i] for i in range(columns)]), 0, 1),
    }
    if array.dtype != BF16:
        found["big-endian"] = array.astype(array.dtype.newbyteorder(">"))
        found["big-endian strided"] = wide.astype(wide.dtype.newbyteorder(">"))[::2, ::3]
    return found


class _Subclass(np.ndarray[Any, Any]):
    pass


def raised(call: Callable[[], object]) -> BaseException:
    """The exception that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
