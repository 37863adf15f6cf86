"""Break every contract on purpose, and say which witness notices.

A witness that passes under a broken step proves nothing. Each contract is replaced by identity,
by the opposite direction, by the same step with other head counts, with its inputs in another
order, and without its domain check; each replacement has to be refuted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ContractError
from ._params import Params
from ._record import Contract
from ._registry import records
from ._step import Step, Witness
from .steps.dropped import Drop
from .steps.refused import Guard, Refused

__all__ = ["Mutant", "mutants_of", "mutation_table", "witness_failure"]

Array = NDArray[Any]
Run = Callable[[Witness], str]


@dataclass(frozen=True)
class Mutant:
    """One broken contract and what became of it.

    Attributes
    ----------
    architecture, external, transform : str
        The contract; several external names are joined by `` + ``.
    mutant : str
        What it was replaced by.
    killed_by : str
        Which witness refutes it and how; empty where none does.
    """

    architecture: str
    external: str
    transform: str
    mutant: str
    killed_by: str


def witness_failure(step: Step, witness: Witness) -> str:
    """How the step itself fails the witness; empty where it passes."""
    return _run(step, witness, witness.params(), step.undo, step.check)


def mutation_table(
    convention: str = "llama.cpp", architecture: str | None = None
) -> tuple[Mutant, ...]:
    """Every mutant of every contract of a convention, or of one architecture under it."""
    seen: dict[int, tuple[tuple[str, str], ...]] = {}
    table = []
    for contract in records(convention, architecture):
        key = id(contract.step)
        if key not in seen:
            seen[key] = tuple(mutants_of(contract))
        name = " + ".join(contract.external)
        for mutant, killed_by in seen[key]:
            table.append(Mutant(contract.architecture, name, contract.transform, mutant, killed_by))
    return tuple(table)


def mutants_of(contract: Contract) -> Iterator[tuple[str, str]]:
    """Each mutant of a contract and what kills it."""
    step = contract.step
    yield "identity", _killer(contract, lambda w: _with(step, w, lambda s, p: tuple(s)))
    if not isinstance(step, Drop | Refused | Guard) and contract.canonical and contract.external:
        if step.self_inverse:
            yield "opposite direction", "none needed: the step is its own inverse"
        else:
            yield "opposite direction", _killer(contract, lambda w: _with(step, w, step.forward))
            if step.moves:
                yield (
                    "opposite direction, dims kept",
                    _killer(contract, lambda w: _opposite(step, w)),
                )
    for at in range(max((len(w.wrong) for w in step.witnesses), default=0)):
        yield f"other metadata, {at + 1}", _killer(contract, partial(_wrong, step, at))
    if len(contract.external) > 1:
        yield (
            "inputs reversed",
            _killer(contract, lambda w: _with(step, w, lambda s, p: step.undo(s[::-1], p))),
        )
    if any(w.kind == "refusal" for w in step.witnesses) and not isinstance(step, Refused):
        yield (
            "domain unchecked",
            _killer(
                contract,
                lambda w: _run(step, w, w.params(), step.undo, lambda s, n, p: None),
            ),
        )


def _killer(contract: Contract, run: Run) -> str:
    for at, witness in enumerate(contract.witnesses):
        failure = run(witness)
        if failure:
            return f"{witness.kind} witness {at + 1}: {failure}"
    return ""


def _with(
    step: Step,
    witness: Witness,
    replacement: Callable[[Sequence[Array], Params], Sequence[Array]],
) -> str:
    if isinstance(step, Refused | Guard):
        # Identity in the place of a refusal is a tensor that is let through.
        return _run(step, witness, witness.params(), replacement, lambda s, n, p: None)
    return _run(step, witness, witness.params(), replacement, step.check)


def _opposite(step: Step, witness: Witness) -> str:
    """The exporter's step once more, on the stored values under the canonical dims."""

    def forward(stored: Sequence[Array], p: Params) -> Sequence[Array]:
        flat = np.concatenate([array.reshape(-1) for array in stored])
        parts = _cut(flat, [dims for dims, _ in witness.canonical])
        again = np.concatenate([array.reshape(-1) for array in step.forward(parts, p)])
        return _cut(again, [dims for dims, _ in witness.canonical])

    return _with(step, witness, forward)


def _cut(flat: Array, dims: Sequence[tuple[int, ...]]) -> list[Array]:
    edges = np.cumsum([int(np.prod(one)) for one in dims])
    if len(edges) and flat.size != edges[-1]:
        raise ContractError(f"{flat.size} values do not fill {edges[-1]}")
    return [part.reshape(one) for part, one in zip(np.split(flat, edges[:-1]), dims, strict=True)]


def _wrong(step: Step, at: int, witness: Witness) -> str:
    if at >= len(witness.wrong):
        return ""
    return _run(step, witness, witness.params(witness.wrong[at]), _active_undo(step), step.check)


def _active_undo(step: Step) -> Callable[[Sequence[Array], Params], Sequence[Array]]:
    return lambda stored, p: step.undo(stored, p) if step.active(p) else tuple(stored)


def _run(
    step: Step,
    witness: Witness,
    p: Params,
    undo: Callable[[Sequence[Array], Params], Sequence[Array]],
    check: Callable[[Sequence[Array], Sequence[str], Params], None],
) -> str:
    stored = witness.inputs()
    names = [f"input {at}" for at in range(len(stored))]
    try:
        check(stored, names, p)
        if witness.kind == "refusal":
            return "let through what must be refused"
        with np.errstate(all="ignore"):
            outputs = undo(stored, p)
    except ContractError as error:
        return "" if witness.kind == "refusal" else f"refused: {error.message}"
    except (ValueError, IndexError) as error:
        # The broken step does not even fit the dims.
        return f"does not fit: {error}"
    return witness.refutes(outputs)
