"""Bands of rows or columns that one side joins and the other keeps apart, in plain order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Step, layout

__all__ = ["FOUR_ROW_BANDS", "SPLIT_COLUMN_HALVES", "TWO_ROW_BANDS"]

Array = NDArray[Any]


class MergeRows(Step):
    """Several tensors back to the one that held them as bands of rows."""

    id = "merge-rows"
    kind = "layout"
    moves = False
    consumer = "Reads each band as a tensor of its own."

    def __init__(self, count: int, exporter: str) -> None:
        self.exporter = exporter
        dims = tuple((2, 1) for _ in range(count))
        self.witnesses = (layout(dims, ((2 * count, 1), range(2 * count))),)
        self.count = count

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((6 * self.count, 5),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        if len({dims[1:] for dims in stored}) != 1:
            raise p.fail(f"dims {[list(dims) for dims in stored]} cannot be stacked by rows")
        return ((sum(dims[0] for dims in stored), *stored[0][1:]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        return np.concatenate(tuple(stored))

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (array,) = canonical
        return tuple(np.split(array, self.count))


class SplitColumnHalves(Step):
    """One projection of two joined inputs back to a projection of each."""

    id = "split-column-halves"
    kind = "layout"
    exporter = "joins the projections of the embedding and of the hidden state by columns"
    consumer = "Multiplies the joined inputs once."
    witnesses = (layout((3, 4), (((3, 2), (0, 1, 4, 5, 8, 9)), ((3, 2), (2, 3, 6, 7, 10, 11)))),)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((5, 7),) * 2

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        if len(dims) != 2 or dims[1] % 2:
            raise p.fail(f"dims {list(dims)} do not hold two projections side by side")
        return ((dims[0], dims[1] // 2),) * 2

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        width = array.shape[1] // 2
        one: Array = array[:, part * width : (part + 1) * width]
        return one

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        return (np.concatenate(tuple(canonical), axis=1),)


TWO_ROW_BANDS = MergeRows(2, "splits the rows into two tensors")
FOUR_ROW_BANDS = MergeRows(4, "splits the rows into gate, q, k and v")
SPLIT_COLUMN_HALVES = SplitColumnHalves()
