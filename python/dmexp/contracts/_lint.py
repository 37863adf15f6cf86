"""Check the contracts against themselves, in both directions, for every architecture.

The probes are synthetic files, read through `plan`, the function that importers call: a step
that the live path takes without a contract shows here, and so does a contract that changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ..errors import ContractError, NotInvertibleError
from ._declare import Architecture, Rule
from ._mutation import mutants_of, witness_failure
from ._plan import Output, plan
from ._probe import Probe, probes
from ._record import Contract
from ._registry import CONVENTIONS, contract_of, records, spelling
from .architectures import ARCHITECTURES
from .steps.dropped import Drop
from .steps.refused import Guard, Refused

__all__ = ["Finding", "lint"]


class Finding(NamedTuple):
    """One thing that is wrong with the contracts.

    Attributes
    ----------
    rule : str
        Which rule is broken.
    architecture, external : str
        Where; ``external`` may be empty.
    message : str
        What was found.
    """

    rule: str
    architecture: str
    external: str
    message: str

    def __str__(self) -> str:
        return f"{self.architecture}: {self.external or '-'}: {self.rule}: {self.message}"


def lint(architectures: Iterable[str] | None = None) -> list[Finding]:
    """Find steps without contracts, contracts without steps, and witnesses without teeth.

    Parameters
    ----------
    architectures
        Which to check, under any known spelling; all of them by default, and every convention.

    Returns
    -------
    list of Finding
        Empty when all is well.
    """
    names = list(ARCHITECTURES) if architectures is None else [spelling(a) for a in architectures]
    findings: list[Finding] = []
    checked: set[int] = set()
    for name in names:
        findings += _declaration(ARCHITECTURES[name])
        for contract in records("llama.cpp", name):
            findings += _contract(contract, checked)
    if architectures is None:
        for convention in CONVENTIONS[1:]:
            for contract in records(convention):
                findings += _contract(contract, checked)
    return findings


def _contract(contract: Contract, checked: set[int]) -> Iterator[Finding]:
    where = (contract.architecture, " + ".join(contract.external))
    if not contract.transform or contract.transform == "identity":
        yield Finding("missing-id", *where, "a contract needs an id that names its step")
    for field, text in contract.provenance._asdict().items():
        if not text.strip():
            yield Finding("missing-provenance", *where, f"provenance says no {field}")
    for side, domain in (
        ("source", contract.source_domain),
        ("canonical", contract.canonical_domain),
    ):
        if not domain.prose.strip():
            yield Finding("missing-domain", *where, f"no {side} domain")
    if not contract.witnesses:
        yield Finding("no-witness", *where, "nothing shows what the step does")
    # Contracts share steps, and a step need be broken only once.
    if id(contract.step) in checked:
        return
    checked.add(id(contract.step))
    for at, witness in enumerate(contract.witnesses):
        failure = witness_failure(contract.step, witness)
        if failure:
            yield Finding("witness-fails", *where, f"{witness.kind} witness {at + 1}: {failure}")
    for mutant, killed_by in mutants_of(contract):
        if not killed_by:
            yield Finding("idle-witness", *where, f"no witness refutes {mutant!r}")


def _declaration(architecture: Architecture) -> Iterator[Finding]:
    for probe in probes(architecture):
        yield from _probe(probe)


def _probe(probe: Probe) -> Iterator[Finding]:
    name = probe.architecture.name
    try:
        made = plan(name, probe.metadata, probe.dims)
    except ContractError as error:
        yield Finding("live-path", name, "", f"the synthetic file is refused: {error.message}")
        return
    outputs = {output.name: output for output in made.outputs}
    for canonical in sorted(set(probe.canonical) - set(outputs)):
        rule = probe.rules[canonical]
        yield Finding(
            "canonical-name",
            name,
            rule.external[0],
            f"the live path gives no {canonical!r}",
        )
    for canonical, output in outputs.items():
        if canonical in probe.canonical:
            yield from _output(probe, output, probe.rules[canonical])
        elif output.inputs:
            yield Finding(
                "canonical-name",
                name,
                output.inputs[0],
                f"gives {canonical!r}, which no rule names",
            )
    yield from _dropped(probe, {one.external for one in made.dropped})
    yield from _refused(probe)


def _output(probe: Probe, output: Output, rule: Rule) -> Iterator[Finding]:
    name, external = probe.architecture.name, " + ".join(rule.external)
    contract = contract_of(probe.architecture, rule)
    try:
        built = output.build(probe.stored)
    except ContractError as error:
        yield Finding("live-path", name, external, f"{output.name!r} is refused: {error.message}")
        return
    stored = [probe.stored[one] for one in output.inputs]
    changed = (
        len(stored) != 1 or stored[0].shape != built.shape or not np.array_equal(stored[0], built)
    )
    if changed and contract is None:
        yield Finding(
            "change-without-contract",
            name,
            external,
            f"{output.name!r} differs from what is stored",
        )
    taken = contract is not None and contract.step.active(output._params)
    if taken and not changed and not isinstance(rule.step, Guard):
        yield Finding("identity-contract", name, external, "the step changes nothing")
    if taken and not output.transform and not isinstance(rule.step, Guard):
        yield Finding("missing-id", name, external, f"{output.name!r} says no transform")
    wanted = probe.canonical[output.name]
    tolerance = contract.tolerance if contract is not None else 0.0
    if built.shape != wanted.shape or np.abs(built - wanted).max(initial=0.0) > tolerance:
        yield Finding("round-trip", name, external, f"{output.name!r} is not what was exported")


def _dropped(probe: Probe, dropped: set[str]) -> Iterator[Finding]:
    for rule in probe.architecture.rules:
        if isinstance(rule.step, Drop) and not any(
            one == external or one.endswith(external.partition("{i}")[2] or external)
            for one in dropped
            for external in rule.external
        ):
            yield Finding("live-path", probe.architecture.name, rule.external[0], "not dropped")


def _refused(probe: Probe) -> Iterator[Finding]:
    name = probe.architecture.name
    refused = dict(probe.refused)
    if probe.architecture.refused is not None:
        refused["any.name"] = (probe.architecture.refused, np.zeros((7, 5), np.float32))
    for external, (rule, array) in refused.items():
        assert isinstance(rule.step, Refused)
        try:
            plan(name, probe.metadata, {**probe.dims, external: array.shape})
        except NotInvertibleError:
            continue
        yield Finding("live-path", name, external, "a step without an inverse is not refused")
