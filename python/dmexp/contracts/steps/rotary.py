"""Rotary rows: within each head, two halves in the checkpoint, adjacent pairs in the file.

A head of dim D rotates D/2 pairs of rows. Hugging Face pairs row j with row j + D/2; llama.cpp's
first rotary kind pairs row 2j with row 2j + 1, and its exporter regroups the rows accordingly.
Both orders have the same shape and the same values, so only a declared step tells them apart.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Unary, layout

__all__ = [
    "KEY_HEADS_DIVIDED",
    "KEY_ROWS",
    "KEY_ROWS_OF_ATTENTION",
    "NEGATE_SECOND_HALF",
    "PARTIAL_KEY_ROWS",
    "PARTIAL_QUERY_ROWS",
    "QUERY_ROWS",
    "QUERY_ROWS_OF_ATTENTION",
    "STACKED_QUERY_ROWS",
    "to_halves",
    "to_pairs",
]

Array = NDArray[Any]
Role = Literal["query", "key", "key, heads divided"]


def to_halves(rows: Array, heads: int) -> Array:
    """Adjacent pairs to two halves: ``(heads, D/2, 2)`` to ``(heads, 2, D/2)``."""
    paired = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return paired.swapaxes(1, 2).reshape(rows.shape)


def to_pairs(rows: Array, heads: int) -> Array:
    """Two halves to adjacent pairs: ``(heads, 2, D/2)`` to ``(heads, D/2, 2)``."""
    halved = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halved.swapaxes(1, 2).reshape(rows.shape)


def head_count(role: Role, p: Params) -> int:
    """How many heads the rows belong to."""
    if role == "query":
        return p.heads
    if role == "key":
        return p.kv_heads
    # Xverse and Baichuan: the exporter divides the counts instead of replacing one by the other.
    return p.heads if p.heads == p.kv_heads else max(p.heads // p.kv_heads, 1)


def head_dim(rows: int, heads: int, p: Params, multiple: int = 2) -> int:
    """The rows of one head, checked to be a whole multiple."""
    if rows % (heads * multiple):
        raise p.fail(
            f"{rows} rows are no whole number of pairs in each of {heads} heads; "
            "the head count of the header belongs to another tensor"
        )
    return rows // heads


class RotaryUnpermute(Unary):
    """Adjacent pairs back to two halves, over the whole head even where rotation is partial."""

    id = "rotary-unpermute"
    kind = "layout"
    exporter = "regroups the rows of each head from two halves to adjacent pairs"
    consumer = "Rotates rows 2j and 2j+1 of a head by the same angle."

    def __init__(self, role: Role, *, attention_layers_only: bool = False) -> None:
        self.role = role
        self.attention_layers_only = attention_layers_only
        self.keys = ("attention.head_count", "attention.head_count_kv")
        if role == "query":
            heads, kv = 2, 1
        elif role == "key":
            heads, kv = 6, 2
        else:
            heads, kv = 6, 3
        if role == "query" and not attention_layers_only:
            self.keys = self.keys[:1]
        self.witnesses = (
            layout(
                (12,),
                ((12,), (0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11)),
                attention__head_count=heads,
                attention__head_count_kv=kv,
                wrong=(
                    {"attention.head_count": kv, "attention.head_count_kv": heads},
                    {"attention.head_count": 3, "attention.head_count_kv": 3},
                ),
            ),
        )

    def active(self, p: Params) -> bool:
        # In hybrid files the exporter writes 0 key heads for the blocks it takes for recurrent
        # ones, and leaves their rows alone.
        return not (self.attention_layers_only and p.integer("attention.head_count_kv", 1) == 0)

    def rows(self, p: Params) -> int:
        return 6 * head_count(self.role, p) if self.active(p) else 7

    def out(self, dims: Dims, p: Params) -> Dims:
        if self.active(p):
            head_dim(dims[0], head_count(self.role, p), p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        heads = head_count(self.role, p)
        head_dim(array.shape[0], heads, p)
        return to_halves(array, heads)

    def redo_one(self, array: Array, p: Params) -> Array:
        heads = head_count(self.role, p)
        head_dim(array.shape[0], heads, p)
        return to_pairs(array, heads)


class StackedRotaryUnpermute(Unary):
    """As `RotaryUnpermute` for the first D of every 2D rows; the D gate rows stay."""

    id = "stacked-q-rotary-unpermute"
    kind = "layout"
    keys = ("attention.head_count",)
    exporter = "regroups the query rows of each head, not the gate rows that follow them"
    consumer = "Rotates rows 2j and 2j+1 of the query part of a head by the same angle."
    witnesses = (
        layout(
            (24,),
            (
                (24,),
                (
                    *(0, 2, 4, 1, 3, 5, 6, 7, 8, 9, 10, 11),
                    *(12, 14, 16, 13, 15, 17, 18, 19, 20, 21, 22, 23),
                ),
            ),
            attention__head_count=2,
            wrong=({"attention.head_count": 1}, {"attention.head_count": 3}),
        ),
    )

    def rows(self, p: Params) -> int:
        return 12 * p.heads

    def out(self, dims: Dims, p: Params) -> Dims:
        head_dim(dims[0], p.heads, p, 4)
        return dims

    def _split(self, array: Array, p: Params) -> Array:
        size = head_dim(array.shape[0], p.heads, p, 4) // 2
        return array.reshape(p.heads, 2, size, *array.shape[1:]).copy()

    def undo_one(self, array: Array, p: Params) -> Array:
        parts = self._split(array, p)
        rows = parts[:, 0].reshape(-1, *array.shape[1:])
        parts[:, 0] = to_halves(rows, p.heads).reshape(parts[:, 0].shape)
        return parts.reshape(array.shape)

    def redo_one(self, array: Array, p: Params) -> Array:
        parts = self._split(array, p)
        rows = parts[:, 0].reshape(-1, *array.shape[1:])
        parts[:, 0] = to_pairs(rows, p.heads).reshape(parts[:, 0].shape)
        return parts.reshape(array.shape)


class PartialRotaryRepair(Unary):
    """Two halves back to adjacent pairs, in the rotated rows of each head only.

    The opposite direction: the checkpoint holds adjacent pairs, and the exporter splits them for
    a runtime with multi-section rotation. Files without ``rope.dimension_sections`` are left alone.
    """

    id = "partial-rotary-permute"
    kind = "layout"
    keys = (
        "attention.head_count",
        "attention.head_count_kv",
        "rope.dimension_count",
        "rope.dimension_sections",
    )
    exporter = "splits the rotated rows of each head from adjacent pairs into two halves"
    consumer = "Rotates row j of the rotated part of a head together with row j + half of it."

    def __init__(self, role: Role) -> None:
        self.role = role
        self.witnesses = (
            layout(
                (16,),
                ((16,), (0, 3, 1, 4, 2, 5, 6, 7, 8, 11, 9, 12, 10, 13, 14, 15)),
                attention__head_count=2 if role == "query" else 4,
                attention__head_count_kv=1 if role == "query" else 2,
                rope__dimension_count=6,
                rope__dimension_sections=[1, 1, 1, 0],
                wrong=(
                    {"rope.dimension_count": 4},
                    {"attention.head_count": 1, "attention.head_count_kv": 1},
                ),
            ),
        )

    def active(self, p: Params) -> bool:
        return p.has("rope.dimension_sections")

    def _parts(self, rows: int, p: Params) -> tuple[int, int, int]:
        heads = head_count(self.role, p)
        size = head_dim(rows, heads, p, 1)
        rotated = p.positive("rope.dimension_count")
        if rotated % 2 or rotated > size:
            raise p.fail(f"{rotated} rotated rows do not fit heads of {size} rows")
        return heads, size, rotated

    def rows(self, p: Params) -> int:
        return 8 * head_count(self.role, p)

    def out(self, dims: Dims, p: Params) -> Dims:
        if self.active(p):
            self._parts(dims[0], p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        heads, size, rotated = self._parts(array.shape[0], p)
        parts = array.reshape(heads, size, *array.shape[1:]).copy()
        halves = parts[:, :rotated].reshape(heads, 2, rotated // 2, *array.shape[1:])
        parts[:, :rotated] = halves.swapaxes(1, 2).reshape(parts[:, :rotated].shape)
        return parts.reshape(array.shape)

    def redo_one(self, array: Array, p: Params) -> Array:
        heads, size, rotated = self._parts(array.shape[0], p)
        parts = array.reshape(heads, size, *array.shape[1:]).copy()
        pairs = parts[:, :rotated].reshape(heads, rotated // 2, 2, *array.shape[1:])
        parts[:, :rotated] = pairs.swapaxes(1, 2).reshape(parts[:, :rotated].shape)
        return parts.reshape(array.shape)


class NegateSecondHalf(Unary):
    """The second half of every head changes its sign: the reference rotates the other way."""

    id = "negate-second-half"
    kind = "value"
    self_inverse = True
    keys = ("attention.head_count", "attention.key_length")
    exporter = "negates the second half of the rows of each head"
    consumer = "Rotates in the usual direction; the reference implementation rotates backwards."
    witnesses = (
        # Its own inverse, so the witness tells it from identity and from a wrong head dim only.
        layout(
            (12,),
            ((12,), (0, 1, 2, -3, -4, -5, 6, 7, 8, -9, -10, -11)),
            attention__key_length=6,
            wrong=({"attention.key_length": 12}, {"attention.key_length": 4}),
        ),
    )

    def _size(self, rows: int, p: Params) -> int:
        size = p.positive("attention.key_length")
        if rows % size or size % 2:
            raise p.fail(f"{rows} rows are no whole number of heads of {size} rows")
        return size

    def rows(self, p: Params) -> int:
        return 2 * p.positive("attention.key_length")

    def out(self, dims: Dims, p: Params) -> Dims:
        self._size(dims[0], p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        size = self._size(array.shape[0], p)
        parts = array.reshape(-1, size, *array.shape[1:]).copy()
        np.negative(parts[:, size // 2 :], out=parts[:, size // 2 :])
        return parts.reshape(array.shape)

    redo_one = undo_one


QUERY_ROWS = RotaryUnpermute("query")
KEY_ROWS = RotaryUnpermute("key")
KEY_HEADS_DIVIDED = RotaryUnpermute("key, heads divided")
QUERY_ROWS_OF_ATTENTION = RotaryUnpermute("query", attention_layers_only=True)
KEY_ROWS_OF_ATTENTION = RotaryUnpermute("key", attention_layers_only=True)
STACKED_QUERY_ROWS = StackedRotaryUnpermute()
PARTIAL_QUERY_ROWS = PartialRotaryRepair("query")
PARTIAL_KEY_ROWS = PartialRotaryRepair("key")
NEGATE_SECOND_HALF = NegateSecondHalf()
