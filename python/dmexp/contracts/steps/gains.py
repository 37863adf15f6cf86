"""Norm gains: the checkpoint stores the distance from 1, the file the gain itself.

Gemma, Nemotron and the later Qwen models multiply by ``1 + weight``. llama.cpp's exporter adds
the constant once, so that the runtime can multiply as it does for every other model. No range
check separates the two: real files hold gains from -132 to 1657.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._domain import FINITE
from .._params import Params
from .._step import Dims, Unary, value

__all__ = ["MINUS_ONE", "MINUS_ONE_FIFTH", "MINUS_ROOT"]

Array = NDArray[Any]


class GainMinus(Unary):
    """Subtract the constant that the exporter added, in f32 as it did."""

    kind = "value"
    lossless = False
    source = FINITE
    canonical = FINITE

    def __init__(self, step: str, constant: float, spelled: str) -> None:
        self.id = step
        self.constant = np.float32(constant)
        # One rounding on the way out, at the magnitude of the gain; the way back is exact or
        # rounds no further.
        self.tolerance = 2e-6
        self.exporter = f"adds {spelled} to the gain, in the precision of the checkpoint"
        self.consumer = f"Multiplies by the stored gain; the reference by {spelled} + weight."
        self.witnesses = (
            value(1.5, float(np.float32(1.5) - self.constant), tolerance=1e-7),
            value(-2.25, float(np.float32(-2.25) - self.constant), tolerance=1e-7),
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7,),)

    def out(self, dims: Dims, p: Params) -> Dims:
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        gain: Array = array.astype(np.float32) - self.constant
        return gain

    def redo_one(self, array: Array, p: Params) -> Array:
        gain: Array = array.astype(np.float32) + self.constant
        return gain


MINUS_ONE = GainMinus("gain-minus-one", 1.0, "1")
MINUS_ONE_FIFTH = GainMinus("gain-minus-one-fifth", 1.0 / 5, "1/5")
MINUS_ROOT = GainMinus("gain-minus-fifth-to-three-halves", 1.0 / 5**1.5, "5^-1.5")
