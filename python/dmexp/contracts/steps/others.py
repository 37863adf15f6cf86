"""Steps that one architecture each has to itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Step, Unary, Witness, layout
from .rotary import Role, head_count, head_dim, to_halves, to_pairs

__all__ = [
    "ADAPTERS",
    "ADAPTERS_OF_KEYS",
    "ADAPTERS_OF_QUERIES",
    "MINUS_ROW_INDEX",
    "SHUFFLED_COLUMNS",
    "SHUFFLED_ROWS",
    "FromMetadata",
]

Array = NDArray[Any]


class Shuffled(Unary):
    """PLaMo 13B: query heads back from (5, 8) to (8, 5), in the rows of q or the columns of o."""

    kind = "layout"
    consumer = "Takes query head h to belong to key head h modulo 8."

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.id = "unshuffle-query-rows" if axis == 0 else "unshuffle-query-cols"
        self.exporter = f"reorders the query heads from (8, 5) to (5, 8), along axis {axis}"
        order = tuple(five * 8 + eight for eight in range(8) for five in range(5))
        self.witnesses = (
            layout((40,) if axis == 0 else (1, 40), ((40,) if axis == 0 else (1, 40), order)),
        )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((80, 5) if self.axis == 0 else (5, 80),)

    def out(self, dims: Dims, p: Params) -> Dims:
        if len(dims) <= self.axis or dims[self.axis] % 40:
            raise p.fail(
                f"dims {list(dims)} do not hold 8 times 5 query heads along axis {self.axis}"
            )
        return dims

    def _swap(self, array: Array, outer: int, inner: int, p: Params) -> Array:
        dims = self.out(array.shape, p)
        split = array.reshape(*dims[: self.axis], outer, inner, -1, *dims[self.axis + 1 :])
        return split.swapaxes(self.axis, self.axis + 1).reshape(dims)

    def undo_one(self, array: Array, p: Params) -> Array:
        return self._swap(array, 5, 8, p)

    def redo_one(self, array: Array, p: Params) -> Array:
        return self._swap(array, 8, 5, p)


class MinusRowIndex(Unary):
    """Absolute token ids back to offsets from the row."""

    id = "minus-row-index"
    kind = "value"
    exporter = "adds the row index, so that offsets become token ids"
    consumer = "Reads a token id of the large vocabulary for each of the small one."
    witnesses = (layout((3,), ((3,), (0, 0, 0))),)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7,),)

    def out(self, dims: Dims, p: Params) -> Dims:
        if len(dims) != 1:
            raise p.fail(f"dims {list(dims)} are no list of token ids")
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        offsets: Array = array - np.arange(array.shape[0]).astype(array.dtype)
        return offsets

    def redo_one(self, array: Array, p: Params) -> Array:
        ids: Array = array + np.arange(array.shape[0]).astype(array.dtype)
        return ids


class Adapters(Unary):
    """Stacked adapters: an empty one in front goes, an axis of length 1 comes back."""

    kind = "structure"
    exporter = "puts an all-zero adapter first and removes an axis of length 1"
    consumer = "Indexes axis 0 by adapter; 0 is no adapter."

    def __init__(self, role: Role | None = None) -> None:
        self.role: Role | None = role
        self.id = "drop-empty-adapter" if role is None else "rotary-unpermute+drop-empty-adapter"
        self.keys = () if role is None else ("attention.head_count", "attention.head_count_kv")
        zeros, ones = (0.0,) * 6, tuple(float(i) for i in range(1, 7))
        order = ones if role is None else (1.0, 3.0, 5.0, 2.0, 4.0, 6.0)
        metadata = {"attention.head_count": 1, "attention.head_count_kv": 1}
        self.witnesses = (
            Witness(
                "layout",
                metadata,
                (((2, 6, 1), zeros + ones),),
                (((1, 1, 6, 1), order),),
                ()
                if role is None
                else ({"attention.head_count": 3, "attention.head_count_kv": 3},),
            ),
            Witness("refusal", metadata, (((2, 2, 1), (1.0, 0.0, 1.0, 2.0)),), ()),
        )
        if role is not None:
            self.exporter += ", and regroups the rows of each to adjacent pairs"

    def probe(self, p: Params) -> tuple[Dims, ...]:
        rows = 7 if self.role is None else 6 * head_count(self.role, p)
        return ((3, 1, rows, 5),)

    def out(self, dims: Dims, p: Params) -> Dims:
        if len(dims) != 3 or dims[0] < 2:
            raise p.fail(f"dims {list(dims)} are no stack of adapters")
        if self.role is not None:
            head_dim(dims[1], head_count(self.role, p), p)
        return (dims[0] - 1, 1, *dims[1:])

    def check(self, stored: Sequence[Array], names: Sequence[str], p: Params) -> None:
        for array in stored:
            if np.any(array[0]):
                raise p.fail("adapter 0 is not all zero, so it is none that the exporter added")

    def undo_one(self, array: Array, p: Params) -> Array:
        rest = array[1:]
        if self.role is not None:
            heads = head_count(self.role, p)
            rest = np.stack([to_halves(one, heads) for one in rest])
        return rest[:, np.newaxis]

    def redo_one(self, array: Array, p: Params) -> Array:
        rest = array[:, 0]
        if self.role is not None:
            heads = head_count(self.role, p)
            rest = np.stack([to_pairs(one, heads) for one in rest])
        return np.concatenate((np.zeros_like(rest[:1]), rest))


class FromMetadata(Step):
    """A scalar that the exporter moved from a tensor to a metadata key."""

    kind = "structure"
    exporter = "writes the scalar of each layer into a metadata array"
    consumer = "Reads the scalar of the layer from the metadata."

    def __init__(self, key: str, dims: Dims) -> None:
        self.id = "scalar-from-metadata"
        self.key = key
        self.keys = (key,)
        self._dims = dims
        self.witnesses = (
            Witness(
                "layout",
                {key: [0.25, 0.5, 0.75]},
                (),
                ((dims, (0.5,)),),
                ({key: [0.5, 0.25, 0.75]},),
                block=1,
            ),
        )

    def value(self, p: Params) -> float:
        """The scalar of this block, or of the model."""
        found = p.raw(self.key, p.metadata.get(self.key))
        if isinstance(found, list | tuple):
            if p.block is None or p.block >= len(found):
                raise p.fail(f"'{p.prefix}.{self.key}' has {len(found)} values")
            found = found[p.block]
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise p.fail(f"'{p.prefix}.{self.key}' is {found!r}, expected a number")
        return float(found)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return (self._dims,)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        self.value(p)
        return (self._dims,)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        return np.full(self._dims, self.value(p), np.float32)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        return ()


SHUFFLED_ROWS = Shuffled(0)
SHUFFLED_COLUMNS = Shuffled(1)
MINUS_ROW_INDEX = MinusRowIndex()
ADAPTERS = Adapters()
ADAPTERS_OF_QUERIES = Adapters("query")
ADAPTERS_OF_KEYS = Adapters("key")
