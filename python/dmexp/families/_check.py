"""Compare the tensors of a file with the ones that its config calls for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ShapeMismatchError

Dims = tuple[int, ...]

# A message lists this many conflicts; the error's ``conflicts`` has all of them.
MOST_SHOWN = 200


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
    """Whether a config describes a set of tensors. ``"not checked"`` never claims a check.

    A ``"no"`` has ``conflicts``, or none where the config itself could not be turned into a
    table; ``reason`` then names the key at fault.
    """

    status: Literal["yes", "no", "not checked"]
    family: str | None
    reason: str
    conflicts: tuple[Conflict, ...] = ()

    def __str__(self) -> str:
        """As `info` prints it: ``yes (llama)``, ``no (…)``, ``not checked (…)``."""
        return f"{self.status} ({self.family if self.status == 'yes' else self.reason})"

    def require(self, path: str | None = None) -> None:
        """Raise `ShapeMismatchError` listing every conflict when the status is ``"no"``."""
        if self.status != "no":
            return
        if self.conflicts:
            lines = [str(conflict) for conflict in self.conflicts[:MOST_SHOWN]]
            more = len(self.conflicts) - len(lines)
            found = "; ".join(lines) + (f"; and {more} more" if more else "")
        else:
            found = self.reason
        raise ShapeMismatchError(
            f"the config does not describe the weights ({self.family}): {found}. "
            "The config was edited, or belongs to another model: "
            "use the one that the weights were saved with.",
            path=path,
            family=self.family,
            conflicts=[conflict.as_dict() for conflict in self.conflicts],
        )


def compare(
    family: str,
    expected: Mapping[str, Dims],
    tensors: Mapping[str, Dims],
    *,
    optional: Set[str] = frozenset(),
    groups: Iterable[frozenset[str]] = (),
) -> Verdict:
    """Compare by name; order does not matter.

    Names in ``optional`` may be absent. The names of one of the ``groups``, which are optional
    too, are either all there or all absent.
    """
    needed = {
        name
        for group in groups
        if not group.isdisjoint(tensors.keys())
        for name in group
        if name not in tensors
    }
    conflicts = []
    for name, dims in expected.items():
        found = tensors.get(name)
        if found is None:
            if name not in optional or name in needed:
                conflicts.append(Conflict(name, "missing", dims, None))
        elif found != dims:
            conflicts.append(Conflict(name, "shape", dims, found))
    conflicts += [
        Conflict(name, "unexpected", None, dims)
        for name, dims in tensors.items()
        if name not in expected
    ]
    if conflicts:
        return Verdict("no", family, "the config does not describe the tensors", tuple(conflicts))
    return Verdict("yes", family, "the config describes the tensors")
