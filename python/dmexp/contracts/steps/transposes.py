"""Transposes: the checkpoint multiplies from the other side than the file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from .._params import Params
from .._step import Chain, Dims, Unary, layout
from .shapes import EXPERT_ROWS

__all__ = ["EXPERT_COLUMNS", "TRANSPOSE"]

Array = NDArray[Any]


class Transpose(Unary):
    """Swap the last two axes. Square matrices hide a missing swap from every shape check."""

    id = "transpose"
    kind = "layout"
    self_inverse = True
    exporter = "swaps the last two axes"
    consumer = "Multiplies a vector by rows."
    witnesses = (
        layout((2, 3), ((3, 2), (0, 3, 1, 4, 2, 5))),
        layout((3, 3), ((3, 3), (0, 3, 6, 1, 4, 7, 2, 5, 8))),
        layout((2, 2, 3), ((2, 3, 2), (0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11))),
    )

    def out(self, dims: Dims, p: Params) -> Dims:
        if len(dims) < 2:
            raise p.fail(f"dims {list(dims)} have no two axes to swap")
        return (*dims[:-2], dims[-1], dims[-2])

    def undo_one(self, array: Array, p: Params) -> Array:
        return array.swapaxes(-1, -2)

    redo_one = undo_one


TRANSPOSE = Transpose()

EXPERT_COLUMNS = Chain(
    TRANSPOSE,
    EXPERT_ROWS,
    probe=lambda p: (15, 7),
    witnesses=(
        layout((2, 2, 3), ((6, 2), (0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11)), expert_count=2),
    ),
)
