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
from .._step import WIDTH, Dims, Step, Unary, Witness, layout
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

    def __init__(self, key: Role | None = None, *, gated: bool = False, witness: Witness) -> None:
        self.key: Role | None = key
        self.gated = gated
        self.moves = key is not None
        self.exporter = "joins q, k and v by rows (--fuse-qkv)"
        self.witnesses = (witness,)
        if key is not None:
            self.id = "split-qkv+rotary-unpermute"
            self.exporter += ", after regrouping the rows of q and k to adjacent pairs"

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
    consumer = "Reads q, k and v as three tensors."

    def __init__(self, key: Role | None = None, *, witness: Witness) -> None:
        self.key: Role | None = key
        self.moves = key is not None
        self.id = "merge-qkv" if key is None else "rotary-unpermute+merge-qkv"
        self.keys = () if key is None else _KEYS
        self.exporter = "splits the fused rows into q, k and v"
        self.witnesses = (witness,)
        if key is not None:
            self.exporter += ", and regroups the rows of q and k to adjacent pairs"

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
                (
                    *(0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11),
                    *(12, 14, 16, 13, 15, 17),
                    *range(18, 24),
                ),
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


# Two heads of six rows, and one of six, from adjacent pairs to two halves.
_TWO_HEADS = (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11)
_ONE_HEAD = (0, 2, 4, 1, 3, 5)
_COUNTS = {"attention__head_count": 2, "attention__head_count_kv": 1}
_WRONG = (
    {"attention.head_count": 4, "attention.head_count_kv": 2},
    {"attention.head_count": 1, "attention.head_count_kv": 1},
)
# Six query heads of four rows; k has three heads and is regrouped as 6 // 3 heads of six.
_SIX_HEADS = tuple(4 * head + row for head in range(6) for row in (0, 2, 1, 3))
_DIVIDED = {"attention__head_count": 6, "attention__head_count_kv": 3}
_WRONG_DIVIDED = ({"attention.head_count_kv": 6}, {"attention.head_count": 3})


def _from(start: int, order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(start + at for at in order)


BANDS_SPLIT = SplitBands(
    witness=layout(
        (16,),
        (((8,), range(8)), ((4,), range(8, 12)), ((4,), range(12, 16))),
        wrong=({"attention.head_count": 1, "attention.head_count_kv": 2},),
        **_COUNTS,
    )
)
BANDS_SPLIT_GATED = SplitBands(
    gated=True,
    witness=layout(
        (24,),
        (((16,), range(16)), ((4,), range(16, 20)), ((4,), range(20, 24))),
        wrong=({"attention.head_count": 1, "attention.head_count_kv": 2},),
        **_COUNTS,
    ),
)
BANDS_SPLIT_ROTARY = SplitBands(
    "key",
    witness=layout(
        (24,),
        (((12,), _TWO_HEADS), ((6,), _from(12, _ONE_HEAD)), ((6,), range(18, 24))),
        wrong=_WRONG,
        **_COUNTS,
    ),
)
BANDS_SPLIT_ROTARY_DIVIDED = SplitBands(
    "key, heads divided",
    witness=layout(
        (48,),
        (((24,), _SIX_HEADS), ((12,), _from(24, _TWO_HEADS)), ((12,), range(36, 48))),
        wrong=_WRONG_DIVIDED,
        **_DIVIDED,
    ),
)
BANDS_MERGED = MergeBands(witness=layout(((12,), (6,), (6,)), ((24,), range(24))))
BANDS_MERGED_ROTARY = MergeBands(
    "key",
    witness=layout(
        ((12,), (6,), (6,)),
        ((24,), (*_TWO_HEADS, *_from(12, _ONE_HEAD), *range(18, 24))),
        wrong=(
            {"attention.head_count": 1},
            {"attention.head_count": 3, "attention.head_count_kv": 3},
        ),
        **_COUNTS,
    ),
)
BANDS_MERGED_ROTARY_DIVIDED = MergeBands(
    "key, heads divided",
    witness=layout(
        ((24,), (12,), (12,)),
        ((48,), (*_SIX_HEADS, *_from(24, _TWO_HEADS), *range(36, 48))),
        wrong=_WRONG_DIVIDED,
        **_DIVIDED,
    ),
)
BANDS_ROTARY = RotateBands()
