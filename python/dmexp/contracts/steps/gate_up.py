"""Gate and up projections: two tensors in the file, one in the checkpoint.

Which half is gate decides what goes through the activation. Swapped halves have the same shape
and give plausible text, so each order is a contract of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Step, Witness, layout

__all__ = [
    "COLUMNS_ALTERNATE",
    "COLUMNS_JOINED",
    "ENTRIES_ALTERNATE",
    "ROWS_JOINED",
]

Array = NDArray[Any]
How = Literal["rows", "columns", "alternating columns", "alternating entries"]

_EXPORTER = {
    "rows": "splits the rows: first half gate, second half up",
    "columns": "splits the columns (gate first), then swaps the last two axes",
    "alternating columns": "swaps the last two axes, then takes even rows as gate, odd rows as up",
    "alternating entries": "takes even entries as gate, odd entries as up",
}

_IDS = {
    "rows": "merge-gate-up",
    "columns": "swap-last-axes+merge-gate-up",
    "alternating columns": "swap-last-axes+interleave-gate-up",
    "alternating entries": "interleave-gate-up",
}


class MergeGateUp(Step):
    """Gate and up back to the one tensor that the checkpoint has."""

    kind = "layout"
    consumer = "Applies the activation to gate and multiplies by up."

    def __init__(self, how: How, *witnesses: Witness) -> None:
        self.how = how
        self.id = _IDS[how]
        self.exporter = _EXPORTER[how]
        self.witnesses = witnesses

    def probe(self, p: Params) -> tuple[Dims, ...]:
        if self.how == "rows":
            return ((10, 7),)
        return ((3, 10),) if self.how == "alternating entries" else ((3, 7, 10),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        gate, up = stored
        rank = 1 if self.how == "alternating entries" else 2
        if gate != up or len(gate) < rank:
            raise p.fail(f"gate {list(gate)} and up {list(up)} do not belong together")
        if self.how == "rows":
            return ((*gate[:-2], 2 * gate[-2], gate[-1]),)
        if self.how == "alternating entries":
            return ((*gate[:-1], 2 * gate[-1]),)
        return ((*gate[:-2], gate[-1], 2 * gate[-2]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        gate, up = stored
        if self.how == "rows":
            return np.concatenate((gate, up), axis=-2)
        if self.how == "columns":
            return np.concatenate((gate.swapaxes(-1, -2), up.swapaxes(-1, -2)), axis=-1)
        if self.how == "alternating columns":
            gate, up = gate.swapaxes(-1, -2), up.swapaxes(-1, -2)
        both = np.stack((gate, up), axis=-1)
        return both.reshape(*both.shape[:-2], -1)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (both,) = canonical
        if self.how == "rows":
            gate, up = np.split(both, 2, axis=-2)
            return gate, up
        if self.how == "alternating entries":
            return both[..., ::2], both[..., 1::2]
        turned = both.swapaxes(-1, -2)
        if self.how == "columns":
            gate, up = np.split(turned, 2, axis=-2)
            return gate, up
        return turned[..., ::2, :], turned[..., 1::2, :]


ROWS_JOINED = MergeGateUp(
    "rows",
    layout(((2, 2), (2, 2)), ((4, 2), range(8))),
    # Three experts: each has its own gate and up.
    layout(((3, 1, 2), (3, 1, 2)), ((3, 2, 2), (0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11))),
)
COLUMNS_JOINED = MergeGateUp(
    "columns",
    layout(
        ((1, 2, 3), (1, 2, 3)),
        ((1, 3, 4), (0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11)),
    ),
)
COLUMNS_ALTERNATE = MergeGateUp(
    "alternating columns",
    layout(
        ((1, 2, 3), (1, 2, 3)),
        ((1, 3, 4), (0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11)),
    ),
)
ENTRIES_ALTERNATE = MergeGateUp(
    "alternating entries",
    layout(((1, 3), (1, 3)), ((1, 6), (0, 3, 1, 4, 2, 5))),
)
