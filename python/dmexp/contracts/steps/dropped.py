"""Tensors that an exporter generates: a checkpoint has no place for them.

They are dropped, and checked first: a table of rotary divisors that holds anything else is not
what its name says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from .._domain import ANY, AT_LEAST_ONE, CONSTANT, ONE_OR_UNROTATED, POSITIVE, Domain
from .._params import Params
from .._step import Dims, Step, Witness

__all__ = [
    "COPIED_LAYER",
    "INVENTED_GAIN",
    "RANKED_ROWS",
    "ROPE_DIVISORS",
    "ROPE_FACTORS",
    "UNROTATED_DIVISORS",
    "Drop",
]

Array = NDArray[Any]


class Drop(Step):
    """One tensor to none."""

    kind = "structure"

    def __init__(
        self,
        step: str,
        reason: str,
        exporter: str,
        consumer: str,
        domain: Domain = ANY,
        good: tuple[float, ...] = (1.0, 2.0),
        bad: tuple[float, ...] = (),
    ) -> None:
        self.id = step
        self.reason = reason
        self.exporter = exporter
        self.consumer = consumer
        self.source = domain
        self.example = good
        self.witnesses = (Witness("layout", {}, (((len(good),), good),), ()),)
        if bad:
            self.witnesses += (Witness("refusal", {}, (((len(bad),), bad),), ()),)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ()

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        return ()

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        raise p.fail(f"{self.reason}, so there is nothing to rebuild")

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        raise p.fail("the tensor is generated, not converted")


ROPE_DIVISORS = Drop(
    "drop-rope-divisors",
    "generated from the rotary scaling of the config: one divisor for each pair",
    "computes llama3 divisors from factor, low, high and original context of the config",
    "Divides the rotary frequency of each pair by it.",
    AT_LEAST_ONE,
    good=(1.0, 1.0, 2.5, 8.0),
    bad=(1.0, 0.5, 8.0),
)

UNROTATED_DIVISORS = Drop(
    "drop-unrotated-divisors",
    "generated from the partial rotary factor: 1 for rotated pairs, 1e30 for the rest",
    "writes 1 for each rotated pair and 1e30 for the others",
    "Divides the rotary frequency by it in full-attention layers; 1e30 stops the rotation.",
    ONE_OR_UNROTATED,
    good=(1.0, 1.0, 1e30),
    bad=(1.0, 2.0, 1e30),
)

ROPE_FACTORS = Drop(
    "drop-rope-factors",
    "written from the factor lists of the config",
    "writes the long and the short factor list of the config as tensors",
    "Divides the rotary frequency of each pair by one list or the other, by context length.",
    POSITIVE,
    good=(1.0, 1.25, 4.0),
    bad=(1.0, 0.0),
)

INVENTED_GAIN = Drop(
    "drop-invented-gain",
    "invented by the exporter: the checkpoint has no such norm",
    "fills the query gain with the scale of the config, and the key gain with 1",
    "Multiplies by the constant.",
    CONSTANT,
    good=(1.5, 1.5, 1.5),
    bad=(1.5, 1.0),
)

COPIED_LAYER = Drop(
    "drop-copied-layer",
    "a copy that fills a place which layer 0 does not have",
    "writes the a tensors of layer 0 once more, as its v tensors",
    "Loads them and never uses them.",
    good=(3.0, 1.0, 2.0),
)

RANKED_ROWS = Drop(
    "drop-selected-rows",
    "two rows of the output head, picked for the tokens yes and no",
    "copies the rows of two tokens out of the head, or out of the embedding",
    "Scores a document by the two rows.",
    good=(3.0, 1.0, 2.0),
)
