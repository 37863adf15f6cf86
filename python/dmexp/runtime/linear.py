"""A weight matrix as the model applies it: whole in f32, or widened block by block."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._narrow import widen

Array = np.ndarray[Any, np.dtype[np.float32]]
Ids = np.ndarray[Any, np.dtype[np.intp]]
Stored = np.ndarray[Any, np.dtype[Any]]

BLOCK_BYTES = 2 << 20
"""f32 bytes that `NarrowLinear` widens at a time: a block stays in the cache until it is used."""


class Linear(Protocol):
    """y = x Wᵀ (+ b) for x f32 ``[positions, in]``; y is a new f32 ``[positions, out]``."""

    def __call__(self, x: Array) -> Array: ...

    def rows(self, ids: Ids) -> Array:
        """Rows of W as a new f32 array, for embeddings."""
        ...


class WideLinear:
    """A matrix that is f32 in memory, mapped or not."""

    __slots__ = ("_bias", "_transposed", "_weight")

    def __init__(self, weight: Array, bias: Array | None = None) -> None:
        self._weight = weight
        # A view: BLAS takes the transposition as a flag.
        self._transposed = weight.T
        self._bias = bias

    def __call__(self, x: Array) -> Array:
        y: Array = x @ self._transposed
        if self._bias is not None:
            y += self._bias
        return y

    def rows(self, ids: Ids) -> Array:
        rows: Array = self._weight[ids]
        return rows


class NarrowLinear:
    """A bf16 or f16 matrix that stays as it is stored; memory for one block is enough.

    Slower than `WideLinear` by the widening, which is done again on every call.
    """

    __slots__ = ("_bias", "_block_rows", "_weight")

    def __init__(self, weight: Stored, bias: Array | None = None) -> None:
        self._weight = weight
        self._bias = bias
        self._block_rows = max(1, BLOCK_BYTES // (4 * max(1, weight.shape[1])))

    def __call__(self, x: Array) -> Array:
        outputs = len(self._weight)
        y = np.empty((len(x), outputs), dtype=np.float32)
        for start in range(0, outputs, self._block_rows):
            stop = start + self._block_rows
            y[:, start:stop] = x @ widened(self._weight[start:stop]).T
        if self._bias is not None:
            y += self._bias
        return y

    def rows(self, ids: Ids) -> Array:
        return widened(self._weight[ids])


def widened(stored: Stored) -> Array:
    """The values as f32 that BLAS can take without a copy of its own.

    f32 stays where it is, mapped, unless it starts at an odd address: NumPy would copy such an
    array on every product, so it is copied once here.
    """
    if stored.dtype.itemsize == 2:
        return widen(stored)
    wide: Array = np.asarray(stored, dtype=np.float32)
    return wide if wide.flags.aligned and wide.flags.c_contiguous else np.array(wide, order="C")
