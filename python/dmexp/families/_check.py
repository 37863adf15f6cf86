"""Compare the tensors of a file with the ones that its config calls for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ShapeMismatchError

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """One tensor on which config and file disagree."""

    name: str
    problem: Literal["missing", "unexpected", "shape"]
    expected: Dims | None
    found: Dims | None

    def __str__(self) -> str:
        if self.problem == "missing":
            return f"{self.name}: the config calls for {list(self.expected or ())}, the file has no such tensor"
        if self.problem == "unexpected":
            return f"{self.name}: the file has {list(self.found or ())}, the config calls for no such tensor"
        return f"{self.name}: the config calls for {list(self.expected or ())}, the file has {list(self.found or ())}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "problem": self.problem,
            "expected": None if self.expected is None else list(self.expected),
            "found": None if self.found is None else list(self.found),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a config describes a set of tensors. ``"not checked"`` never claims a check."""

    status: Literal["yes", "no", "not checked"]
    family: str | None
    reason: str
    conflicts: tuple[Conflict, ...] = ()

    def require(self, path: str | None = None) -> None:
        """Raise `ShapeMismatchError` listing every conflict when the status is ``"no"``."""
        if self.status == "no":
            lines = "; ".join(str(conflict) for conflict in self.conflicts)
            raise ShapeMismatchError(
                f"the config does not describe the weights ({self.family}): {lines}. "
                "The header's config was edited, or belongs to another model: "
                "export again from the original checkpoint.",
                path=path,
                family=self.family,
                conflicts=[conflict.as_dict() for conflict in self.conflicts],
            )


def compare(
    family: str,
    expected: Mapping[str, Dims],
    tensors: Iterable[tuple[str, Dims]],
    *,
    optional: frozenset[str] = frozenset(),
) -> Verdict:
    """Compare by name; order does not matter. ``optional`` names may be absent."""
    found = dict(tensors)
    conflicts = []
    for name, dims in expected.items():
        if name not in found:
            if name not in optional:
                conflicts.append(Conflict(name, "missing", dims, None))
        elif found[name] != dims:
            conflicts.append(Conflict(name, "shape", dims, found[name]))
    conflicts += [
        Conflict(name, "unexpected", None, dims)
        for name, dims in found.items()
        if name not in expected
    ]
    if conflicts:
        return Verdict("no", family, "the config does not describe the tensors", tuple(conflicts))
    return Verdict("yes", family, "the config describes the tensors")
