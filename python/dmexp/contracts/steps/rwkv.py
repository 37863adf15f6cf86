"""RWKV: five or six interpolation vectors stacked into one, low-rank blocks, layer rescaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Chain, Dims, Step, Unary, layout, value
from .shapes import Reshape
from .transposes import TRANSPOSE

__all__ = [
    "BLOCKS_FIRST",
    "BLOCKS_LAST",
    "HEAD_MATRIX",
    "RESCALED",
    "SPLIT_LERP",
    "VECTOR_OF_LAYER",
]

Array = NDArray[Any]


class SplitLerp(Step):
    """``(count, 1, 1, hidden)`` to ``count`` tensors of ``(1, 1, hidden)``."""

    id = "split-lerp"
    kind = "structure"
    moves = False
    exporter = "stacks the interpolation vectors of one layer in a fixed order"
    consumer = "Interpolates with all of them at once."
    witnesses = (layout((3, 1, 1, 2), tuple(((1, 1, 2), (2 * i, 2 * i + 1)) for i in range(3))),)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((1, 1, 7),) * 5

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        if len(dims) != 4 or dims[1:3] != (1, 1):
            raise p.fail(f"dims {list(dims)} are no stack of interpolation vectors")
        return ((1, 1, dims[3]),) * dims[0]

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        one: Array = array[part]
        return one

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        return (np.stack(tuple(canonical)),)


class ReorderBlocks(Unary):
    """Five blocks of rows, which the exporter puts in the order 3, 1, 2, 0, 4."""

    id = "reorder-five-blocks"
    kind = "layout"
    self_inverse = True
    exporter = "puts the five blocks into the order of its stacked interpolation vectors"
    consumer = "Reads block i with interpolation vector i."
    witnesses = (
        # The order swaps two blocks, so it is its own inverse: only identity can be refuted.
        layout((10,), ((10,), (6, 7, 2, 3, 4, 5, 0, 1, 8, 9))),
        layout((5, 2), ((5, 2), (6, 7, 2, 3, 4, 5, 0, 1, 8, 9))),
    )

    def rows(self, p: Params) -> int:
        return 10

    def out(self, dims: Dims, p: Params) -> Dims:
        if dims[0] % 5:
            raise p.fail(f"{dims[0]} rows are no five blocks")
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        blocks = array.reshape(5, -1, *array.shape[1:])
        return blocks[[3, 1, 2, 0, 4]].reshape(array.shape)

    redo_one = undo_one


class Rescale(Unary):
    """Times 2^(layer // every): a power of two, so nothing is rounded."""

    id = "rescale-layer"
    kind = "value"
    keys = ("rescale_every_n_layers",)
    exporter = "divides by 2^(layer // rescale_every)"
    consumer = "Halves the hidden state at the same layers."
    witnesses = (
        value(
            1.5,
            6.0,
            block=5,
            rescale_every_n_layers=2,
            wrong=({"rescale_every_n_layers": 5}, {"rescale_every_n_layers": 0}),
        ),
    )

    def _factor(self, p: Params) -> int:
        every = p.integer("rescale_every_n_layers", 0)
        return 2 ** ((p.block or 0) // every) if every else 1

    def active(self, p: Params) -> bool:
        return self._factor(p) != 1

    def out(self, dims: Dims, p: Params) -> Dims:
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        scaled: Array = array.astype(np.float32) * np.float32(self._factor(p))
        return scaled

    def redo_one(self, array: Array, p: Params) -> Array:
        scaled: Array = array.astype(np.float32) / np.float32(self._factor(p))
        return scaled


SPLIT_LERP = SplitLerp()
RESCALED = Rescale()
REORDER = ReorderBlocks()

VECTOR_OF_LAYER = Reshape(
    "removes the axes of length 1 from (1, 1, hidden)",
    lambda dims, p: (1, 1, max(dims)),
    lambda dims, p: (max(dims),),
    layout((3,), ((1, 1, 3), range(3))),
    probe=(1, 1, 7),
)

HEAD_MATRIX = Reshape(
    "flattens (heads, dim)",
    lambda dims, p: (dims[0] // p.positive("wkv.head_size"), p.positive("wkv.head_size")),
    lambda dims, p: (dims[0] * dims[1],),
    layout((6,), ((3, 2), range(6)), wkv__head_size=2, wrong=({"wkv.head_size": 3},)),
    probe=(3, 6),
    keys=("wkv.head_size",),
)

# (5 * rank, hidden) in the file, (hidden, 5 * rank) in the checkpoint.
BLOCKS_LAST = Chain(
    REORDER,
    TRANSPOSE,
    probe=lambda p: (7, 10),
    witnesses=(layout((5, 2), ((2, 5), (6, 2, 4, 0, 8, 7, 3, 5, 1, 9))),),
)

# (5, hidden, rank) in the file, (5, rank, hidden) in the checkpoint.
BLOCKS_FIRST = Chain(
    REORDER,
    TRANSPOSE,
    probe=lambda p: (5, 2, 7),
    # Both parts are, and neither disturbs the other.
    self_inverse=True,
    witnesses=(
        layout(
            (5, 2, 3),
            (
                (5, 3, 2),
                (
                    *(18, 21, 19, 22, 20, 23),
                    *(6, 9, 7, 10, 8, 11),
                    *(12, 15, 13, 16, 14, 17),
                    *(0, 3, 1, 4, 2, 5),
                    *(24, 27, 25, 28, 26, 29),
                ),
            ),
        ),
    ),
)
