"""From the tensors of a file to the canonical ones: the one place that applies contracts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ContractError, InvalidArgumentError
from ._declare import Architecture, Rule
from ._evidence import Status, status
from ._names import pattern_of
from ._params import Params
from ._registry import CONVENTIONS, declared
from ._step import Step
from .steps.dropped import Drop
from .steps.refused import Refused

__all__ = ["Dropped", "Output", "Plan", "ids", "plan"]

Array = NDArray[Any]
Dims = tuple[int, ...]


class Dropped(NamedTuple):
    """A tensor of the file that has no place in a checkpoint."""

    external: str
    reason: str


@dataclass(frozen=True)
class Output:
    """One canonical tensor: its name and dims, what it is made from, and how.

    Attributes
    ----------
    name : str
        The name in the checkpoint.
    dims : tuple of int
        In checkpoint order, slowest axis first.
    inputs : tuple of str
        External names, in the order of the contract. Empty where the tensor comes from metadata.
    transform : str
        The id of the steps that are undone; empty for a plain rename.
    status : str
        ``"verified"`` or ``"read"``.
    """

    name: str
    dims: Dims
    inputs: tuple[str, ...]
    transform: str
    status: Status
    _stored: tuple[Dims, ...] = field(repr=False, compare=False)
    _step: Step | None = field(repr=False, compare=False)
    _params: Params = field(repr=False, compare=False)
    _part: int = field(repr=False, compare=False)

    @property
    def computes(self) -> bool:
        """Whether values change on the way, so that the result is f32 whatever is stored."""
        step = self._step
        return step is not None and step.kind == "value" and step.active(self._params)

    def build(self, arrays: Mapping[str, Array]) -> Array:
        """Check the domains of the inputs and undo the exporter's step.

        Parameters
        ----------
        arrays
            At least the inputs, in f32, f16 or bf16, of the dims that the header states; flat
            arrays of the same number of elements will do. f16 and bf16 stay as they are where
            nothing is computed.

        Returns
        -------
        ndarray
            Of the dims of this output, C-contiguous. A plain rename is returned without a copy.

        Raises
        ------
        DomainError
            A value is outside the domain of the contract.
        ContractError
            An array has another number of elements than the header says.
        """
        stored = [
            self._shaped(name, arrays[name], dims)
            for name, dims in zip(self.inputs, self._stored, strict=True)
        ]
        if self._step is None:
            return stored[0]
        self._step.check(stored, self.inputs, self._params)
        if not self._step.active(self._params):
            return stored[0].reshape(self.dims)
        built = self._step.inverse(stored, self._params, self._part).reshape(self.dims)
        return built if built.flags.c_contiguous else np.ascontiguousarray(built)

    def _shaped(self, name: str, array: Array, dims: Dims) -> Array:
        if array.size != prod(dims):
            raise self._params.fail(
                f"{name!r} came with {array.size} elements, its header says {list(dims)}"
            )
        return array.reshape(dims)


@dataclass(frozen=True)
class Plan:
    """Every canonical tensor of a file, and what was left out.

    Attributes
    ----------
    architecture : str
        The canonical spelling.
    convention : str
    outputs : tuple of Output
        In the order of the file.
    dropped : tuple of Dropped
        Generated tensors, with the reason.
    transforms : dict
        Each id that is undone and the number of stored tensors that it applies to, sorted by id;
        what goes into the header of an export.
    note : str
        Which of several checkpoint spellings is used.
    """

    architecture: str
    convention: str
    outputs: tuple[Output, ...]
    dropped: tuple[Dropped, ...]
    transforms: dict[str, int]
    note: str = ""
    _checks: Mapping[str, tuple[Dims, Drop, Params]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def check_dropped(self, external: str, array: Array) -> None:
        """Check that a generated tensor holds what its exporter generates.

        Raises
        ------
        DomainError
            It holds something else, so it is not what its name says.
        """
        dims, step, p = self._checks[external]
        step.check((array.reshape(dims),), (external,), p)

    @property
    def status(self) -> Status:
        """``"verified"`` where every step of this file is proven for its architecture."""
        proven = all(output.status == "verified" for output in self.outputs)
        return "verified" if proven else "read"


class _Group(NamedTuple):
    rule: Rule
    params: Params
    names: tuple[str, ...]
    dims: tuple[Dims, ...]


def plan(
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Dims],
    *,
    convention: str = "llama.cpp",
) -> Plan:
    """Name the canonical tensors of a file and how each is built. Reads no tensor data.

    Parameters
    ----------
    architecture
        ``general.architecture``, as spelled in the header.
    metadata
        Every key of the header; keys of the architecture begin with that spelling.
    tensors
        External names and dims, in checkpoint order (slowest axis first).
    convention
        Only ``"llama.cpp"`` imports; ``"fak"`` is a table to list and to compare.

    Returns
    -------
    Plan

    Raises
    ------
    UnknownArchitectureError
        No contracts are declared; close spellings are listed.
    NotInvertibleError
        The exporter took a step that cannot be undone, with the reason.
    ContractError
        A name that is not declared, a part that is missing, dims or metadata that do not fit.
    """
    _check_convention(convention)
    declaration, p = _selected(architecture, metadata, tensors)
    outputs: list[Output] = []
    dropped: list[Dropped] = []
    checks: dict[str, tuple[Dims, Drop, Params]] = {}
    counts: Counter[str] = Counter()
    for group in _groups(declaration, p, tensors):
        step = group.rule.step
        if isinstance(step, Refused):
            raise step.error(group.params)
        if isinstance(step, Drop):
            dropped.append(Dropped(group.names[0], step.reason))
            checks[group.names[0]] = (group.dims[0], step, group.params)
            continue
        made = _outputs(declaration, group)
        outputs += made
        if made and made[0].transform:
            counts[made[0].transform] += max(len(group.names), 1)
    _no_duplicates(outputs, declaration)
    return Plan(
        declaration.name,
        convention,
        tuple(outputs),
        tuple(dropped),
        dict(sorted(counts.items())),
        declaration.note,
        checks,
    )


def ids(
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Dims],
    *,
    convention: str = "llama.cpp",
) -> dict[str, str]:
    """The transform id of every external name; empty for a plain rename.

    Answers for files that cannot be imported as well: a step that has no inverse has an id.
    """
    _check_convention(convention)
    declaration, p = _selected(architecture, metadata, tensors)
    found = {}
    for group in _groups(declaration, p, tensors):
        for name in group.names:
            found[name] = _id(group)
    return {name: found[name] for name in tensors}


def _selected(
    architecture: str, metadata: Mapping[str, Any], tensors: Mapping[str, Dims]
) -> tuple[Architecture, Params]:
    """The table that the names and the metadata of a file select, and the metadata."""
    declaration = declared(architecture)
    p = Params(metadata, _prefix(architecture, declaration, metadata), declaration.name)
    return declaration.variant(tensors, p), p


def _check_convention(convention: str) -> None:
    if convention == "llama.cpp":
        return
    known = convention in CONVENTIONS
    raise InvalidArgumentError(
        f"convention {convention!r} is a table to list and to compare; two of its entries are "
        "contradicted by the exporter's own files, so nothing is imported by it."
        if known
        else f"unknown convention {convention!r}. Known: 'llama.cpp', 'fak'.",
        argument="convention",
        known=list(CONVENTIONS),
    )


def _prefix(architecture: str, declaration: Architecture, metadata: Mapping[str, Any]) -> str:
    """What the keys begin with: the spelling of the header, or the canonical one."""
    for spelled in (architecture, metadata.get("general.architecture"), declaration.name):
        if isinstance(spelled, str) and any(key.startswith(f"{spelled}.") for key in metadata):
            return spelled
    return architecture


def _groups(declaration: Architecture, p: Params, tensors: Mapping[str, Dims]) -> list[_Group]:
    """Tensors by the rule and the block that they belong to, in file order."""
    members: dict[tuple[int, int | None], dict[str, str]] = {}
    rules: dict[int, Rule] = {}
    unknown: list[str] = []
    for name in tensors:
        pattern, block = pattern_of(name)
        at = p.at(block, (name,), "")
        rule = declaration.find(name, at, tensors) if block is not None else None
        key = name if rule is not None and rule is not declaration.refused else pattern
        if rule is None or rule is declaration.refused:
            rule = declaration.find(pattern, at, tensors)
        if rule is None:
            unknown.append(name)
            continue
        rules[id(rule)] = rule
        if rule is declaration.refused:
            members[id(rule), len(members)] = {key: name}
        else:
            members.setdefault((id(rule), block), {})[key] = name
    if unknown:
        raise _unknown_names(unknown, declaration)
    groups = []
    for (key_of_rule, block), found in members.items():
        rule = rules[key_of_rule]
        names = tuple(found.values())
        if rule is not declaration.refused:
            names = _complete(rule, found, block, declaration)
        at = p.at(block, names, rule.step.id if rule.step is not None else "")
        dims = tuple(tuple(tensors[name]) for name in names)
        if rule.step is not None and any(not one or 0 in one for one in dims):
            raise at.fail(f"dims {[list(one) for one in dims]} hold no value")
        groups.append(_Group(rule, at, names, dims))
    return groups + _from_metadata(declaration, p, tensors)


def _from_metadata(
    declaration: Architecture, p: Params, tensors: Mapping[str, Dims]
) -> list[_Group]:
    groups = []
    blocks = sorted({block for name in tensors if (block := pattern_of(name)[1]) is not None})
    for rule in declaration.rules:
        if not rule.metadata_key or rule.step is None or not p.found(rule.metadata_key):
            continue
        per_block = any(name.startswith("@") for name in rule.canonical)
        for block in blocks if per_block else (None,):
            groups.append(_Group(rule, p.at(block, (), rule.step.id), (), ()))
    return groups


def _complete(
    rule: Rule, found: Mapping[str, str], block: int | None, declaration: Architecture
) -> tuple[str, ...]:
    missing = [
        pattern.replace("{i}", str(block)) for pattern in rule.external if pattern not in found
    ]
    if missing:
        have = ", ".join(repr(name) for name in found.values())
        raise ContractError(
            f"{have} ({declaration.name}): {', '.join(repr(name) for name in missing)} missing, "
            f"without which {', '.join(rule.canonical)!r} cannot be rebuilt.",
            tensor=next(iter(found.values())),
            transform=rule.step.id if rule.step is not None else None,
            architecture=declaration.name,
            missing=missing,
        )
    return tuple(found[pattern] for pattern in rule.external)


def _unknown_names(unknown: list[str], declaration: Architecture) -> ContractError:
    shown = ", ".join(repr(name) for name in unknown[:5])
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    why = ""
    if any(name.endswith((".scale", ".input_scale")) for name in unknown):
        why = " Scales beside weights come from NVFP4 checkpoints, which are not read."
    return ContractError(
        f"architecture {declaration.name!r} declares no tensor {shown}{more}. A name without a "
        f"contract is refused, because its meaning is not known.{why}",
        tensor=unknown[0],
        transform=None,
        architecture=declaration.name,
        names=unknown,
    )


def _id(group: _Group) -> str:
    step = group.rule.step
    if step is None or step.kind == "guard":
        return ""
    if step.kind == "shape" and step.dims(group.dims, group.params) == group.dims:
        return ""
    return step.id_at(group.params)


def _outputs(declaration: Architecture, group: _Group) -> list[Output]:
    step, p = group.rule.step, group.params
    dims = step.dims(group.dims, p) if step is not None and step.active(p) else group.dims
    names = _names(declaration, group, len(dims))
    transform = _id(group)
    return [
        Output(
            name,
            dims[part],
            group.names,
            transform,
            status(declaration.name, group.rule),
            group.dims,
            step,
            p,
            part,
        )
        for part, name in enumerate(names)
    ]


def _names(declaration: Architecture, group: _Group, count: int) -> list[str]:
    p = group.params
    patterns = []
    for pattern in group.rule.canonical:
        if pattern.startswith("@"):
            pattern = declaration.layer(p.block or 0, p) + pattern[1:]
        patterns.append(pattern.replace("{i}", str(p.block)))
    spread = any("{e}" in pattern for pattern in patterns)
    each = count // len(patterns) if spread else 1
    if each * len(patterns) != count:
        raise p.fail(f"{count} tensors come out, the contract names {len(patterns)}")
    return [pattern.replace("{e}", str(at)) for pattern in patterns for at in range(each)]


def _no_duplicates(outputs: list[Output], declaration: Architecture) -> None:
    seen: dict[str, tuple[str, ...]] = {}
    for output in outputs:
        if output.name in seen:
            raise ContractError(
                f"{list(output.inputs)} and {list(seen[output.name])} ({declaration.name}) both "
                f"give {output.name!r}: the file holds one tensor twice.",
                tensor=output.inputs[0] if output.inputs else None,
                transform=output.transform,
                architecture=declaration.name,
                canonical=output.name,
            )
        seen[output.name] = output.inputs
