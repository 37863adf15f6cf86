"""The decoder: embedding, layers, final norm, head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from .attention import Attention, LayerCache
from .config import ModelConfig
from .linear import Ids, Linear
from .mlp import GatedMlp
from .norm import rms_norm

Array = np.ndarray[Any, np.dtype[np.float32]]

PREFILL_POSITIONS = 256
"""Positions that go through the layers at once: it bounds the score matrices of a long prompt."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer. The post norms are Gemma's; other families have none."""

    attention_norm: Array
    attention: Attention
    attention_post_norm: Array | None
    mlp_norm: Array
    mlp: GatedMlp
    mlp_post_norm: Array | None


class Cache:
    """What the layers remember of the tokens so far. Belongs to one sequence of one model."""

    __slots__ = ("layers", "length")

    def __init__(self, config: ModelConfig, positions: int = PREFILL_POSITIONS) -> None:
        positions = min(positions, config.max_positions)
        self.layers = [
            LayerCache(config.kv_heads, config.head_dim, positions) for _ in config.layers
        ]
        self.length = 0


class Model:
    """A decoder with its weights. Reading only: threads may share it, each with its own `Cache`."""

    def __init__(
        self,
        config: ModelConfig,
        embedding: Linear,
        layers: Sequence[Layer],
        norm: Array,
        head: Linear,
    ) -> None:
        self.config = config
        self._embedding = embedding
        self._layers = tuple(layers)
        self._norm = norm
        self._head = head
        self._eps = np.float32(config.eps)

    def logits(
        self, tokens: Sequence[int], cache: Cache | None = None, *, every: bool = False
    ) -> Array:
        """Run ``tokens`` after what ``cache`` holds and return f32 logits.

        Parameters
        ----------
        tokens
            One token id or more.
        cache
            Grows by ``len(tokens)``; None starts an empty one.
        every
            Logits of every token, ``[tokens, vocab]``, instead of the last one's, ``[vocab]``.

        Raises
        ------
        InvalidArgumentError
            No token, a token outside the vocabulary, or more than the model's positions.
        """
        cache = Cache(self.config) if cache is None else cache
        ids = self.check(tokens, cache.length)
        parts = []
        # A very large activation may overflow exp on its way to the right limit.
        with np.errstate(over="ignore", under="ignore"):
            for start in range(0, len(ids), PREFILL_POSITIONS):
                hidden = self._run(ids[start : start + PREFILL_POSITIONS], cache)
                if every:
                    parts.append(self._read_out(hidden))
            return np.concatenate(parts) if every else self._read_out(hidden[-1:])[0]

    def remember(self, tokens: Sequence[int], cache: Cache) -> None:
        """Run ``tokens`` for their keys and values alone, as `logits` does, and compute none."""
        ids = self.check(tokens, cache.length)
        with np.errstate(over="ignore", under="ignore"):
            for start in range(0, len(ids), PREFILL_POSITIONS):
                self._run(ids[start : start + PREFILL_POSITIONS], cache)

    def check(self, tokens: Sequence[int], position: int = 0) -> Ids:
        """``tokens`` as an array, if the model can run them from ``position`` on.

        Raises
        ------
        InvalidArgumentError
            As for `logits`.
        """
        try:
            ids = np.asarray(tokens, dtype=np.intp)
        except OverflowError:
            # Beyond 64 bits, which is beyond any vocabulary; the array stands in for it.
            ids = np.full(len(tokens), -1, dtype=np.intp)
        if ids.ndim != 1 or ids.size == 0:
            raise InvalidArgumentError("there is no token to run.", argument="tokens")
        if ids.min() < 0 or ids.max() >= self.config.vocab_size:
            wrong = next(token for token in tokens if not 0 <= token < self.config.vocab_size)
            raise InvalidArgumentError(
                f"token {wrong} is outside the model's vocabulary of {self.config.vocab_size}: "
                "the tokenizer belongs to another model.",
                argument="tokens",
                token=int(wrong),
            )
        if position + ids.size > self.config.max_positions:
            raise InvalidArgumentError(
                f"{position + ids.size} tokens do not fit the model's "
                f"{self.config.max_positions} positions.",
                argument="tokens",
                found=position + ids.size,
                limit=self.config.max_positions,
            )
        return ids

    def _run(self, ids: Ids, cache: Cache) -> Array:
        eps, start = self._eps, cache.length
        x = self._embedding.rows(ids)
        if self.config.embedding_scale != 1.0:
            x *= np.float32(self.config.embedding_scale)
        for layer, memory in zip(self._layers, cache.layers, strict=True):
            mixed = layer.attention(rms_norm(x, layer.attention_norm, eps), start, memory)
            if layer.attention_post_norm is not None:
                mixed = rms_norm(mixed, layer.attention_post_norm, eps)
            x += mixed
            changed = layer.mlp(rms_norm(x, layer.mlp_norm, eps))
            if layer.mlp_post_norm is not None:
                changed = rms_norm(changed, layer.mlp_post_norm, eps)
            x += changed
        cache.length = start + len(ids)
        return x

    def _read_out(self, hidden: Array) -> Array:
        logits = self._head(rms_norm(hidden, self._norm, self._eps))
        if self.config.logit_cap is not None:
            cap = np.float32(self.config.logit_cap)
            logits /= cap
            np.tanh(logits, out=logits)
            logits *= cap
        return logits
