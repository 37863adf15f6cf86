"""Steps that move no value: axes of length 1 removed or added, axes joined or split.

The bytes stay as they are, so nothing is lost; the dims still have to come back, or the
checkpoint cannot be loaded by its own code.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Unary, Witness, layout

__all__ = [
    "CONV_CHANNELS",
    "CONV_CHANNELS_SPLIT",
    "EXPERT_ROWS",
    "GROUPED_NORM",
    "HEAD_VECTOR",
    "LAYER_CONV",
    "SHORT_CONV",
    "UNIT_ROW",
    "Reshape",
]

Array = NDArray[Any]
ToDims = Callable[[Dims, Params], Dims]


class Reshape(Unary):
    """Other dims, same bytes."""

    id = "reshape"
    kind = "shape"
    moves = False
    consumer = "Reads the same values in the same order."

    def __init__(
        self,
        exporter: str,
        to_canonical: ToDims,
        to_stored: ToDims,
        *witnesses: Witness,
        probe: Dims,
        keys: tuple[str, ...] = (),
    ) -> None:
        self.exporter = exporter
        self._to_canonical = to_canonical
        self._to_stored = to_stored
        self.keys = keys
        self.witnesses = witnesses
        self._probe = probe

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return (self._probe,)

    def out(self, dims: Dims, p: Params) -> Dims:
        canonical = self._to_canonical(dims, p)
        if prod(canonical) != prod(dims) or 0 in canonical:
            raise p.fail(f"dims {list(dims)} cannot be those of {self.exporter!r}")
        return canonical

    def undo_one(self, array: Array, p: Params) -> Array:
        return array.reshape(self.out(array.shape, p))

    def redo_one(self, array: Array, p: Params) -> Array:
        return array.reshape(self._to_stored(array.shape, p))


def _conv(key: str) -> ToDims:
    def to_canonical(dims: Dims, p: Params) -> Dims:
        if len(dims) == 3:
            # Files of early 2025 and before keep the axis.
            return dims
        if len(dims) == 2:
            return dims[0], 1, dims[1]
        # A squeeze takes every axis of length 1, so the kernel length is needed.
        kernel = p.positive(key)
        return prod(dims) // kernel, 1, kernel

    return to_canonical


def _squeezed(dims: Dims, p: Params) -> Dims:
    return tuple(dim for dim in dims if dim != 1)


def _conv_step(key: str, exporter: str) -> Reshape:
    return Reshape(
        exporter,
        _conv(key),
        _squeezed,
        layout((3, 2), ((3, 1, 2), range(6))),
        layout((4,), ((1, 1, 4), range(4)), **{key.replace(".", "__"): 4}, wrong=({key: 2},)),
        probe=(7, 1, 4),
        keys=(key,),
    )


CONV_CHANNELS = _conv_step(
    "ssm.conv_kernel", "removes the axis of length 1 from (channels, 1, kernel)"
)
SHORT_CONV = _conv_step(
    "shortconv.l_cache",
    "removes the axis of length 1 from (channels, 1, kernel) of a short convolution",
)
LAYER_CONV = _conv_step(
    "ple.conv_kernel", "removes the axis of length 1 from (channels, 1, kernel)"
)

CONV_CHANNELS_SPLIT = Reshape(
    "writes (channels, 1, kernel) as (1, channels, 1, kernel)",
    lambda dims, p: (prod(dims[:-1]), 1, dims[-1]),
    lambda dims, p: (1, dims[0], 1, dims[-1]),
    layout((1, 3, 1, 2), ((3, 1, 2), range(6))),
    probe=(7, 1, 4),
)

HEAD_VECTOR = Reshape(
    "adds an axis of length 1 behind the heads",
    lambda dims, p: (prod(dims),),
    lambda dims, p: (dims[0], 1),
    layout((3, 1), ((3,), range(3))),
    probe=(6,),
)

# Programs that rewrite a file drop the slowest axes of length 1; the exporter itself keeps them.
UNIT_ROW = Reshape(
    "keeps a single row, which tools that quantize a file turn into a vector",
    lambda dims, p: dims if len(dims) == 2 else (1, *dims),
    lambda dims, p: dims[1:],
    layout((3,), ((1, 3), range(3))),
    probe=(1, 7),
)

GROUPED_NORM = Reshape(
    "writes the gain of (groups x dim) as (groups, dim)",
    lambda dims, p: (prod(dims),),
    lambda dims, p: (p.positive("ssm.group_count"), dims[0] // p.positive("ssm.group_count")),
    layout((2, 3), ((6,), range(6)), ssm__group_count=2),
    probe=(10,),
)

EXPERT_ROWS = Reshape(
    "views (experts x ffn, hidden) as (experts, ffn, hidden)",
    lambda dims, p: (dims[0] * dims[1], dims[2]) if len(dims) == 3 else (0,),
    lambda dims, p: (
        p.positive("expert_count"),
        dims[0] // p.positive("expert_count"),
        dims[1],
    ),
    layout((2, 3, 2), ((6, 2), range(12)), expert_count=2),
    probe=(15, 7),
)
