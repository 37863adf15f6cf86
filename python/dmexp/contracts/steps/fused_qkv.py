"""Query, key and value rows: fused on one side, apart on the other, regrouped on the way.

Three questions decide a step: what the checkpoint fuses (by head, by key group, or in three
bands), what the file holds (one tensor or three), and whether the exporter also regrouped the
query and key rows for its rotary kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import WIDTH, Dims, Step, Unary, layout
from .rotary import Role, head_count, head_dim, to_halves, to_pairs

__all__ = [
    "BANDS_MERGED",
    "BANDS_MERGED_ROTARY",
    "BANDS_MERGED_ROTARY_DIVIDED",
    "BANDS_ROTARY",
    "BANDS_SPLIT",
    "BANDS_SPLIT_GATED",
    "BANDS_SPLIT_ROTARY",
    "BANDS_SPLIT_ROTARY_DIVIDED",
    "GROUPS_FROM_BANDS",
    "GROUPS_MERGED_ROTARY",
    "HEADS_FROM_BANDS",
]

Array = NDArray[Any]

_KEYS = ("attention.head_count", "attention.head_count_kv")


def _bands(rows: int, p: Params, gated: bool = False) -> tuple[int, int, int]:
    """Rows of q, k and v in one fused tensor."""
    heads, kv = p.heads, p.kv_heads
    key, val = p.integer("attention.key_length", 0), p.integer("attention.value_length", 0)
    if key != val:
        q, k, v = heads * key * (1 + gated), kv * key, kv * val
        if q + k + v != rows:
            raise p.fail(f"{rows} rows are not the {q} + {k} + {v} of q, k and v")
        return q, k, v
    queries = heads * (1 + gated)
    if rows % (queries + 2 * kv):
        raise p.fail(f"{rows} rows do not hold {queries} query and {kv} key and value heads")
    dim = rows // (queries + 2 * kv)
    return queries * dim, kv * dim, kv * dim


class SplitBands(Step):
    """One tensor with a band each of q, k and v to three tensors."""

    id = "split-qkv"
    kind = "layout"
    keys = (*_KEYS, "attention.key_length", "attention.value_length")
    consumer = "Reads q, k and v as three bands of rows."

    def __init__(self, key: Role | None = None, *, gated: bool = False) -> None:
        self.key: Role | None = key
        self.gated = gated
        self.moves = key is not None
        self.exporter = "joins q, k and v by rows (--fuse-qkv)"
        if key is not None:
            self.id = "split-qkv+rotary-unpermute"
            self.exporter += ", after regrouping the rows of q and k to adjacent pairs"
            q = (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11)
            out = (
                ((12,), q),
                ((6,), (12, 14, 16, 13, 15, 17)),
                ((6,), (18, 19, 20, 21, 22, 23)),
            )
            if key == "key, heads divided":
                # 6 query heads, 3 key heads of dim 4: k is regrouped as 2 heads of 6.
                q = tuple(4 * head + row for head in range(6) for row in (0, 2, 1, 3))
                k = (24, 26, 28, 25, 27, 29, 30, 32, 34, 31, 33, 35)
                self.witnesses = (
                    layout(
                        (48,),
                        (((24,), q), ((12,), k), ((12,), tuple(range(36, 48)))),
                        attention__head_count=6,
                        attention__head_count_kv=3,
                        wrong=({"attention.head_count_kv": 6}, {"attention.head_count": 3}),
                    ),
                )
                return
            self.witnesses = (
                layout(
                    (24,),
                    out,
                    attention__head_count=2,
                    attention__head_count_kv=1,
                    wrong=(
                        {"attention.head_count": 4, "attention.head_count_kv": 2},
                        {"attention.head_count": 1, "attention.head_count_kv": 1},
                    ),
                ),
            )
            return
        counts = (8, 4, 4) if not gated else (16, 4, 4)
        total = sum(counts)
        edges = (0, counts[0], counts[0] + counts[1], total)
        self.witnesses = (
            layout(
                (total,),
                tuple(
                    ((end - start,), tuple(range(start, end)))
                    for start, end in zip(edges, edges[1:], strict=False)
                ),
                attention__head_count=2,
                attention__head_count_kv=1,
                wrong=({"attention.head_count": 1, "attention.head_count_kv": 2},),
            ),
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        q, k, v = 6 * p.heads * (1 + self.gated), 6 * p.kv_heads, 6 * p.kv_heads
        return ((q, WIDTH), (k, WIDTH), (v, WIDTH))

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        bands = _bands(dims[0], p, self.gated)
        if self.key is not None:
            head_dim(bands[0], p.heads, p)
            head_dim(bands[1], head_count(self.key, p), p)
        return tuple((rows, *dims[1:]) for rows in bands)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        bands = _bands(array.shape[0], p, self.gated)
        start = sum(bands[:part])
        rows = array[start : start + bands[part]]
        if self.key is not None and part < 2:
            return to_halves(rows, head_count("query" if part == 0 else self.key, p))
        return rows

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        q, k, v = canonical
        if self.key is not None:
            q, k = to_pairs(q, p.heads), to_pairs(k, head_count(self.key, p))
        return (np.concatenate((q, k, v)),)


class MergeBands(Step):
    """Three tensors to one with a band each."""

    kind = "layout"
    keys = _KEYS
    consumer = "Reads q, k and v as three tensors."

    def __init__(self, key: Role | None = None) -> None:
        self.key: Role | None = key
        self.moves = key is not None
        self.id = "merge-qkv" if key is None else "rotary-unpermute+merge-qkv"
        self.exporter = "splits the fused rows into q, k and v"
        order: tuple[int, ...] = tuple(range(24))
        counts = {"attention__head_count": 2, "attention__head_count_kv": 1}
        if key is None:
            self.keys = ()
        else:
            self.exporter += ", and regroups the rows of q and k to adjacent pairs"
            if key == "key, heads divided":
                # 6 query heads, 3 key heads: k is regrouped as 2 heads.
                counts = {"attention__head_count": 6, "attention__head_count_kv": 3}
                q, k = range(36), (36, 38, 40, 37, 39, 41, 42, 44, 46, 43, 45, 47)
                q = tuple(h * 6 + j for h in range(6) for j in (0, 2, 4, 1, 3, 5))  # type: ignore[assignment]
                self.witnesses = (
                    layout(
                        ((36,), (12,), (6,)),
                        ((54,), (*q, *k, *range(48, 54))),
                        wrong=({"attention.head_count_kv": 6}, {"attention.head_count": 3}),
                        **counts,
                    ),
                )
                return
            order = (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11) + (12, 14, 16, 13, 15, 17)
            order += (18, 19, 20, 21, 22, 23)
        self.witnesses = (
            layout(
                ((12,), (6,), (6,)),
                ((24,), order),
                wrong=()
                if key is None
                else (
                    {"attention.head_count": 1},
                    {"attention.head_count": 3, "attention.head_count_kv": 3},
                ),
                **counts,
            ),
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((6 * (p.heads + 2 * p.kv_heads), WIDTH),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        if self.key is not None:
            head_dim(stored[0][0], p.heads, p)
            head_dim(stored[1][0], head_count(self.key, p), p)
        if len({dims[1:] for dims in stored}) != 1:
            raise p.fail(f"dims {[list(dims) for dims in stored]} cannot be stacked by rows")
        return ((sum(dims[0] for dims in stored), *stored[0][1:]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        q, k, *rest = stored
        if self.key is not None:
            q, k = to_halves(q, p.heads), to_halves(k, head_count(self.key, p))
        return np.concatenate((q, k, *rest))

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (array,) = canonical
        q, k, v = np.split(array, np.cumsum(_bands(array.shape[0], p))[:2])
        if self.key is not None:
            q, k = to_pairs(q, p.heads), to_pairs(k, head_count(self.key, p))
        return q, k, v


class RotateBands(Unary):
    """A fused tensor that stays fused, with the rows of q and k regrouped inside."""

    id = "qkv-rotary-unpermute"
    kind = "layout"
    keys = (*_KEYS, "attention.key_length", "attention.value_length")
    exporter = "regroups the rows of q and k inside the fused tensor to adjacent pairs"
    consumer = "Reads three bands of rows; rotates rows 2j and 2j+1 of each head of q and k."
    witnesses = (
        layout(
            (24,),
            (
                (24,),
                (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11, 12, 14, 16, 13, 15, 17)
                + tuple(range(18, 24)),
            ),
            attention__head_count=2,
            attention__head_count_kv=1,
            wrong=(
                {"attention.head_count": 4, "attention.head_count_kv": 2},
                {"attention.head_count": 1, "attention.head_count_kv": 1},
            ),
        ),
    )

    def rows(self, p: Params) -> int:
        return 6 * (p.heads + 2 * p.kv_heads)

    def out(self, dims: Dims, p: Params) -> Dims:
        q, k, _ = _bands(dims[0], p)
        head_dim(q, p.heads, p)
        head_dim(k, p.kv_heads, p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        q, k, v = np.split(array, np.cumsum(_bands(array.shape[0], p))[:2])
        return np.concatenate((to_halves(q, p.heads), to_halves(k, p.kv_heads), v))

    def redo_one(self, array: Array, p: Params) -> Array:
        q, k, v = np.split(array, np.cumsum(_bands(array.shape[0], p))[:2])
        return np.concatenate((to_pairs(q, p.heads), to_pairs(k, p.kv_heads), v))


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
                (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11)
                + (24, 26, 28, 25, 27, 29)
                + (36, 37, 38, 39, 40, 41)
                + (12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21, 23)
                + (30, 32, 34, 31, 33, 35)
                + (42, 43, 44, 45, 46, 47),
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


BANDS_SPLIT = SplitBands()
BANDS_SPLIT_GATED = SplitBands(gated=True)
BANDS_SPLIT_ROTARY = SplitBands("key")
BANDS_SPLIT_ROTARY_DIVIDED = SplitBands("key, heads divided")
BANDS_MERGED = MergeBands()
BANDS_MERGED_ROTARY = MergeBands("key")
BANDS_MERGED_ROTARY_DIVIDED = MergeBands("key, heads divided")
BANDS_ROTARY = RotateBands()
HEADS_FROM_BANDS = HeadsFromBands()
GROUPS_FROM_BANDS = GroupsFromBands()
GROUPS_MERGED_ROTARY = MergeGroups()
