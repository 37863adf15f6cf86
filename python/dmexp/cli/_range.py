"""What the magnitudes in a file mean for the choice of its dtype."""

from __future__ import annotations

# f16 facts; bf16 shares the exponent of f32, so no trained weight is out of its reach.
F16_LARGEST = 65504.0
F16_SMALLEST_NORMAL = 6.1e-5
_F16_SMALLEST_NORMAL_EXACT = 2.0**-14


def range_note(dtype: str, max_abs: float, min_nonzero_abs: float) -> str:
    """One sentence or two for `dmexp info`, measured against 65504 and 6.1e-5.

    Parameters
    ----------
    dtype
        ``"f32"``, ``"f16"`` or ``"bf16"``: what the file stores.
    max_abs, min_nonzero_abs
        Largest and smallest non-zero magnitude in the file; both 0 when all values are zero.
    """
    if max_abs == 0:
        return "every value is zero: any dtype holds them"
    low = min_nonzero_abs < _F16_SMALLEST_NORMAL_EXACT
    if dtype == "f16":
        top = (
            f"the largest magnitude is {max_abs:.4g} of the 65504 that f16 holds"
            if max_abs < F16_LARGEST
            else "the largest magnitude is 65504, the most that f16 holds"
        )
        if low:
            return (
                f"{top}; magnitudes below 6.1e-5 are f16 subnormals and keep fewer than 11 bits "
                "(bf16 would keep 8 for each)"
            )
        return f"{top}, and none is below 6.1e-5: all values keep f16's full 11 bits"
    if max_abs > F16_LARGEST:
        return f"f16 cannot hold {max_abs:.4g} (its largest is 65504); bf16 and f32 can"
    top = f"f16 would hold the largest magnitude ({max_abs:.4g}, limit 65504)"
    if low:
        return (
            f"{top}; below 6.1e-5 it would keep fewer than 11 bits, and the smallest magnitude "
            f"here is {min_nonzero_abs:.4g}"
        )
    return f"{top}, and none is below 6.1e-5: f16 would keep 11 bits of each value, bf16 keeps 8"
