"""The gated feed-forward block: down(act(gate(x)) × up(x))."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .linear import Linear

Array = np.ndarray[Any, np.dtype[np.float32]]

_GELU = np.float32(math.sqrt(2 / math.pi))
_CUBIC = np.float32(0.044715)


def silu(x: Array) -> Array:
    """x × sigmoid(x). An exp that overflows gives the right limit, -0."""
    scale = np.negative(x)
    np.exp(scale, out=scale)
    scale += 1
    return np.divide(x, scale, out=scale)


def gelu_tanh(x: Array) -> Array:
    """The tanh form of GELU."""
    inner = x * x
    inner *= _CUBIC
    inner += 1
    inner *= x
    inner *= _GELU
    np.tanh(inner, out=inner)
    inner += 1
    inner *= x
    inner *= np.float32(0.5)
    return inner


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "silu": silu,
    "swish": silu,
    "gelu_pytorch_tanh": gelu_tanh,
    "gelu_new": gelu_tanh,
}
"""By the name that ``hidden_act`` uses."""


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """SwiGLU with `silu`, GeGLU with `gelu_tanh`."""

    gate: Linear
    up: Linear
    down: Linear
    activation: Callable[[Array], Array]

    def __call__(self, x: Array) -> Array:
        hidden = self.activation(self.gate(x))
        hidden *= self.up(x)
        return self.down(hidden)
