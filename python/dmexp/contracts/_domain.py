"""What values a tensor may hold, as a predicate and as prose.

A domain says something about meaning that shape and dtype cannot: the decay of a state-space
model is negative where the file stores ``-exp(A_log)`` and unbounded where it stores ``A_log``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DomainError

__all__ = [
    "ANY",
    "AT_LEAST_ONE",
    "CONSTANT",
    "DECAY_LOG",
    "FINITE",
    "NEGATIVE_DECAY",
    "ONE_OR_UNROTATED",
    "POSITIVE",
    "POSITIVE_DECAY",
    "Domain",
]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Domain:
    """A claim about every value of a tensor.

    Attributes
    ----------
    prose : str
        The claim in words.
    allowed : callable or None
        Takes an array, returns booleans of the same dims. None means that any value will do,
        and nothing is read.
    hint : callable
        Takes one offending value, says what it is likely to be. May return an empty string.
    """

    prose: str
    allowed: Callable[[Array], NDArray[np.bool_]] | None = None
    hint: Callable[[float], str] = lambda value: ""

    def check(self, array: Array, *, tensor: str, transform: str, architecture: str) -> None:
        """Raise `DomainError` for the first value outside, in row-major order."""
        if self.allowed is None:
            return
        inside = self.allowed(array)
        if inside.all():
            return
        index = tuple(int(i) for i in np.unravel_index(int(np.argmin(inside)), array.shape))
        value = float(array[index])
        hint = self.hint(value)
        raise DomainError(
            f"tensor {tensor!r}: {value!r} at {list(index)} is outside the domain of "
            f"{transform!r} ({architecture}), which is: {self.prose}."
            + (f" {hint}" if hint else ""),
            tensor=tensor,
            transform=transform,
            architecture=architecture,
            index=index,
            value=value,
            domain=self.prose,
            count=int(inside.size - np.count_nonzero(inside)),
        )


def _wide(array: Array) -> Array:
    # ml_dtypes arrays lack some ufuncs, and every f32 is an f64. NumPy warns of a signalling NaN
    # as it widens one; what a NaN means here is for the domain to say.
    with np.errstate(invalid="ignore"):
        return np.asarray(array, dtype=np.float64)


def _negative(array: Array) -> NDArray[np.bool_]:
    wide = _wide(array)
    inside: NDArray[np.bool_] = np.isfinite(wide) & (wide < 0)
    return inside


def _positive(array: Array) -> NDArray[np.bool_]:
    wide = _wide(array)
    inside: NDArray[np.bool_] = np.isfinite(wide) & (wide > 0)
    return inside


def _finite(array: Array) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = np.isfinite(_wide(array))
    return inside


def _at_least_one(array: Array) -> NDArray[np.bool_]:
    wide = _wide(array)
    inside: NDArray[np.bool_] = np.isfinite(wide) & (wide >= 1)
    return inside


def _one_or_unrotated(array: Array) -> NDArray[np.bool_]:
    wide = np.asarray(array, dtype=np.float32)
    inside: NDArray[np.bool_] = (wide == 1) | (wide == np.float32(1e30))
    return inside


def _constant(array: Array) -> NDArray[np.bool_]:
    wide = _wide(array)
    inside: NDArray[np.bool_] = np.isfinite(wide) & (wide == wide.reshape(-1)[:1])
    return inside


def _decay_hint(step: str, sign: float) -> Callable[[float], str]:
    """Make a hint for a decay that is stored with ``sign``, as ``step``."""

    def hint(value: float) -> str:
        if value != value:
            return "A NaN is no decay: the file is damaged, or the training run was."
        alike = np.signbit(value) == np.signbit(sign)
        if value == 0 and alike:
            # A_log begins with log(1) in a fresh Mamba: a plus sign alone does not tell.
            if sign > 0:
                return (
                    "0.0 is either exp(A_log) that underflowed (A_log was below about -104), "
                    "or A_log itself: log(1)."
                )
            return (
                f"{value} is {step} that underflowed: A_log was below about -104 and cannot be "
                "recovered."
            )
        if np.isinf(value) and alike:
            return (
                f"{value} is {step} that overflowed: A_log was above 88.72 and cannot be recovered."
            )
        zero = f"{value} is no {step}, not even one that underflowed. " if value == 0 else ""
        return (
            f"{zero}The file seems to hold A_log itself, or was written under another "
            "convention; undoing the step anyway would apply exp twice."
        )

    return hint


ANY = Domain("any value")
FINITE = Domain("finite", _finite)
NEGATIVE_DECAY = Domain("finite and strictly negative", _negative, _decay_hint("-exp(A_log)", -1))
POSITIVE_DECAY = Domain("finite and strictly positive", _positive, _decay_hint("exp(A_log)", 1))
DECAY_LOG = Domain("finite, either sign", _finite)
POSITIVE = Domain("finite and strictly positive", _positive)
AT_LEAST_ONE = Domain("finite and at least 1", _at_least_one)
ONE_OR_UNROTATED = Domain("1 (rotated pair) or 1e30 (pair that stays as it is)", _one_or_unrotated)
CONSTANT = Domain("finite, and the same value throughout", _constant)
