"""Inputs: values as in a trained model, awkward ones, and whole models."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

GIB = 1 << 30
MIB = 1 << 20
_BLOCK = 1 << 20


def give_back_freed_memory() -> None:
    """Have the C library return what was freed to the system: whoever asks next gets new memory.

    Without it results of tens of MiB are new or lie where earlier ones lay, by chance.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def normal(count: int, seed: int = 1) -> Array:
    """Values of a layer: normal with a deviation of 0.02."""
    values = np.empty(count, "f4")
    # A million random values, repeated at different scales: drawing all of them takes minutes.
    block = np.random.default_rng(seed).standard_normal(min(count, _BLOCK), dtype="f4")
    for nth, start in enumerate(range(0, count, _BLOCK)):
        part = values[start : start + _BLOCK]
        np.multiply(block[: part.size], np.float32(0.02 * (1 + nth % 7 / 16)), out=part)
    return values


def below(count: int, limit: float, seed: int = 2) -> Array:
    """Values of at most ``limit`` in magnitude."""
    return normal(count, seed) * np.float32(limit / 0.2)


def tiny(count: int) -> Array:
    """10 % a millionth of the rest, 5 % at the edge of f32's range, 1 % exact zeros."""
    values = normal(count)
    draw = np.random.default_rng(3).random(count, dtype="f4")
    values[draw < 0.10] *= np.float32(1e-6)
    values[draw < 0.05] *= np.float32(1e-32)
    values[draw < 0.01] = 0.0
    return values


def with_every(count: int, step: int, value: float) -> Array:
    """Ordinary values with ``value`` at every ``step``-th place."""
    values = normal(count)
    values[step // 2 :: step] = value
    return values


def model(nbytes: int, tensors: int = 200, seed: int = 4) -> dict[str, Array]:
    """A model of f32 tensors of one size, with names as long as real ones."""
    rows = max(1, nbytes // 4 // tensors // 1024)
    width = 1024 if nbytes // 4 // tensors >= 1024 else max(1, nbytes // 4 // tensors)
    block = normal(rows * width + tensors, seed)
    model = {}
    for nth in range(tensors):
        name = f"model.layers.{nth // 7}.self_attn.{'qkvo'[nth % 4]}_proj.{nth}.weight"
        # Each starts elsewhere, so that no two are alike.
        model[name] = block[nth : nth + rows * width].reshape(rows, width).copy()
    return model


def small_model() -> dict[str, Array]:
    """9.2 million parameters in 54 tensors, as a small language model has them."""
    hidden, layers, vocabulary = 256, 6, 8_192
    shapes: dict[str, tuple[int, ...]] = {"embed.weight": (vocabulary, hidden)}
    for nth in range(layers):
        at = f"layers.{nth}"
        for name in ("q", "k", "v", "o"):
            shapes[f"{at}.attn.{name}.weight"] = (hidden, hidden)
        shapes[f"{at}.mlp.up.weight"] = (4 * hidden, hidden)
        shapes[f"{at}.mlp.gate.weight"] = (4 * hidden, hidden)
        shapes[f"{at}.mlp.down.weight"] = (hidden, 4 * hidden)
        shapes[f"{at}.norm.weight"] = (hidden,)
    shapes["norm.weight"] = (hidden,)
    shapes["head.weight"] = (3160, hidden)
    for nth in range(54 - len(shapes)):
        shapes[f"bias.{nth}"] = (hidden,)
    return {
        name: normal(int(np.prod(shape)), seed).reshape(shape)
        for seed, (name, shape) in enumerate(shapes.items())
    }
