"""RMSNorm: scale to unit root mean square, then by a learned gain."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]


def gain(weight: Array, offset: float) -> Array:
    """The factor that a stored norm weight stands for: Gemma stores the gain less one."""
    return weight + np.float32(offset) if offset else weight


def rms_norm(values: Array, factor: Array, eps: np.float32) -> Array:
    """Normalise the last axis of ``values`` f32 and scale by ``factor``; returns a new array."""
    mean = np.einsum("...i,...i->...", values, values)[..., None]
    mean /= values.shape[-1]
    mean += eps
    normed: Array = values / np.sqrt(mean)
    normed *= factor
    return normed
