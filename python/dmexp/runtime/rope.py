"""Rotary position embedding, rotate-half layout: which angles, and how they are applied.

A head of d values is two halves; pair i is (x[i], x[i + d/2]) and turns by position × frequency i.
The pairing is the Hugging Face one. GGUF files of the llama family pair neighbours instead; their
importer puts the rows back, so nothing here needs to know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .fields import Fields

Array = np.ndarray[Any, np.dtype[np.float32]]

LAYER_KINDS = ("full_attention", "sliding_attention")
"""What an entry of ``layer_types`` may be."""

SCALINGS = ("default", "linear", "llama3")
"""What ``rope_type`` may be."""


@dataclass(frozen=True, slots=True)
class Rope:
    """The parameters that give one table of angles."""

    theta: float
    scaling: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_positions: int = 0

    def frequencies(self, head_dim: int) -> Array:
        """The angle per position of each of the ``head_dim / 2`` pairs, f32."""
        exponents = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
        frequencies: np.ndarray[Any, Any] = 1.0 / self.theta**exponents
        if self.scaling == "linear":
            frequencies /= self.factor
        elif self.scaling == "llama3":
            frequencies = self._llama3(frequencies)
        rounded: Array = frequencies.astype(np.float32)
        return rounded

    def _llama3(self, frequencies: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # Fast pairs stay, slow pairs are divided, those between are blended.
        turns = self.original_positions * frequencies / (2 * math.pi)
        blend = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        blend = np.clip(blend, 0.0, 1.0)
        scaled: np.ndarray[Any, Any] = frequencies * (blend + (1 - blend) / self.factor)
        return scaled


def read_rope(fields: Fields, kind: str, theta: float, *, scaled: bool = True) -> Rope:
    """The rotary parameters for layers of ``kind`` (``"full_attention"`` …).

    Reads ``rope_parameters`` (flat, or one table per kind of layer) or the older
    ``rope_scaling``. ``theta`` is what the older spelling says for this kind, or the family's
    default; ``scaled=False`` leaves ``rope_scaling`` to the other kind of layer.
    """
    table = fields.table("rope_parameters")
    if table is not None and any(name in table for name in LAYER_KINDS):
        table = table.table(kind)
        if table is None:
            fields.refuse("rope_parameters", f"it has no table for {kind} layers")
    elif table is None and scaled:
        table = fields.table("rope_scaling")
    if table is None:
        return Rope(theta)
    base = table.number("rope_theta", theta)
    key = "rope_type" if "rope_type" in table else "type"
    scaling = table.text(key, "default")
    if scaling not in SCALINGS:
        table.refuse(
            key,
            "the runtime knows the rotary types 'default', 'linear' and 'llama3'",
            list(SCALINGS),
        )
    for odd in ("mrope_section", "partial_rotary_factor"):
        if odd in table and table.raw(odd) != 1.0:
            table.refuse(odd, "the runtime turns every pair of a head by one position")
    if scaling == "default":
        return Rope(base)
    if scaling == "linear":
        return Rope(base, scaling, table.number("factor"))
    rope = Rope(
        base,
        scaling,
        table.number("factor"),
        table.number("low_freq_factor"),
        table.number("high_freq_factor"),
        table.count("original_max_position_embeddings"),
    )
    if rope.high_freq_factor <= rope.low_freq_factor:
        table.refuse("high_freq_factor", "it has to be above low_freq_factor")
    return rope


class Rotary:
    """Cosines and sines for the positions met so far; grows by doubling.

    Angles are f32 products, as every trained model saw them: exact ones would differ from the
    training run at long positions.
    """

    __slots__ = ("_cos", "_frequencies", "_sin")

    def __init__(self, rope: Rope, head_dim: int) -> None:
        self._frequencies = rope.frequencies(head_dim)
        self._cos = self._sin = np.empty((0, 1, head_dim // 2), dtype=np.float32)

    def at(self, start: int, stop: int) -> tuple[Array, Array]:
        """Tables for positions ``start`` to ``stop``, f32, ``[positions, 1, head_dim / 2]``."""
        if stop > len(self._cos):
            positions = np.arange(max(256, 1 << (stop - 1).bit_length()), dtype=np.float32)
            angles = positions[:, None, None] * self._frequencies
            # Two assignments, each complete: a reader in another thread sees a table or the next.
            self._sin = np.sin(angles)
            self._cos = np.cos(angles)
        return self._cos[start:stop], self._sin[start:stop]


def rotate(heads: Array, cos: Array, sin: Array) -> Array:
    """Turn ``heads`` f32 ``[positions, heads, head_dim]``; returns a new array."""
    half = heads.shape[-1] // 2
    left, right = heads[..., :half], heads[..., half:]
    turned = np.empty_like(heads)
    np.subtract(left * cos, right * sin, out=turned[..., :half])
    np.add(right * cos, left * sin, out=turned[..., half:])
    return turned
