"""Synthetic files of every architecture, made with the exporter's own steps.

Rules share a block until two of them name the same tensor, so that alternatives never meet. Dims
are small, head counts unequal, value heads no square, values different everywhere: what holds for
such a file under identity, or in the wrong direction, holds by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._declare import CONDITIONS, Architecture, Rule
from ._domain import DECAY_LOG
from ._params import Params
from ._step import Chain
from .steps.dropped import Drop
from .steps.refused import Refused
from .steps.shapes import Reshape

__all__ = ["METADATA", "Probe", "probes"]

Array = NDArray[Any]
Dims = tuple[int, ...]

METADATA: dict[str, Any] = {
    "embedding_length": 36,
    "attention.head_count": 6,
    "attention.head_count_kv": 2,
    "attention.key_length": 6,
    "attention.value_length": 6,
    "attention.key_length_mla": 9,
    "attention.value_length_mla": 3,
    "rope.dimension_count": 4,
    "ssm.group_count": 2,
    "ssm.time_step_rank": 6,
    "ssm.state_size": 5,
    "ssm.inner_size": 42,
    "ssm.conv_kernel": 4,
    "ple.conv_kernel": 4,
    "shortconv.l_cache": 4,
    "expert_count": 3,
    "wkv.head_size": 6,
    "rescale_every_n_layers": 2,
    "logit_scale": 0.75,
}


@dataclass
class Probe:
    """A synthetic file and the checkpoint that it was made from.

    Attributes
    ----------
    architecture : Architecture
        The declaration, or the variant of it, that the names select.
    metadata : dict
        The keys of the header.
    stored, canonical : dict
        External and canonical name to array.
    rules : dict
        Canonical name to the rule that gives it.
    refused : dict
        External name to array, for rules that have no inverse; not part of ``stored``.
    """

    architecture: Architecture
    metadata: dict[str, Any]
    stored: dict[str, Array] = field(default_factory=dict)
    canonical: dict[str, Array] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    refused: dict[str, tuple[Rule, Array]] = field(default_factory=dict)

    @property
    def dims(self) -> dict[str, Dims]:
        """External name to dims: what a header says."""
        return {name: array.shape for name, array in self.stored.items()}


def probes(architecture: Architecture, *, sections: bool = True) -> Iterator[Probe]:
    """One probe of the declaration and one of each variant."""
    yield _probe(architecture, None, sections)
    for variant in architecture.variants:
        yield _probe(variant.architecture, variant.present, sections)


def _is_mtp(rule: Rule) -> bool:
    return rule.mtp_only or ".nextn." in rule.external[0]


def _probe(architecture: Architecture, present: str | None, sections: bool) -> Probe:
    main = [rule for rule in architecture.rules if not _is_mtp(rule)]
    mtp = [rule for rule in architecture.rules if _is_mtp(rule)]
    packed: list[list[Rule]] = [[], []]
    # Block 0 is left to names that are spelled out, and to the one that selects a variant.
    for rule in main:
        if present is not None and present.replace("blk.0.", "blk.{i}.") in rule.external:
            packed[0].append(rule)
            continue
        for members in packed[1:]:
            if _fits(rule, members, architecture):
                members.append(rule)
                break
        else:
            packed.append([rule])
    blocks = {id(rule): at for at, members in enumerate(packed) for rule in members}
    count = len(packed)
    # Two stacks of as many layers each, where an architecture has two.
    count += count % 2
    for rule in mtp:
        blocks[id(rule)] = count
    metadata = _metadata(architecture, count, bool(mtp), sections)
    if present is not None and present.startswith("="):
        metadata[f"{architecture.name}.{present[1:]}"] = True
    probe = Probe(architecture, metadata)
    for rule in main + mtp:
        _add(probe, rule, blocks[id(rule)])
    return probe


def _fits(rule: Rule, members: list[Rule], architecture: Architecture) -> bool:
    """Whether a rule can stand in a block beside the others."""
    if rule.when == "no key heads" or any(other.when == "no key heads" for other in members):
        return False
    names = {name for other in members for name in (*other.external, *other.canonical)}
    if names & {*rule.external, *rule.canonical}:
        return False
    block = {name for other in (*members, rule) for name in other.external}
    return all(_applies(one, block, architecture) for one in (*members, rule))


def _applies(rule: Rule, block: set[str], architecture: Architecture) -> bool:
    """Whether the rule, not a rival for the same name, is the one that these names select."""
    if rule.when:
        condition = CONDITIONS[rule.when]
        return not (condition.absent and condition.beside in block)
    for other in architecture.rules:
        if other.when and set(other.external) & set(rule.external):
            condition = CONDITIONS[other.when]
            if condition.beside and not condition.absent and condition.beside in block:
                return False
    return True


def _metadata(architecture: Architecture, count: int, mtp: bool, sections: bool) -> dict[str, Any]:
    keys = dict(METADATA)
    keys["block_count"] = count + mtp
    keys["hrm.layers_per_stack"] = count // 2
    if mtp:
        keys["nextn_predict_layers"] = 1
    if sections and any(
        rule.step is not None and "rope.dimension_sections" in rule.step.keys
        for rule in architecture.rules
    ):
        keys["rope.dimension_sections"] = [1, 1, 0, 0]
    metadata = {f"{architecture.name}.{key}": number for key, number in keys.items()}
    metadata["general.architecture"] = architecture.name
    for rule in architecture.rules:
        if rule.metadata_key.startswith("xielu."):
            metadata[rule.metadata_key] = [0.5 + block / 64 for block in range(count)]
    return metadata


def _add(probe: Probe, rule: Rule, block: int) -> None:
    architecture, step = probe.architecture, rule.step
    if (
        rule.when == "no sections"
        and f"{architecture.name}.rope.dimension_sections" in probe.metadata
    ):
        return
    if rule.when == "no key heads":
        heads = [2] * (block + 64)
        heads[block] = 0
        probe.metadata[f"{architecture.name}.attention.head_count_kv"] = heads
    p = Params(probe.metadata, architecture.name, architecture.name, block)
    externals = tuple(name.replace("{i}", str(block)) for name in rule.external)
    for pattern in _beside(architecture, rule):
        _add_companion(probe, pattern, block)
    if isinstance(step, Refused):
        for name in externals:
            probe.refused[name] = (rule, _values(probe, (7, 5)))
        return
    if isinstance(step, Drop):
        for name in externals:
            probe.stored[name] = np.array(step.example, np.float32)
        return
    if rule.metadata_key:
        _add_from_metadata(probe, rule, p)
        return
    wanted = step.probe(p) if step is not None else ((7, 5),)
    if not any("{e}" in name for name in rule.canonical) and len(wanted) != len(rule.canonical):
        wanted = (wanted[0],) * len(rule.canonical)
    if any("_exps" in name for name in rule.external):
        # Stacks of experts have an axis in front.
        stacked = "{e}" not in str(rule.canonical) and not isinstance(step, Chain | Reshape)
        wanted = tuple((3, *dims) if stacked and len(dims) == 2 else dims for dims in wanted)
    elif all(name.endswith(".bias") for name in rule.external) and not isinstance(step, Reshape):
        wanted = tuple(dims[:1] if len(dims) == 2 else dims for dims in wanted)
    names = _canonical_names(architecture, rule, p, len(wanted))
    decay = step is not None and step.canonical is DECAY_LOG
    arrays = [_decay(dims) if decay else _values(probe, dims) for dims in wanted]
    taken = step is not None and step.active(p)
    stored = step.forward(arrays, p) if step is not None and taken else tuple(arrays)
    for name, array in zip(names, arrays, strict=True):
        probe.canonical[name] = array
        probe.rules[name] = rule
    for name, array in zip(externals, stored, strict=True):
        probe.stored[name] = np.ascontiguousarray(array)


def _beside(architecture: Architecture, rule: Rule) -> set[str]:
    """What has to stand in the same block for the rule to apply."""
    if rule.when:
        condition = CONDITIONS[rule.when]
        return {condition.beside} if condition.beside and not condition.absent else set()
    rivals = [
        CONDITIONS[other.when]
        for other in architecture.rules
        if other.when and set(other.external) & set(rule.external)
    ]
    return {rival.beside for rival in rivals if rival.absent} - set(rule.external)


def _add_companion(probe: Probe, pattern: str, block: int) -> None:
    for rule in probe.architecture.rules:
        if pattern in rule.external and not rule.when:
            _add(probe, rule, block)


def _add_from_metadata(probe: Probe, rule: Rule, p: Params) -> None:
    assert rule.step is not None
    if not any(name.startswith("@") for name in rule.canonical):
        for name in rule.canonical:
            probe.canonical[name] = rule.step.inverse((), p.at(None, (), ""))
            probe.rules[name] = rule


def _canonical_names(architecture: Architecture, rule: Rule, p: Params, count: int) -> list[str]:
    assert p.block is not None
    patterns = [
        (architecture.layer(p.block, p) + name[1:] if name.startswith("@") else name).replace(
            "{i}", str(p.block)
        )
        for name in rule.canonical
    ]
    each = count // len(patterns) if any("{e}" in name for name in patterns) else 1
    return [name.replace("{e}", str(at)) for name in patterns for at in range(each)]


def _values(probe: Probe, dims: Dims) -> Array:
    # Multiples of 1/64 beginning at another number for each tensor: exact under a shift by 1,
    # and no two tensors alike.
    count = int(np.prod(dims))
    start = 64 * (len(probe.canonical) % 61) + len(probe.canonical)
    return ((np.arange(count, dtype=np.float32) + start) / 64).reshape(dims)


def _decay(dims: Dims) -> Array:
    count = int(np.prod(dims))
    return (np.arange(count, dtype=np.float32) / 4 - 0.5).reshape(dims)
