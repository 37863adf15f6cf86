"""Small models for the runtime's tests, with reference values made by transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VECTORS = Path(__file__).resolve().parent / "vectors" / "runtime"


def weights(
    dims: Mapping[str, tuple[int, ...]], seed: int, model_type: str
) -> dict[str, np.ndarray[Any, Any]]:
    """Random f32 weights by name: gains around 1 (0 for Gemma), biases that matter.

    ``RandomState`` and not ``default_rng``: its stream is frozen, so the reference values hold
    with every NumPy.
    """
    centre = 0.0 if model_type.startswith("gemma") else 1.0
    drawn = {}
    for index, name in enumerate(sorted(dims)):
        random = np.random.RandomState(seed * 1000 + index)
        values = random.standard_normal(dims[name])
        if name.endswith("norm.weight"):
            values = centre + 0.3 * values
        elif name.endswith(".bias"):
            values = 0.5 * values
        else:
            values = values * 1.5 / np.sqrt(dims[name][-1])
        drawn[name] = values.astype(np.float32)
    return drawn


@dataclass(frozen=True)
class Case:
    """One recorded model."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, np.ndarray[Any, Any]]
    tokens: list[int]
    logits: np.ndarray[Any, Any]
    greedy: list[int]


def case_names() -> list[str]:
    return sorted(path.stem for path in VECTORS.glob("*.json"))


def case(name: str) -> Case:
    """Read a recorded model and draw its weights again."""
    described = json.loads((VECTORS / f"{name}.json").read_text())
    dims = {key: tuple(value) for key, value in described["dims"].items()}
    config = described["config"]
    with np.load(VECTORS / f"{name}.npz") as arrays:
        logits = arrays["logits"]
    return Case(
        name,
        config,
        weights(dims, described["seed"], config["model_type"]),
        described["tokens"],
        logits,
        described["greedy"],
    )
