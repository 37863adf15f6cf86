"""The weights of the recorded models. Imports nothing of dmexp: the reference is made without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


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
