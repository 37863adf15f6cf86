"""Every contract, by convention, architecture and external name: the one source of decisions.

The importer asks the same records that the listing shows. An architecture that is not declared
is refused; it never falls back to the rules of another.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any

from ..errors import ContractError, InvalidArgumentError, UnknownArchitectureError
from ._declare import Architecture, Lost, Rule
from ._evidence import status
from ._record import Contract, Provenance
from .architectures import ARCHITECTURES
from .steps.dropped import Drop

__all__ = [
    "CONVENTIONS",
    "architectures",
    "contract_of",
    "declared",
    "get",
    "lost",
    "records",
    "spelling",
]

CONVENTIONS = ("llama.cpp", "fak")

EXPORTER = "llama.cpp convert_hf_to_gguf"
VERSIONS = "read at commit 0c1e57098 (October 2026); compared with c392e509 (February 2025)"

# Spellings that files and people use beside the one the exporter writes.
_SPELLINGS = {
    "gptoss": "gpt-oss",
    "gpt_oss": "gpt-oss",
    "qwen3_moe": "qwen3moe",
    "qwen2_moe": "qwen2moe",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3.5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "glm_moe_dsa": "glm-dsa",
    "glm4_moe": "glm4moe",
    "deepseek-v2": "deepseek2",
    "deepseek-v3": "deepseek2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "deepseek3": "deepseek2",
    "nemotron-h": "nemotron_h",
    "command_r": "command-r",
    "cohere": "command-r",
    "gpt_neox": "gptneox",
    "gpt-neox": "gptneox",
}


def spelling(architecture: str) -> str:
    """The canonical spelling of an architecture. The only place that knows others.

    Raises
    ------
    UnknownArchitectureError
        No contracts are declared under that name; close spellings are listed.
    """
    if not isinstance(architecture, str):
        raise InvalidArgumentError(
            f"an architecture is a string, not {architecture!r}", argument="architecture"
        )
    found = _SPELLINGS.get(architecture, architecture)
    if found in ARCHITECTURES:
        return found
    close = difflib.get_close_matches(found.lower(), ARCHITECTURES, n=3, cutoff=0.6)
    hint = f" Close spellings: {', '.join(repr(name) for name in close)}." if close else ""
    raise UnknownArchitectureError(
        f"no contracts are declared for architecture {architecture!r}, so what its numbers mean "
        f"is not known; it is refused, not read by the rules of another.{hint} "
        "'dmexp contracts list' shows every declared one.",
        architecture=architecture,
        close=close,
    )


def declared(architecture: str) -> Architecture:
    """The declaration under any known spelling."""
    return ARCHITECTURES[spelling(architecture)]


def architectures() -> tuple[str, ...]:
    """The canonical spelling of every declared architecture, sorted."""
    return tuple(ARCHITECTURES)


def lost(architecture: str) -> tuple[Lost, ...]:
    """What a checkpoint has that the exporter leaves out, as patterns with ``*``."""
    return declared(architecture).lost


def contract_of(declaration: Architecture, rule: Rule) -> Contract | None:
    """The contract of a rule, or None for a plain rename."""
    step = rule.step
    if step is None:
        return None
    invertible = step.invertible and not isinstance(step, Drop)
    return Contract(
        convention="llama.cpp",
        architecture=declaration.name,
        external=rule.external,
        canonical=rule.canonical,
        transform=step.id,
        parameters=tuple(f"{declaration.name}.{key}" for key in step.keys),
        source_domain=step.source,
        canonical_domain=step.canonical,
        provenance=Provenance(
            EXPORTER, VERSIONS, f"{declaration.converter}: {step.exporter}", step.consumer
        ),
        lossless=step.lossless,
        invertible=invertible,
        rejects_canonical_domain=step.rejects_canonical,
        tolerance=step.tolerance,
        witnesses=step.witnesses,
        step=step,
        status=status(declaration.name, rule),
    )


def _all_rules(declaration: Architecture) -> Iterator[Rule]:
    for one in (declaration, *(variant.architecture for variant in declaration.variants)):
        yield from one.rules
        if one.refused is not None:
            yield one.refused


@cache
def _contracts(architecture: str) -> tuple[Contract, ...]:
    declaration = ARCHITECTURES[architecture]
    found: dict[tuple[Any, ...], Contract] = {}
    for rule in _all_rules(declaration):
        contract = contract_of(declaration, rule)
        if contract is not None:
            found.setdefault((contract.external, contract.canonical, contract.transform), contract)
    return tuple(found.values())


def records(convention: str = "llama.cpp", architecture: str | None = None) -> tuple[Contract, ...]:
    """Every contract of a convention, or of one architecture under it.

    Raises
    ------
    InvalidArgumentError
        The convention is not known.
    UnknownArchitectureError
        The architecture is not declared under it.
    """
    if convention == "fak":
        from ._fak import CONTRACTS, fak_contracts

        return CONTRACTS if architecture is None else fak_contracts(architecture)
    if convention != "llama.cpp":
        raise InvalidArgumentError(
            f"unknown convention {convention!r}. Known: 'llama.cpp', 'fak'.",
            argument="convention",
            known=list(CONVENTIONS),
        )
    if architecture is not None:
        return _contracts(spelling(architecture))
    return tuple(contract for name in ARCHITECTURES for contract in _contracts(name))


def get(architecture: str, external: str, *, convention: str = "llama.cpp") -> Contract | None:
    """The contract for one external name, or None where the name is a plain rename.

    Where a name means something else in particular blocks, this is the general contract; `list`
    has all of them, and `plan` takes the one that a file's metadata and names select.

    Parameters
    ----------
    architecture
        Under any known spelling.
    external
        A name as in a file (``"blk.0.ssm_a"``), the same with ``{i}``, or without its block.

    Raises
    ------
    UnknownArchitectureError
        The architecture is not declared.
    ContractError
        It is, and has no such name.
    """
    from ._names import pattern_of

    wanted = pattern_of(external)[0]
    patterns = {wanted, f"blk.{{i}}.{wanted}"}
    if convention == "fak":
        found = [c for c in records("fak", architecture) if patterns & set(c.external)]
        return found[0] if found else None
    records(convention)
    declaration = declared(architecture)
    matches = [rule for rule in _all_rules(declaration) if patterns & set(rule.external)]
    if not matches and declaration.refused is None:
        raise ContractError(
            f"architecture {declaration.name!r} declares no tensor {external!r}.",
            tensor=external,
            architecture=declaration.name,
            transform=None,
        )
    # A rule for particular blocks only (fused attention, say) stands behind the general one.
    matches.sort(key=lambda rule: bool(rule.when) or rule.mtp_only)
    with_step = [rule for rule in matches if rule.step is not None] or matches
    return contract_of(declaration, with_step[0] if with_step else declaration.refused)  # type: ignore[arg-type]
