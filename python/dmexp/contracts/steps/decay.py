"""The decay of state-space layers: the file stores what the runtime multiplies by.

Checkpoints hold ``A_log``, of either sign; the recurrence decays by ``exp(-exp(A_log) * dt)``.
The exporter stores ``-exp(A_log)`` under the name ``ssm_a``. A reader that takes it for ``A_log``
applies exp twice, and short prompts still read well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._domain import DECAY_LOG, NEGATIVE_DECAY, POSITIVE_DECAY
from .._params import Params
from .._step import Chain, Dims, Unary, Witness, layout, value
from .shapes import HEAD_VECTOR, Reshape

__all__ = ["DECAY", "DECAY_OF_FOUR_AXES", "DECAY_OF_HEADS", "POSITIVE_DECAY_OF_HEADS"]

Array = NDArray[Any]

_SQRT_E = 1.6487212707001282


class InvertExpDecay(Unary):
    """``log(-a)`` or ``log(a)``, computed in f64 and rounded once."""

    kind = "value"
    lossless = False
    tolerance = 2e-6
    canonical = DECAY_LOG
    rejects_canonical = True

    def __init__(self, sign: int) -> None:
        self.sign = sign
        negative = sign < 0
        self.id = "invert-neg-exp-decay" if negative else "invert-exp-decay"
        self.source = NEGATIVE_DECAY if negative else POSITIVE_DECAY
        self.exporter = f"stores {'-' if negative else ''}exp(A_log), in f32 or in f16"
        self.consumer = (
            "Multiplies by the time step and applies exp: the stored value is the decay rate"
            + ("." if negative else ", with its sign turned.")
        )
        # Near 0.5, not exactly: f32(-sqrt(e)) has no f32 log of 0.5.
        self.witnesses = (
            value(sign * _SQRT_E, 0.5, tolerance=2e-6),
            value(sign * 0.25, -1.3862943611198906, tolerance=2e-6),
            # A_log itself, NaN, and what exp leaves when it underflows or overflows.
            *(
                Witness("refusal", {}, (((4,), tuple(sign * number for number in numbers)),), ())
                for numbers in (
                    (0.0, -0.25, -0.5, -0.75),
                    (1.0, 1.0, -1.0, 1.0),
                    (1.0, np.nan, 1.0, 1.0),
                    (1.0, 1.0, np.inf, 1.0),
                    (1.0, 1.0, 1.0, 0.0),
                )
            ),
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((6,),)

    def out(self, dims: Dims, p: Params) -> Dims:
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        log: Array = np.log(self.sign * array.astype(np.float64)).astype(np.float32)
        return log

    def redo_one(self, array: Array, p: Params) -> Array:
        decay: Array = self.sign * np.exp(array.astype(np.float32))
        return decay


DECAY = InvertExpDecay(-1)


def _of_heads(sign: int) -> Chain:
    log = (0.5, -0.5, 1.0)
    stored = tuple(float(sign * np.exp(number)) for number in log)
    return Chain(
        HEAD_VECTOR,
        InvertExpDecay(sign),
        probe=lambda p: (6,),
        witnesses=(
            Witness(
                "value",
                {},
                (((3, 1), (sign * _SQRT_E,) * 3),),
                (((3,), (0.5,) * 3),),
                tolerance=2e-6,
            ),
            Witness("layout", {}, (((3, 1), stored),), (((3,), log),), tolerance=2e-6),
            Witness("refusal", {}, (((3, 1), (-1.0, 0.5, 1.0)),), ()),
        ),
    )


# (1, 1, heads, 1), of which tools that quantize a file leave (heads, 1).
DECAY_OF_FOUR_AXES = Chain(
    Reshape(
        "keeps all four axes, of which tools that quantize a file drop the first two",
        lambda dims, p: (*(1,) * (4 - len(dims)), *dims) if len(dims) == 2 else dims,
        lambda dims, p: dims[2:],
        layout((3, 1), ((1, 1, 3, 1), range(3))),
        probe=(1, 1, 6, 1),
    ),
    DECAY,
    probe=lambda p: (1, 1, 6, 1),
    witnesses=(
        Witness(
            "value",
            {},
            (((3, 1), (-_SQRT_E,) * 3),),
            (((1, 1, 3, 1), (0.5,) * 3),),
            tolerance=2e-6,
        ),
        Witness("refusal", {}, (((3, 1), (0.0, 0.25, 0.5)),), ()),
    ),
)

DECAY_OF_HEADS = _of_heads(-1)
POSITIVE_DECAY_OF_HEADS = _of_heads(+1)
