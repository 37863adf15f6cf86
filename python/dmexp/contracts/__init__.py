"""What the numbers of a foreign file mean, as declared and tested claims.

Shape, dtype and byte count can agree while the numbers mean something else. Every step away from
a plain rename is a `Contract`: keyed by architecture and external name, with its inverse, its
domains, where it comes from, and worked examples that a wrong step fails.

- `plan` names the canonical tensors of a file and builds them; importers call nothing else.
- `transform_ids` answers from a header alone.
- `list`, `get`, `architectures`, `lost` show what is declared.
- `lint` and `mutation_table` check the declarations; `provenance` records what was undone.
"""

from __future__ import annotations

import builtins
import os

from ..errors import DmexpError
from ._declare import Lost
from ._domain import Domain
from ._lint import Finding, lint
from ._mutation import Mutant, mutation_table
from ._plan import Dropped, Output, Plan, ids, plan
from ._provenance import manifest_digest, provenance, provenance_json
from ._record import Contract, Provenance
from ._registry import CONVENTIONS, architectures, declared, get, lost, records, spelling
from ._step import Witness

__all__ = [
    "CONVENTIONS",
    "Contract",
    "Domain",
    "Dropped",
    "Finding",
    "Lost",
    "Mutant",
    "Output",
    "Plan",
    "Provenance",
    "Witness",
    "architectures",
    "get",
    "ids",
    "lint",
    "list",
    "lost",
    "manifest_digest",
    "mutation_table",
    "names",
    "note",
    "plan",
    "provenance",
    "provenance_json",
    "spelling",
    "transform_ids",
]


def list(
    *, convention: str = "llama.cpp", architecture: str | None = None
) -> builtins.list[Contract]:
    """Every contract of a convention, or of one architecture under it.

    Parameters
    ----------
    convention
        ``"llama.cpp"``, by which files are imported, or ``"fak"``, another loader's table.
    architecture
        Under any known spelling.

    Raises
    ------
    InvalidArgumentError
        The convention is not known.
    UnknownArchitectureError
        The architecture is not declared.
    """
    return [*records(convention, architecture)]


def names(architecture: str) -> builtins.list[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """External patterns, canonical patterns and transform id of every rule, renames included."""
    return [
        (rule.external, rule.canonical, rule.step.id if rule.step is not None else "")
        for rule in declared(architecture).rules
    ]


def note(architecture: str) -> str:
    """Which of several checkpoint spellings an import uses; empty where there is one."""
    return declared(architecture).note


def transform_ids(path: str | os.PathLike[str]) -> dict[str, str]:
    """The transform id of every tensor of a GGUF file, from its header alone.

    Parameters
    ----------
    path
        The file, or any part of a split model. It may end where the tensor data would begin.

    Returns
    -------
    dict
        External name to id, in header order; an empty id is a plain rename. Steps that cannot
        be undone have an id as well.

    Raises
    ------
    UnknownArchitectureError
        No contracts are declared for the architecture.
    ContractError
        A tensor that the architecture does not declare.
    TruncatedError
        Parts of a split model are missing: the step of one tensor depends on the names of others.
    """
    from ..loaders.gguf import read_set

    header = read_set(path).header
    tensors = {one.name: one.dims for one in header.tensors}
    try:
        return ids(header.architecture, header.metadata, tensors)
    except DmexpError as error:
        raise error.with_path(os.fspath(path)) from error.__cause__
