"""A step: what an exporter did to one tensor or a few, in both directions, with its proof.

Steps know nothing of names. They are pure functions of arrays and `Params`, so the same object
serves the importer (`inverse`), round trips (`forward`), the lint and the mutation tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._domain import ANY, Domain
from ._params import Params

__all__ = ["WIDTH", "Chain", "Step", "Unary", "Witness", "layout", "value"]

Array = NDArray[Any]
Dims = tuple[int, ...]
WIDTH = 36
"""Columns of synthetic tensors: as many as six heads of six rows have."""

Kind = Literal["layout", "value", "shape", "structure", "guard"]


@dataclass(frozen=True)
class Witness:
    """One worked example: what is stored, and exactly what must come out.

    Attributes
    ----------
    kind : str
        ``"value"``: a constant goes in, another constant comes out. ``"layout"``: an index
        sequence goes in, the exact sequence comes out. ``"refusal"``: the check must refuse.
    metadata : Mapping
        Keys without the architecture, as the step reads them.
    stored, canonical : tuple of (dims, values)
        Row-major. Inputs and outputs in the order of the contract.
    wrong : tuple of Mapping
        Other metadata, each of which must not give the same result.
    block : int
        The block that the tensors belong to.
    """

    kind: Literal["value", "layout", "refusal"]
    metadata: Mapping[str, Any]
    stored: tuple[tuple[Dims, tuple[float, ...]], ...]
    canonical: tuple[tuple[Dims, tuple[float, ...]], ...]
    wrong: tuple[Mapping[str, Any], ...] = ()
    block: int = 0
    tolerance: float = 0.0

    def params(self, override: Mapping[str, Any] | None = None) -> Params:
        """The metadata of the example as a step sees it."""
        keys = {**self.metadata, **(override or {})}
        metadata = {f"witness.{key}": value for key, value in keys.items()}
        return Params(metadata, "witness", "witness", self.block)

    def inputs(self) -> tuple[Array, ...]:
        """What is stored, as f32 arrays."""
        return tuple(np.array(values, np.float32).reshape(dims) for dims, values in self.stored)

    def refutes(self, outputs: Sequence[Array]) -> str:
        """Say how ``outputs`` differ from what must come out; empty where they do not."""
        if len(outputs) != len(self.canonical):
            return f"{len(outputs)} tensors instead of {len(self.canonical)}"
        for at, (output, (dims, values)) in enumerate(zip(outputs, self.canonical, strict=True)):
            if output.shape != dims:
                return f"output {at} has dims {list(output.shape)} instead of {list(dims)}"
            wanted = np.array(values, np.float32).reshape(dims)
            far = np.abs(output.astype(np.float64) - wanted) > self.tolerance
            if far.any():
                index = tuple(int(i) for i in np.argwhere(far)[0])
                return (
                    f"output {at} holds {output[index]} at {list(index)} instead of {wanted[index]}"
                )
        return ""


def layout(
    stored: Dims | Sequence[Dims],
    canonical: Sequence[tuple[Dims, Sequence[int]]] | tuple[Dims, Sequence[int]],
    *,
    wrong: tuple[Mapping[str, Any], ...] = (),
    block: int = 0,
    **metadata: Any,
) -> Witness:
    """A layout witness: the stored tensors hold 0, 1, 2, … through all of them in turn.

    Keywords are metadata keys with ``__`` for the dot.
    """
    many: Sequence[Any] = stored if stored and not isinstance(stored[0], int) else (stored,)
    outs: Any = canonical if canonical and not isinstance(canonical[0][0], int) else (canonical,)
    start, inputs = 0, []
    for dims in many:
        count = int(np.prod(dims))
        inputs.append((tuple(dims), tuple(float(i) for i in range(start, start + count))))
        start += count
    return Witness(
        "layout",
        {key.replace("__", "."): number for key, number in metadata.items()},
        tuple(inputs),
        tuple((tuple(dims), tuple(float(i) for i in order)) for dims, order in outs),
        wrong,
        block,
    )


def value(
    stored: float,
    canonical: float,
    *,
    tolerance: float = 0.0,
    block: int = 0,
    wrong: tuple[Mapping[str, Any], ...] = (),
    **metadata: Any,
) -> Witness:
    """A value witness: a constant in, another constant out."""
    count = 6
    return Witness(
        "value",
        {key.replace("__", "."): number for key, number in metadata.items()},
        (((count,), (stored,) * count),),
        (((count,), (canonical,) * count),),
        wrong,
        block,
        tolerance,
    )


class Step(ABC):
    """What an exporter did, and how to undo it.

    ``stored`` is what the file holds, ``canonical`` what the checkpoint held. Arrays and dims
    are in checkpoint order, slowest axis first.
    """

    id: str
    kind: Kind
    lossless: bool = True
    invertible: bool = True
    moves: bool = True
    """Whether any value changes or changes place; False for the same bytes under other dims."""
    self_inverse: bool = False
    """Whether taking the step twice gives back the tensor, whatever its dims."""
    tolerance: float = 0.0
    """How far a round trip through f32 may end from where it began."""
    keys: tuple[str, ...] = ()
    """Metadata keys that the step reads, without the architecture."""
    source: Domain = ANY
    canonical: Domain = ANY
    rejects_canonical: bool = False
    """Whether the source domain refuses values that look like canonical ones."""
    exporter: str
    """What the exporter does, in words."""
    consumer: str
    """What the program that reads the file computes with it."""
    witnesses: tuple[Witness, ...] = ()

    def active(self, p: Params) -> bool:
        """Whether the exporter took the step, given this metadata."""
        return True

    def id_at(self, p: Params) -> str:
        """The id under this metadata; empty where the exporter left the tensor alone."""
        return self.id if self.active(p) else ""

    @abstractmethod
    def probe(self, p: Params) -> tuple[Dims, ...]:
        """Canonical dims that suit this metadata, for synthetic files."""

    @abstractmethod
    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        """The dims of each canonical tensor. Raises `ContractError` where they do not fit."""

    @abstractmethod
    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        """Canonical tensor number ``part``."""

    @abstractmethod
    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        """What the exporter stores."""

    def check(self, stored: Sequence[Array], names: Sequence[str], p: Params) -> None:
        """Check the source domain of each stored tensor."""
        transform = self.id_at(p) or self.id
        for array, name in zip(stored, names, strict=True):
            self.source.check(array, tensor=name, transform=transform, architecture=p.architecture)

    def undo(self, stored: Sequence[Array], p: Params) -> tuple[Array, ...]:
        """Every canonical tensor at once."""
        count = len(self.dims([array.shape for array in stored], p))
        return tuple(self.inverse(stored, p, part) for part in range(count))


class Unary(Step):
    """One tensor to one tensor."""

    @abstractmethod
    def out(self, dims: Dims, p: Params) -> Dims:
        """The canonical dims."""

    @abstractmethod
    def undo_one(self, array: Array, p: Params) -> Array:
        """The canonical tensor."""

    @abstractmethod
    def redo_one(self, array: Array, p: Params) -> Array:
        """The stored tensor."""

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        (dims,) = stored
        return (self.out(dims, p),)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((self.rows(p), WIDTH),)

    def rows(self, p: Params) -> int:
        """Rows of a canonical tensor that suit this metadata."""
        return 7

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        (array,) = stored
        return self.undo_one(array, p)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (array,) = canonical
        return (self.redo_one(array, p),)


class Chain(Unary):
    """Several one-tensor steps in the order in which they are undone.

    Its id joins those of its parts with ``+``. A step that only changes dims is named where it
    stands alone, and not beside a step that moves or changes values.
    """

    def __init__(
        self,
        *parts: Unary,
        probe: Callable[[Params], Dims],
        witnesses: tuple[Witness, ...],
        self_inverse: bool = False,
    ) -> None:
        self.self_inverse = self_inverse
        self.parts = parts
        self._probe = probe
        self.witnesses = witnesses
        named = [part for part in parts if part.kind != "shape"] or list(parts)
        self.id = "+".join(part.id for part in named)
        self.kind = "value" if any(part.kind == "value" for part in parts) else named[0].kind
        self.keys = tuple(dict.fromkeys(key for part in parts for key in part.keys))
        self.lossless = all(part.lossless for part in parts)
        self.tolerance = max(part.tolerance for part in parts)
        checked = [part for part in parts if part.source is not ANY]
        self.source = checked[0].source if checked else ANY
        self.canonical = checked[-1].canonical if checked else ANY
        self.rejects_canonical = any(part.rejects_canonical for part in parts)
        self.exporter = "; then ".join(part.exporter for part in reversed(parts))
        self.consumer = " ".join(part.consumer for part in named)

    def id_at(self, p: Params) -> str:
        named = [part for part in self.parts if part.kind != "shape" and part.active(p)]
        return "+".join(part.id for part in named) or "+".join(
            part.id for part in self.parts if part.kind == "shape"
        )

    def active(self, p: Params) -> bool:
        return any(part.active(p) for part in self.parts)

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return (self._probe(p),)

    def out(self, dims: Dims, p: Params) -> Dims:
        for part in self.parts:
            dims = part.out(dims, p)
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        for part in self.parts:
            array = part.undo_one(array, p) if part.active(p) else array
        return array

    def redo_one(self, array: Array, p: Params) -> Array:
        for part in reversed(self.parts):
            array = part.redo_one(array, p) if part.active(p) else array
        return array
