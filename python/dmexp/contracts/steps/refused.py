"""Steps that cannot be undone from the file alone, and guards for those that may have been taken.

A refusal names its reason. Guessing a constant, or taking rounded values for the originals,
would produce a checkpoint that nobody trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import NotInvertibleError
from .._domain import ANY
from .._params import Params
from .._step import Dims, Step, Unary, Witness

__all__ = ["REFUSALS", "UNCENTRED", "UNNORMALIZED", "Refused"]

Array = NDArray[Any]


class Refused(Step):
    """A step whose inverse needs what the file does not hold."""

    kind = "value"
    lossless = False
    invertible = False

    def __init__(self, step: str, reason: str, exporter: str, consumer: str) -> None:
        self.id = step
        self.reason = reason
        self.exporter = exporter
        self.consumer = consumer
        self.witnesses = (Witness("refusal", {}, (((2, 2), (1.0, 2.0, 3.0, 4.0)),), ()),)

    def error(self, p: Params) -> NotInvertibleError:
        """The refusal, naming the tensors."""
        names = " + ".join(repr(name) for name in p.tensors)
        return NotInvertibleError(
            f"{names} ({p.architecture}): the exporter's step {self.id!r} cannot be undone: "
            f"{self.reason}. Convert from the original checkpoint instead.",
            tensor=p.tensors[0] if p.tensors else None,
            transform=self.id,
            architecture=p.architecture,
            reason=self.reason,
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7, 5),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        raise self.error(p)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        raise self.error(p)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        raise self.error(p)

    def check(self, stored: Sequence[Array], names: Sequence[str], p: Params) -> None:
        raise self.error(p)


class Guard(Unary):
    """Nothing to undo, unless the values show that a lossy step was taken."""

    kind = "guard"
    reason: str

    def out(self, dims: Dims, p: Params) -> Dims:
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        return array

    def redo_one(self, array: Array, p: Params) -> Array:
        return array

    def taken(self, array: Array) -> bool:
        """Whether the values are those that the lossy step leaves."""
        raise NotImplementedError

    def check(self, stored: Sequence[Array], names: Sequence[str], p: Params) -> None:
        for array, name in zip(stored, names, strict=True):
            if self.taken(array):
                raise NotInvertibleError(
                    f"tensor {name!r} ({p.architecture}): {self.reason}. "
                    "Convert from the original checkpoint instead.",
                    tensor=name,
                    transform=self.id,
                    architecture=p.architecture,
                    reason=self.reason,
                )


class Unnormalized(Guard):
    """An output head whose columns were not divided by their length."""

    id = "guard-normalized-columns"
    exporter = "divides each column of the head by its length, if the config has norm_head"
    consumer = "Multiplies by the head as it is."
    reason = (
        "every column has length 1, so the exporter normalized the head (norm_head) and the "
        "lengths are not kept"
    )
    source = ANY
    witnesses = (
        Witness("refusal", {}, (((2, 2), (0.6, 0.8, 0.8, 0.6)),), ()),
        Witness("layout", {}, (((2, 2), (1.0, 2.0, 3.0, 4.0)),), (((2, 2), (1.0, 2.0, 3.0, 4.0)),)),
    )

    def out(self, dims: Dims, p: Params) -> Dims:
        if len(dims) != 2:
            raise p.fail(f"dims {list(dims)} are not those of an output head, which has two")
        return dims

    def taken(self, array: Array) -> bool:
        # In bands of rows, so that no f64 copy of the whole head is made. Wide enough for the
        # rounding of quantized files, far from what training leaves.
        squares = np.zeros(array.shape[-1], np.float64)
        for start in range(0, array.shape[0], 4096):
            squares += np.square(array[start : start + 4096].astype(np.float64)).sum(axis=0)
        return bool(np.all(np.abs(np.sqrt(squares) - 1) < 0.02))


class Uncentred(Guard):
    """A routing bias whose mean was not subtracted."""

    id = "guard-centred-bias"
    exporter = "subtracts the mean of the bias, in one of the two model classes that share the name"
    consumer = "Adds the bias before it picks experts; a common offset changes nothing."
    reason = "the bias has mean 0, so the exporter centred it and the mean is not kept"
    source = ANY
    witnesses = (
        Witness("refusal", {}, (((4,), (-1.5, -0.5, 0.5, 1.5)),), ()),
        Witness("layout", {}, (((3,), (1.0, 2.0, 4.0)),), (((3,), (1.0, 2.0, 4.0)),)),
    )

    def taken(self, array: Array) -> bool:
        wide = array.astype(np.float64)
        largest = float(np.abs(wide).max(initial=0.0))
        return largest > 0 and abs(float(wide.mean())) < 1e-6 * largest


UNNORMALIZED = Unnormalized()
UNCENTRED = Uncentred()

_CONSTANTS = "its constants are in the config of the checkpoint and not in the file"

REFUSALS = {
    step.id: step
    for step in (
        Refused(
            "unscale-by-config",
            f"the weights were multiplied by constants, and {_CONSTANTS}",
            "multiplies by constants of the config (mup multipliers)",
            "Computes without the multipliers.",
        ),
        Refused(
            "unquantize-ternary",
            "the weights were rounded to three values and the originals are not kept",
            "rounds to -s, 0, s, with s the mean of the absolute values",
            "Multiplies by the rounded weights.",
        ),
        Refused(
            "unmultiply-gain",
            "only the product of gain and projection is kept, not the two factors",
            "multiplies a gain and a projection into one vector",
            "Scores residual streams by the product.",
        ),
        Refused(
            "unfold-embedding",
            "an MLP or extra rows were folded into the table, and the parts are not kept",
            "folds a projection into the embedding and appends rows of other tables",
            "Looks up the folded rows.",
        ),
        Refused(
            "restore-head-gains",
            "only the gain of head 0 is kept, repeated for all heads",
            "takes the gain of head 0, re-pairs its entries and repeats it for every head",
            "Normalizes every head by the same gain.",
        ),
        Refused(
            "unscale-latent-gain",
            "the gain may have been multiplied by sqrt(hidden / rank): the flag that decides it "
            "(apply_mla_qkv_lora_rescale) is in the config and not in the file",
            "multiplies the gain by sqrt(hidden / rank), if the config says so",
            "Multiplies by the stored gain.",
        ),
        Refused(
            "unconvert-projector",
            "the steps depend on the projector type and include folding, interpolation and sums",
            "converts vision and audio encoders, by projector type",
            "Runs the encoder as the file describes it.",
        ),
        Refused(
            "no-exporter",
            "no exporter writes this architecture, so nobody says what its numbers mean",
            "has no converter for it",
            "Has no loader for it either.",
        ),
    )
}
