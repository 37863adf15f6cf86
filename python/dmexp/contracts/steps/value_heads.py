"""Value heads of gated delta nets: grouped by key head in the checkpoint, tiled in the file.

With k key heads and r value heads for each, the checkpoint orders value heads k0v0 k0v1 .. k1v0
.., the file k0v0 k1v0 .. k0v1 ... The exporter reorders only where there are more value heads
than key heads; with as many of both the order is one and the same, and every other step still
applies. Qwen3-Next keeps the order of the checkpoint: another architecture, other contracts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Chain, Dims, Unary, Witness, layout
from .decay import DECAY
from .shapes import CONV_CHANNELS

__all__ = [
    "GROUPED_COLUMNS",
    "GROUPED_CONV",
    "GROUPED_DECAY",
    "GROUPED_QKV_ROWS",
    "GROUPED_ROWS",
    "delta_net_heads",
]

Array = NDArray[Any]

_KEYS = ("ssm.group_count", "ssm.time_step_rank")
# Two key heads, three value heads for each: the ratio differs from the count, so that neither
# the identity nor the opposite direction gives the same order.
_TWO_BY_SIX = {"ssm__group_count": 2, "ssm__time_step_rank": 6}
_WRONG = (
    {"ssm.group_count": 3, "ssm.time_step_rank": 6},
    {"ssm.group_count": 6, "ssm.time_step_rank": 6},
)


def delta_net_heads(p: Params) -> tuple[int, int]:
    """Key heads and value heads of this file."""
    keys, values = p.positive("ssm.group_count"), p.positive("ssm.time_step_rank")
    if values % keys:
        raise p.fail(f"{values} value heads are no whole multiple of {keys} key heads")
    return keys, values


def _group(array: Array, keys: int, values: int, axis: int) -> Array:
    """Tiled to grouped, along ``axis``."""
    return _swap(array, values // keys, keys, axis)


def _tile(array: Array, keys: int, values: int, axis: int) -> Array:
    return _swap(array, keys, values // keys, axis)


def _swap(array: Array, outer: int, inner: int, axis: int) -> Array:
    dims = array.shape
    span = dims[axis] // (outer * inner)
    split = array.reshape(*dims[:axis], outer, inner, span, *dims[axis + 1 :])
    return split.swapaxes(axis, axis + 1).reshape(dims)


class _ValueHeads(Unary):
    kind = "layout"
    keys: tuple[str, ...] = _KEYS
    consumer = "Takes value head v to belong to key head v modulo the number of key heads."

    def active(self, p: Params) -> bool:
        keys, values = delta_net_heads(p)
        return keys != values

    def rows(self, p: Params) -> int:
        return 7 * delta_net_heads(p)[1]


class GroupRows(_ValueHeads):
    """Rows, or entries of a vector, one span a value head."""

    id = "value-head-deinterleave"
    exporter = "reorders the rows of the value heads from grouped to tiled"
    witnesses = (
        layout((6,), ((6,), (0, 2, 4, 1, 3, 5)), wrong=_WRONG, **_TWO_BY_SIX),
        layout(
            (12,),
            ((12,), (0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11)),
            wrong=_WRONG,
            **_TWO_BY_SIX,
        ),
    )

    def out(self, dims: Dims, p: Params) -> Dims:
        _, values = delta_net_heads(p)
        if dims[0] % values:
            raise p.fail(f"{dims[0]} rows are no whole number for each of {values} value heads")
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        return _group(array, *delta_net_heads(p), 0)

    def redo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        return _tile(array, *delta_net_heads(p), 0)


class GroupColumns(_ValueHeads):
    """Columns of the output projection, one span a value head."""

    id = "value-cols-deinterleave"
    exporter = "reorders the columns of the value heads from grouped to tiled"
    witnesses = (
        layout(
            (2, 6),
            ((2, 6), (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11)),
            wrong=_WRONG,
            **_TWO_BY_SIX,
        ),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((5, self.rows(p)),)

    def out(self, dims: Dims, p: Params) -> Dims:
        _, values = delta_net_heads(p)
        if len(dims) != 2 or dims[1] % values:
            raise p.fail(f"dims {list(dims)} do not hold columns for {values} value heads")
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        return _group(array, *delta_net_heads(p), 1)

    def redo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        return _tile(array, *delta_net_heads(p), 1)


class GroupValueRows(_ValueHeads):
    """The value rows behind all query and key rows, which stay."""

    id = "qkv-value-rows-deinterleave"
    keys = (*_KEYS, "ssm.state_size")
    exporter = "reorders the value rows from grouped to tiled, behind the query and key rows"
    witnesses = (
        layout(
            (14,),
            ((14,), (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 9, 11, 13)),
            ssm__state_size=2,
            wrong=(*_WRONG, {"ssm.state_size": 1, "ssm.group_count": 1}),
            **_TWO_BY_SIX,
        ),
    )

    def rows(self, p: Params) -> int:
        keys, values = delta_net_heads(p)
        return 2 * keys * p.positive("ssm.state_size") + 7 * values

    def _fixed(self, rows: int, p: Params) -> int:
        keys, values = delta_net_heads(p)
        fixed = 2 * keys * p.positive("ssm.state_size")
        if rows <= fixed or (rows - fixed) % values:
            raise p.fail(
                f"{rows} rows do not hold {fixed} query and key rows and rows for {values} value heads"
            )
        return fixed

    def out(self, dims: Dims, p: Params) -> Dims:
        self._fixed(dims[0], p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        fixed = self._fixed(array.shape[0], p)
        return np.concatenate((array[:fixed], _group(array[fixed:], *delta_net_heads(p), 0)))

    def redo_one(self, array: Array, p: Params) -> Array:
        fixed = self._fixed(array.shape[0], p)
        return np.concatenate((array[:fixed], _tile(array[fixed:], *delta_net_heads(p), 0)))


GROUPED_ROWS = GroupRows()
GROUPED_COLUMNS = GroupColumns()
GROUPED_QKV_ROWS = GroupValueRows()

GROUPED_CONV = Chain(
    GROUPED_QKV_ROWS,
    CONV_CHANNELS,
    probe=lambda p: (GROUPED_QKV_ROWS.rows(p), 1, 4),
    witnesses=(
        layout(
            (14, 2),
            (
                (14, 1, 2),
                (*range(16), *(16, 17, 20, 21, 24, 25), *(18, 19, 22, 23, 26, 27)),
            ),
            ssm__state_size=2,
            wrong=_WRONG,
            **_TWO_BY_SIX,
        ),
    ),
)

_LOGS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)

GROUPED_DECAY = Chain(
    GROUPED_ROWS,
    DECAY,
    probe=lambda p: (delta_net_heads(p)[1],),
    witnesses=(
        Witness(
            "value",
            {"ssm.group_count": 2, "ssm.time_step_rank": 6},
            (((6,), (-1.6487212707001282,) * 6),),
            (((6,), (0.5,) * 6),),
            tolerance=2e-6,
        ),
        Witness(
            "layout",
            {"ssm.group_count": 2, "ssm.time_step_rank": 6},
            (((6,), tuple(-float(np.exp(number)) for number in _LOGS)),),
            (((6,), (0.0, 1.0, 2.0, 0.5, 1.5, 2.5)),),
            _WRONG,
            tolerance=2e-6,
        ),
        Witness(
            "refusal",
            {"ssm.group_count": 2, "ssm.time_step_rank": 6},
            (((6,), (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)),),
            (),
        ),
        # As many value heads as key heads: no reorder, and still an inversion.
        Witness(
            "value",
            {"ssm.group_count": 6, "ssm.time_step_rank": 6},
            (((6,), (-1.6487212707001282,) * 6),),
            (((6,), (0.5,) * 6),),
            tolerance=2e-6,
        ),
    ),
)
