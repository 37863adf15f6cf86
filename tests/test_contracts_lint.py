"""The lint, and whether it would notice; mutants of every contract, and what kills them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dmexp import contracts
from dmexp.contracts import _lint
from dmexp.contracts._declare import Architecture, Rule, declare
from dmexp.contracts._domain import ANY, Domain
from dmexp.contracts._mutation import mutants_of, witness_failure
from dmexp.contracts._params import Params
from dmexp.contracts._registry import contract_of
from dmexp.contracts._step import Dims, Unary, layout, value
from dmexp.contracts.architectures import ARCHITECTURES
from dmexp.contracts.steps import STEPS

Array = np.ndarray


def test_lint_is_clean_over_every_architecture_and_convention() -> None:
    assert [str(finding) for finding in contracts.lint()] == []


def test_lint_takes_any_spelling() -> None:
    assert contracts.lint(["gptoss", "llama"]) == []


# --- would it notice -----------------------------------------------------------------------------


class _Negate(Unary):
    """A step to break: changes every value, and is declared with whatever a test wants."""

    id = "negate"
    kind = "value"
    exporter = "negates"
    consumer = "Negates again."
    witnesses = (value(1.5, -1.5),)
    self_inverse = True

    def probe(self, p: Params) -> tuple[Dims, ...]:
        return ((7, 5),)

    def out(self, dims: Dims, p: Params) -> Dims:
        return dims

    def undo_one(self, array: Array, p: Params) -> Array:
        return -array

    def redo_one(self, array: Array, p: Params) -> Array:
        return -array


class _Nothing(_Negate):
    def undo_one(self, array: Array, p: Params) -> Array:
        return array

    redo_one = undo_one


def _architecture(step: Unary | None, canonical: str = "model.norm.weight") -> Architecture:
    empty = declare("llama", "LlamaModel")
    rule = Rule(("output_norm.weight",), (canonical,), step)
    return replace(empty, rules=(rule,))


def _findings(monkeypatch: pytest.MonkeyPatch, architecture: Architecture) -> Counter[str]:
    monkeypatch.setitem(ARCHITECTURES, "llama", architecture)
    found = [*_lint._declaration(architecture)]
    for rule in architecture.rules:
        contract = contract_of(architecture, rule)
        if contract is not None:
            found += _lint._contract(contract, set())
    return Counter(finding.rule for finding in found)


def _with(**changes: Any) -> Unary:
    step = _Negate()
    for name, changed in changes.items():
        setattr(step, name, changed)
    return step


def test_a_good_contract_gives_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _findings(monkeypatch, _architecture(_Negate())) == Counter()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"id": ""}, "missing-id"),
        ({"id": "identity"}, "missing-id"),
        ({"exporter": "", "consumer": " "}, "missing-provenance"),
        ({"source": Domain("")}, "missing-domain"),
        ({"canonical": Domain(" ")}, "missing-domain"),
        ({"witnesses": ()}, "no-witness"),
        ({"witnesses": (value(1.5, 1.5),)}, "witness-fails"),
        ({"witnesses": (value(0.0, 0.0),)}, "idle-witness"),
        ({"self_inverse": False}, "idle-witness"),
        ({"source": Domain("never", lambda array: np.zeros(array.shape, bool))}, "live-path"),
    ],
)
def test_lint_notices(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], rule: str) -> None:
    assert _findings(monkeypatch, _architecture(_with(**changes)))[rule] > 0


def test_lint_notices_a_contract_that_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _findings(monkeypatch, _architecture(_Nothing()))
    assert found["identity-contract"] == 1


def test_lint_notices_a_step_that_is_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(_Negate):
        def redo_one(self, array: Array, p: Params) -> Array:
            return -array / 2

    assert _findings(monkeypatch, _architecture(Half()))["round-trip"] == 1


def test_lint_notices_a_change_without_a_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    # The live path takes a step that the registry does not show.
    monkeypatch.setattr(_lint, "contract_of", lambda architecture, rule: None)
    findings = [*_lint._declaration(ARCHITECTURES["gemma"])]
    assert {finding.rule for finding in findings} == {"change-without-contract"}


def test_lint_notices_a_name_that_the_live_map_does_not_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    architecture = _architecture(_Negate())
    plan = contracts.plan

    def renamed(*args: Any) -> Any:
        made = plan(*args)
        outputs = tuple(replace(one, name=one.name + "x") for one in made.outputs)
        return replace(made, outputs=outputs)

    monkeypatch.setattr(_lint, "plan", renamed)
    assert _findings(monkeypatch, architecture)["canonical-name"] == 2


def test_lint_notices_two_rules_for_one_canonical_name(monkeypatch: pytest.MonkeyPatch) -> None:
    architecture = declare(
        "llama",
        "LlamaModel",
        "output.weight -> lm_head.weight\ntoken_embd.weight -> lm_head.weight",
    )
    assert _findings(monkeypatch, architecture)["live-path"] == 1


def test_lint_notices_a_refusal_that_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = contracts.plan
    monkeypatch.setattr(_lint, "plan", lambda *args: None if "x" in args[2] else plan(*args))
    architecture = declare("llama", "LlamaModel", "x -> y : unfold-embedding")
    assert _findings(monkeypatch, architecture)["live-path"] == 1


# --- mutants -------------------------------------------------------------------------------------


def test_every_witness_passes_under_its_own_step() -> None:
    failures = {
        name: failure
        for name, step in STEPS.items()
        for witness in step.witnesses
        if (failure := witness_failure(step, witness))
    }
    assert failures == {}


@pytest.mark.parametrize("convention", contracts.CONVENTIONS)
def test_every_mutant_of_every_contract_is_killed(convention: str) -> None:
    table = contracts.mutation_table(convention)
    assert [one for one in table if not one.killed_by] == []


def test_every_contract_is_mutated_in_each_direction() -> None:
    rows: dict[tuple[str, str, str], set[str]] = {}
    for one in contracts.mutation_table():
        rows.setdefault((one.architecture, one.external, one.transform), set()).add(one.mutant)
    assert len(rows) == len({(c.architecture, c.external, c.transform) for c in contracts.list()})
    for contract in contracts.list():
        key = (contract.architecture, " + ".join(contract.external), contract.transform)
        assert "identity" in rows[key]
        two_sided = contract.invertible and contract.step.kind != "guard"
        if two_sided and not contract.transform.startswith("scalar-from-metadata"):
            assert "opposite direction" in rows[key], key


def test_every_step_that_reads_metadata_has_a_mutant_with_other_metadata() -> None:
    idle = {
        contract.transform
        for contract in contracts.list()
        if contract.parameters
        and not any(witness.wrong for witness in contract.witnesses)
        # These read metadata for the exporter's direction only; the dims say it all on import.
        and contract.transform not in {"merge-kv-b"}
    }
    assert idle == set()


def test_no_step_is_left_without_a_contract() -> None:
    used = {id(contract.step) for contract in contracts.list() + contracts.list(convention="fak")}
    assert {name for name, step in STEPS.items() if id(step) not in used} == set()


def test_the_table_reads_like_this(capsys: pytest.CaptureFixture[str]) -> None:
    """Run with ``-rP`` to see it: one line for each step and mutant."""
    seen = set()
    for one in contracts.mutation_table():
        line = f"{one.transform:50} {one.mutant:30} {one.killed_by}"
        if line not in seen:
            seen.add(line)
            print(line)
    shown = capsys.readouterr().out
    print(shown)
    assert "rotary-unpermute" in shown
    assert "gain-minus-one" in shown
    assert len(shown.splitlines()) > 150


@pytest.mark.parametrize("name", sorted(STEPS))
def test_a_layout_witness_stands_at_dims_where_the_step_is_not_its_own_inverse(name: str) -> None:
    step = STEPS[name]
    for witness in step.witnesses:
        if witness.kind == "value":
            stored, canonical = witness.stored[0][1], witness.canonical[0][1]
            assert len(set(stored)) == len(set(canonical)) == 1
            assert stored[0] != canonical[0]


def _swapped_roles() -> Sequence[tuple[str, str, str]]:
    return [("llama", "attn_q", "rotary/key"), ("llama", "attn_k", "rotary/query")]


@pytest.mark.parametrize(("architecture", "name", "wrong"), _swapped_roles())
def test_the_wrong_head_count_gives_another_tensor(
    architecture: str, name: str, wrong: str
) -> None:
    rows = np.arange(24, dtype=np.float32)
    metadata = {"llama.attention.head_count": 4, "llama.attention.head_count_kv": 2}
    p = Params(metadata, architecture, architecture, 0)
    right = contracts.get(architecture, f"blk.0.{name}.weight")
    assert right is not None
    (good,) = right.step.undo([rows], p)
    (bad,) = STEPS[wrong].undo([rows], p)
    assert not np.array_equal(good, bad)


def test_mutants_name_the_witness_that_kills_them() -> None:
    contract = contracts.get("qwen35", "blk.0.ssm_a")
    assert contract is not None
    killers = dict(mutants_of(contract))
    assert killers["identity"].startswith("value witness 1: output 0 holds -1.648")
    assert killers["domain unchecked"] == "refusal witness 3: let through what must be refused"
    assert killers["other metadata, 1"].startswith("layout witness 2")


def test_layout_helper_counts_through_all_inputs() -> None:
    witness = layout(((2,), (2,)), ((4,), (2, 3, 0, 1)))
    assert [array.tolist() for array in witness.inputs()] == [[0, 1], [2, 3]]
    assert witness.refutes([np.array([2, 3, 0, 1], np.float32)]) == ""
    assert "holds 0.0 at [0]" in witness.refutes([np.array([0, 3, 0, 1], np.float32)])
    assert "dims [2, 2]" in witness.refutes([np.zeros((2, 2), np.float32)])
    assert "2 tensors instead of 1" in witness.refutes([np.zeros(4), np.zeros(4)])


def test_any_value_reads_nothing() -> None:
    ANY.check(np.array([np.nan]), tensor="x", transform="y", architecture="z")
