"""Read the tables that declare an architecture.

One line is one rule: external names, ``->``, canonical names, and after a colon the step that
leads back, where it is no plain rename::

    .attn_q.*       -> @.self_attn.q_proj.*                        : rotary/query
    .attn_v.*       -> @.self_attn.v_proj.*
    .attn_k_b.weight + .attn_v_b.weight -> @.self_attn.kv_b_proj.weight : merge-kv-b
    .ffn_up_exps.weight -> @.mlp.experts.{e}.up_proj.weight        : split-stack
    rope_freqs.weight -> -                                         : rope-divisors
    !.attn_qkv.*

- a leading dot stands for ``blk.{i}``, ``~`` before it for multi-token-prediction blocks only;
- ``@`` stands for the checkpoint's name of that layer;
- ``*`` stands for ``weight`` and for ``bias``, a rule each;
- ``{e}`` counts the experts (heads, streams) that one tensor is split into;
- ``=key`` as an external name stands for a metadata key;
- ``? condition`` at the end restricts the rule to blocks that meet it;
- ``-`` as a canonical name drops the tensor; ``!`` takes back an earlier line.

A later line for the same external name replaces the earlier one, so that an architecture is a
few shared tables and its own differences.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ._params import Params
from ._step import Step
from .steps import STEPS

__all__ = ["CONDITIONS", "Architecture", "Lost", "Rule", "declare", "layers"]

LayerName = Callable[[int, Params], str]


@dataclass(frozen=True, eq=False)
class Rule:
    """External names, canonical names, and the step between them; None is a plain rename."""

    external: tuple[str, ...]
    canonical: tuple[str, ...]
    step: Step | None
    mtp_only: bool = False
    when: str = ""

    @property
    def metadata_key(self) -> str:
        """The metadata key that the tensor comes from, or an empty string."""
        return self.external[0][1:] if self.external[0].startswith("=") else ""


class Lost(NamedTuple):
    """A tensor of the checkpoint that the exporter leaves out."""

    canonical: str
    reason: str


@dataclass(frozen=True, eq=False)
class Architecture:
    """One value of ``general.architecture``: its names, its steps, what it loses.

    Attributes
    ----------
    name : str
        The canonical spelling.
    converter : str
        The classes of the exporter that decide.
    rules : tuple of Rule
        At most one for each external name.
    layer : callable
        The checkpoint's name of a layer, from its block index and the metadata.
    lost : tuple of Lost
        What a checkpoint has and the file cannot give back, as patterns.
    note : str
        Which of several checkpoint spellings is used, where there are several.
    variants : tuple of Variant
        Other tables for the same string, each told by a name that the file has, with ``!`` before
        it, one that the file lacks, or with ``=``, a metadata key that is true.
    refused : Rule or None
        What to do with names that no rule covers; None refuses them as unknown.
    """

    name: str
    converter: str
    rules: tuple[Rule, ...]
    layer: LayerName
    lost: tuple[Lost, ...] = ()
    note: str = ""
    variants: tuple[Variant, ...] = ()
    refused: Rule | None = None

    def variant(self, names: Container[str], p: Params) -> Architecture:
        """The table for a file with these external names and this metadata."""
        for sign, other in self.variants:
            if sign.startswith("="):
                told = p.raw(sign[1:]) is True
            elif sign.startswith("!"):
                told = sign[1:] not in names
            else:
                told = sign in names
            if told:
                return other
        return self

    def find(self, pattern: str, p: Params, names: Container[str]) -> Rule | None:
        """The rule for one external name, with ``{i}`` in place of the block index."""
        main = p.main_blocks
        mtp = main is not None and p.block is not None and p.block >= main
        for rule in self._index.get(pattern, ()):
            if (mtp or not rule.mtp_only) and (
                not rule.when or CONDITIONS[rule.when].test(p, names)
            ):
                return rule
        return self.refused

    @cached_property
    def _index(self) -> dict[str, list[Rule]]:
        index: dict[str, list[Rule]] = {}
        # The narrower rule is asked first.
        for rule in sorted(self.rules, key=lambda rule: not (rule.mtp_only or rule.when)):
            for name in rule.external:
                index.setdefault(name, []).append(rule)
        return index


class Variant(NamedTuple):
    """Another table for the same architecture string, and how to tell. See `Architecture`."""

    present: str
    architecture: Architecture


class Condition(NamedTuple):
    """When a rule applies to a block."""

    test: Callable[[Params, Container[str]], bool]
    beside: str = ""
    """An external name whose presence (or, with ``absent``, absence) in the block decides."""
    absent: bool = False


def _present(name: str) -> Condition:
    return Condition(lambda p, names: name.replace("{i}", str(p.block)) in names, name)


def _absent(name: str) -> Condition:
    return Condition(lambda p, names: name.replace("{i}", str(p.block)) not in names, name, True)


CONDITIONS: dict[str, Condition] = {
    "no key heads": Condition(lambda p, names: p.integer("attention.head_count_kv", 1) == 0),
    "no sections": Condition(lambda p, names: not p.has("rope.dimension_sections")),
    "gated": _present("blk.{i}.attn_gate.weight"),
    "delta net": _present("blk.{i}.ssm_a"),
    "no delta net": _absent("blk.{i}.ssm_a"),
    "no mix gate": _absent("blk.{i}.time_mix_g1.weight"),
    "no encoder gate": _absent("enc.blk.{i}.ffn_gate.weight"),
    "no decoder gate": _absent("dec.blk.{i}.ffn_gate.weight"),
}


def layers(prefix: str, mtp: str | None = None) -> LayerName:
    """Name layers ``prefix.N``, and multi-token-prediction blocks ``mtp.0`` and on."""

    def name(block: int, p: Params) -> str:
        main = p.main_blocks
        if mtp is not None and main is not None and block >= main:
            return f"{mtp}.{block - main}"
        return f"{prefix}.{block}"

    return name


def declare(
    name: str,
    converter: str,
    *tables: str,
    layer: LayerName | str = "model.layers",
    lost: dict[str, str] | None = None,
    note: str = "",
    variants: dict[str, Architecture] | None = None,
    refused: str = "",
) -> Architecture:
    """Declare an architecture from tables; the later one wins."""
    rules: list[Rule] = []
    for table in tables:
        for line in table.splitlines():
            stripped = line.partition("#")[0].strip()
            if stripped.startswith("!"):
                gone = set(_spread(stripped[1:].strip()))
                rules = [rule for rule in rules if not gone & set(rule.external)]
            elif stripped:
                for rule in _rules(stripped):
                    rules = [old for old in rules if not _replaces(rule, old)]
                    rules.append(rule)
    return Architecture(
        name,
        converter,
        tuple(rules),
        layers(layer) if isinstance(layer, str) else layer,
        tuple(Lost(canonical, reason) for canonical, reason in (lost or {}).items()),
        note,
        tuple(Variant(present, other) for present, other in (variants or {}).items()),
        Rule(("*",), ("*",), STEPS[refused]) if refused else None,
    )


def _replaces(new: Rule, old: Rule) -> bool:
    same_scope = (new.mtp_only, new.when) == (old.mtp_only, old.when)
    return same_scope and bool(set(new.external) & set(old.external))


def _rules(line: str) -> list[Rule]:
    line, _, when = line.partition(" ? ")
    left, _, right = line.partition("->")
    canonical, _, step = right.rpartition(" : ") if " : " in right else (right, "", "")
    external = [name.strip() for name in left.split(" + ")]
    names = [] if canonical.strip() == "-" else [name.strip() for name in canonical.split(" + ")]
    mtp_only = external[0].startswith("~")
    found = STEPS[step.strip()] if step.strip() else None
    rules = []
    for suffix in ("weight", "bias") if "*" in left else ("",):
        rules.append(
            Rule(
                tuple(_external(name.lstrip("~").replace("*", suffix)) for name in external),
                tuple(name.replace("*", suffix) for name in names),
                found,
                mtp_only,
                when.strip(),
            )
        )
    return rules


def _external(name: str) -> str:
    return f"blk.{{i}}{name}" if name.startswith(".") else name


def _spread(name: str) -> list[str]:
    suffixes = ("weight", "bias") if "*" in name else ("",)
    return [_external(name.replace("*", suffix)) for suffix in suffixes]
