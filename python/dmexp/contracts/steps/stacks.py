"""Stacks: one tensor in the file, one tensor for each expert, head or stream in the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Step, layout

__all__ = ["SPLIT_GATE_UP_EXPERTS", "SPLIT_STACK"]

Array = NDArray[Any]


class SplitStack(Step):
    """Slice i of axis 0 becomes tensor i. Slices are views: nothing is copied."""

    id = "split-stack"
    kind = "structure"
    moves = False
    exporter = "stacks the tensors of all experts (heads, streams) in order, on a new axis 0"
    consumer = "Indexes axis 0 by expert (head, stream)."
    witnesses = (
        layout(
            (3, 2, 2),
            (((2, 2), (0, 1, 2, 3)), ((2, 2), (4, 5, 6, 7)), ((2, 2), (8, 9, 10, 11))),
        ),
        layout((2, 3), (((3,), (0, 1, 2)), ((3,), (3, 4, 5)))),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7, 5),) * 3

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        if len(dims) < 2:
            raise p.fail(f"dims {list(dims)} are no stack of tensors")
        return (dims[1:],) * dims[0]

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        one: Array = array[part]
        return one

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        return (np.stack(tuple(canonical)),)


class SplitGateUpExperts(Step):
    """A stack whose rows are gate above up: all gates, then all ups."""

    id = "split-stack+split-gate-up"
    kind = "structure"
    exporter = "joins the gate and up stacks by rows (--fuse-gate-up-exps)"
    consumer = "Reads the first half of the rows of each expert as gate, the second as up."
    witnesses = (
        layout(
            (3, 4, 1),
            (
                ((2, 1), (0, 1)),
                ((2, 1), (4, 5)),
                ((2, 1), (8, 9)),
                ((2, 1), (2, 3)),
                ((2, 1), (6, 7)),
                ((2, 1), (10, 11)),
            ),
        ),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7, 5),) * 6

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        if len(dims) != 3 or dims[1] % 2:
            raise p.fail(f"dims {list(dims)} are no stack of gate and up rows")
        return ((dims[1] // 2, dims[2]),) * (2 * dims[0])

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        half, expert = divmod(part, array.shape[0])
        rows = array.shape[1] // 2
        one: Array = array[expert, half * rows : (half + 1) * rows]
        return one

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        count = len(canonical) // 2
        gate, up = np.stack(tuple(canonical[:count])), np.stack(tuple(canonical[count:]))
        return (np.concatenate((gate, up), axis=1),)


SPLIT_STACK = SplitStack()
SPLIT_GATE_UP_EXPERTS = SplitGateUpExperts()
