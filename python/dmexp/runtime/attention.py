"""Grouped-query attention over a key/value cache, with sliding windows and soft caps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .linear import Linear
from .norm import rms_norm
from .rope import Rotary, rotate

Array = np.ndarray[Any, np.dtype[np.float32]]


class LayerCache:
    """Keys (already turned) and values of one layer, ``[kv_heads, positions, head_dim]``.

    Heads come first so that one head's keys are one contiguous matrix. Grows by doubling.
    """

    __slots__ = ("keys", "values")

    def __init__(self, kv_heads: int, head_dim: int, positions: int) -> None:
        self.keys = np.empty((kv_heads, positions, head_dim), dtype=np.float32)
        self.values = np.empty_like(self.keys)

    def write(self, start: int, keys: Array, values: Array) -> None:
        """Put ``[positions, kv_heads, head_dim]`` at ``start``, over whatever was there."""
        stop = start + len(keys)
        if stop > self.keys.shape[1]:
            self.keys = _grown(self.keys, stop, start)
            self.values = _grown(self.values, stop, start)
        self.keys[:, start:stop] = keys.transpose(1, 0, 2)
        self.values[:, start:stop] = values.transpose(1, 0, 2)


def _grown(old: Array, needed: int, used: int) -> Array:
    heads, positions, head_dim = old.shape
    new = np.empty((heads, max(needed, 2 * positions), head_dim), dtype=np.float32)
    new[:, :used] = old[:, :used]
    return new


@dataclass(frozen=True, slots=True)
class Attention:
    """One layer's attention block."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    query_norm: Array | None
    key_norm: Array | None
    eps: np.float32
    heads: int
    kv_heads: int
    head_dim: int
    scale: np.float32
    soft_cap: np.float32 | None
    window: int | None
    """A position sees itself and the ``window - 1`` before it; None for all before it."""
    rotary: Rotary

    def __call__(self, x: Array, start: int, cache: LayerCache) -> Array:
        """Attend from ``x`` f32 ``[positions, hidden]``, whose first position is ``start``."""
        count = len(x)
        stop = start + count
        queries = self.query(x).reshape(count, self.heads, self.head_dim)
        keys = self.key(x).reshape(count, self.kv_heads, self.head_dim)
        values = self.value(x).reshape(count, self.kv_heads, self.head_dim)
        if self.query_norm is not None:
            queries = rms_norm(queries, self.query_norm, self.eps)
        if self.key_norm is not None:
            keys = rms_norm(keys, self.key_norm, self.eps)
        cos, sin = self.rotary.at(start, stop)
        queries = rotate(queries, cos, sin)
        queries *= self.scale
        cache.write(start, rotate(keys, cos, sin), values)

        first = 0 if self.window is None else max(0, start - self.window + 1)
        mixed = self._mix(
            queries, cache.keys[:, first:stop], cache.values[:, first:stop], start - first
        )
        return self.output(mixed)

    def _mix(self, queries: Array, keys: Array, values: Array, offset: int) -> Array:
        count, group = len(queries), self.heads // self.kv_heads
        # Query heads that share a key head become rows of one matrix.
        grouped: Array = queries.reshape(count, self.kv_heads, group, self.head_dim)
        grouped = grouped.transpose(1, 2, 0, 3).reshape(self.kv_heads, -1, self.head_dim)
        scores: Array = grouped @ keys.transpose(0, 2, 1)
        if self.soft_cap is not None:
            scores /= self.soft_cap
            np.tanh(scores, out=scores)
            scores *= self.soft_cap
        if count > 1:
            by_position = scores.reshape(self.kv_heads, group, count, -1)
            by_position += causal_mask(count, scores.shape[-1], offset, self.window)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        mixed: Array = scores @ values
        # Dividing the mixture and not the weights: head_dim values a row in place of all positions.
        mixed /= scores.sum(axis=-1, keepdims=True)
        mixed = mixed.reshape(self.kv_heads, group, count, self.head_dim)
        return mixed.transpose(2, 0, 1, 3).reshape(count, -1)


def causal_mask(count: int, keys: int, offset: int, window: int | None) -> Array:
    """0 where query ``i`` (at key index ``offset + i``) may look, -inf elsewhere."""
    distance = np.arange(offset, offset + count)[:, None] - np.arange(keys)
    hidden = distance < 0
    if window is not None:
        hidden |= distance >= window
    mask: Array = np.where(hidden, np.float32("-inf"), np.float32(0)).astype(np.float32)
    return mask
