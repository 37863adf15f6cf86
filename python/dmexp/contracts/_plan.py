"""From the tensors of a file to the canonical ones: the one place that applies contracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Dims = tuple[int, ...]


class Dropped(NamedTuple):
    """A tensor of the file that has no place in a checkpoint."""

    external: str
    reason: str


@dataclass(frozen=True)
class Output:
    """One canonical tensor: its name and dims, what it is made from, and how."""

    name: str
    dims: Dims
    inputs: tuple[str, ...]
    transform: str
    status: Literal["verified", "read"]

    def build(self, arrays: Mapping[str, Array]) -> Array:
        """Check the domains of the inputs and undo the exporter's step."""
        return np.reshape(arrays[self.inputs[0]], self.dims)


@dataclass(frozen=True)
class Plan:
    """Every canonical tensor of a file, and what was left out."""

    architecture: str
    convention: str
    outputs: tuple[Output, ...]
    dropped: tuple[Dropped, ...]
    transforms: dict[str, int]

    def check_dropped(self, external: str, array: Array) -> None:
        """Check that a generated tensor is what its exporter generates."""


def plan(
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Dims],
    *,
    convention: str = "llama.cpp",
) -> Plan:
    """Name the canonical tensors of a file and how each is built. Reads no tensor data."""
    outputs = tuple(
        Output(name, tuple(dims), (name,), "", "read") for name, dims in tensors.items()
    )
    return Plan(architecture, convention, outputs, (), {})
