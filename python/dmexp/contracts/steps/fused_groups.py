"""Fused query, key and value rows that the checkpoint keeps by head or by key group.

The file has three bands: all q, all k, all v. Going back needs the head counts: with others the
shape is the same and every head holds rows of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import WIDTH, Dims, Step, Unary, layout
from .rotary import to_halves, to_pairs

__all__ = ["GROUPS_FROM_BANDS", "GROUPS_MERGED_ROTARY", "HEADS_FROM_BANDS"]

Array = NDArray[Any]

_KEYS = ("attention.head_count", "attention.head_count_kv")


class HeadsFromBands(Unary):
    """Three bands to q, k, v of each head in turn."""

    id = "qkv-bands-to-heads"
    kind = "layout"
    keys = ("attention.head_count",)
    exporter = "regroups q, k, v of each head into all q, all k, all v"
    consumer = "Reads q, k and v as three bands of rows."
    witnesses = (
        layout(
            (18,),
            ((18,), (0, 1, 6, 7, 12, 13, 2, 3, 8, 9, 14, 15, 4, 5, 10, 11, 16, 17)),
            attention__head_count=3,
            wrong=({"attention.head_count": 1}, {"attention.head_count": 2}),
        ),
        layout(
            (12,),
            ((12,), (0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11)),
            attention__head_count=2,
            wrong=({"attention.head_count": 1}, {"attention.head_count": 4}),
        ),
    )

    def rows(self, p: Params) -> int:
        return 18 * p.heads

    def out(self, dims: Dims, p: Params) -> Dims:
        if dims[0] % (3 * p.heads):
            raise p.fail(f"{dims[0]} rows do not hold q, k and v of {p.heads} heads")
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        bands = array.reshape(3, p.heads, -1, *array.shape[1:])
        return bands.swapaxes(0, 1).reshape(array.shape)

    def redo_one(self, array: Array, p: Params) -> Array:
        self.out(array.shape, p)
        heads = array.reshape(p.heads, 3, -1, *array.shape[1:])
        return heads.swapaxes(0, 1).reshape(array.shape)


def _groups(rows: int, p: Params) -> tuple[int, int, int]:
    """Key groups, query heads in one, rows of a head."""
    heads, kv = p.heads, p.kv_heads
    if heads % kv or rows % (heads + 2 * kv):
        raise p.fail(f"{rows} rows do not hold {heads} query heads in {kv} key groups")
    return kv, heads // kv, rows // (heads + 2 * kv)


def _to_groups(q: Array, k: Array, v: Array, kv: int) -> Array:
    width = q.shape[1:]
    parts = [band.reshape(kv, -1, *width) for band in (q, k, v)]
    return np.concatenate(parts, axis=1).reshape(-1, *width)


def _from_groups(array: Array, p: Params) -> tuple[Array, Array, Array]:
    kv, per_group, dim = _groups(array.shape[0], p)
    width = array.shape[1:]
    groups = array.reshape(kv, (per_group + 2) * dim, *width)
    q, k, v = np.split(groups, [per_group * dim, (per_group + 1) * dim], axis=1)
    return q.reshape(-1, *width), k.reshape(-1, *width), v.reshape(-1, *width)


class GroupsFromBands(Unary):
    """Three bands to the query heads, the key and the value of each key group in turn."""

    id = "qkv-bands-to-groups"
    kind = "layout"
    keys = _KEYS
    exporter = "regroups q.., k, v of each key group into all q, all k, all v"
    consumer = "Reads q, k and v as three bands of rows."
    witnesses = (
        # 4 query heads of dim 1 in 2 groups.
        layout(
            (8,),
            ((8,), (0, 1, 4, 6, 2, 3, 5, 7)),
            attention__head_count=4,
            attention__head_count_kv=2,
            wrong=(
                {"attention.head_count_kv": 1, "attention.head_count": 6},
                {"attention.head_count": 2},
            ),
        ),
        layout(
            (16,),
            ((16,), (0, 1, 2, 3, 8, 9, 12, 13, 4, 5, 6, 7, 10, 11, 14, 15)),
            attention__head_count=4,
            attention__head_count_kv=2,
            wrong=(
                {"attention.head_count": 2, "attention.head_count_kv": 1},
                {"attention.head_count": 8, "attention.head_count_kv": 4},
            ),
        ),
    )

    def active(self, p: Params) -> bool:
        # With one key head the bands and the only group are one and the same.
        return p.kv_heads != 1

    def rows(self, p: Params) -> int:
        return 6 * (p.heads + 2 * p.kv_heads)

    def out(self, dims: Dims, p: Params) -> Dims:
        _groups(dims[0], p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        kv, per_group, dim = _groups(array.shape[0], p)
        q, k, v = np.split(array, [kv * per_group * dim, kv * (per_group + 1) * dim])
        return _to_groups(q, k, v, kv)

    def redo_one(self, array: Array, p: Params) -> Array:
        return np.concatenate(_from_groups(array, p))


class MergeGroups(Step):
    """Three tensors, q and k in adjacent pairs, to one fused by key group, in two halves."""

    id = "rotary-unpermute+merge-qkv-groups"
    kind = "layout"
    keys = _KEYS
    exporter = "splits the fused rows by key group, and regroups q and k to adjacent pairs"
    consumer = "Reads q, k and v as three tensors; rotates rows 2j and 2j+1 of each head."
    witnesses = (
        layout(
            ((24,), (12,), (12,)),
            (
                (48,),
                (
                    *(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11),
                    *(24, 26, 28, 25, 27, 29),
                    *(36, 37, 38, 39, 40, 41),
                    *(12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21, 23),
                    *(30, 32, 34, 31, 33, 35),
                    *(42, 43, 44, 45, 46, 47),
                ),
            ),
            attention__head_count=4,
            attention__head_count_kv=2,
            wrong=(
                {"attention.head_count": 2, "attention.head_count_kv": 1},
                {"attention.head_count": 2},
            ),
        ),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((6 * (p.heads + 2 * p.kv_heads), WIDTH),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        rows = sum(dims[0] for dims in stored)
        kv, per_group, dim = _groups(rows, p)
        wanted = (kv * per_group * dim, kv * dim, kv * dim)
        if tuple(dims[0] for dims in stored) != wanted or dim % 2:
            raise p.fail(f"{[dims[0] for dims in stored]} rows of q, k, v, expected {list(wanted)}")
        return ((rows, *stored[0][1:]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        q, k, v = stored
        self.dims([q.shape, k.shape, v.shape], p)
        return _to_groups(to_halves(q, p.heads), to_halves(k, p.kv_heads), v, p.kv_heads)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (array,) = canonical
        q, k, v = _from_groups(array, p)
        return to_pairs(q, p.heads), to_pairs(k, p.kv_heads), v


HEADS_FROM_BANDS = HeadsFromBands()
GROUPS_FROM_BANDS = GroupsFromBands()
GROUPS_MERGED_ROTARY = MergeGroups()
