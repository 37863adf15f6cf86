"""The record of one claim about meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ._domain import Domain
from ._evidence import Status
from ._step import Step, Witness

__all__ = ["Contract", "Provenance"]


class Provenance(NamedTuple):
    """Where a claim comes from.

    Attributes
    ----------
    exporter : str
        The program that writes such files.
    versions : str
        Which versions of it were read or run.
    decided : str
        Where in the exporter it is decided, and what it does there.
    consumer : str
        What the program that reads the file computes with the value.
    """

    exporter: str
    versions: str
    decided: str
    consumer: str


@dataclass(frozen=True)
class Contract:
    """One claim: what an exporter's tensor means, and how to get back what was trained.

    Attributes
    ----------
    convention : str
        ``"llama.cpp"`` or ``"fak"``.
    architecture : str
        The canonical spelling.
    external, canonical : tuple of str
        Name patterns of the file and of the checkpoint: ``{i}`` is a block, ``{e}`` an expert,
        ``@`` the checkpoint's name of the layer. Several on either side where tensors are
        merged or split; no canonical one where a tensor is dropped.
    transform : str
        The id; components joined by ``+`` in the order in which they are applied on import.
    parameters : tuple of str
        The metadata keys that the step reads.
    source_domain, canonical_domain : Domain
        What values may be, in the file and in the checkpoint.
    provenance : Provenance
    lossless : bool
        Whether export and import give back every bit.
    invertible : bool
        Whether the step can be undone from the file.
    rejects_canonical_domain : bool
        Whether the check refuses values that look like canonical ones.
    tolerance : float
        The largest absolute difference after export and import in f32.
    witnesses : tuple of Witness
        Worked examples that identity, the opposite direction and wrong head counts fail.
    step : Step
        The inverse and the exporter's forward step, as code.
    status : str
        ``"verified"``: a file written by the exporter proves it. ``"read"``: from its source.
    disputed : str
        Why the claim is contradicted; empty where it is not.
    """

    convention: str
    architecture: str
    external: tuple[str, ...]
    canonical: tuple[str, ...]
    transform: str
    parameters: tuple[str, ...]
    source_domain: Domain
    canonical_domain: Domain
    provenance: Provenance
    lossless: bool
    invertible: bool
    rejects_canonical_domain: bool
    tolerance: float
    witnesses: tuple[Witness, ...] = field(repr=False)
    step: Step = field(repr=False)
    status: Status
    disputed: str = ""

    @property
    def value_witness(self) -> Witness | None:
        """The first value witness, where there is one."""
        return next((one for one in self.witnesses if one.kind == "value"), None)

    @property
    def layout_witness(self) -> Witness | None:
        """The first layout witness, where there is one."""
        return next((one for one in self.witnesses if one.kind == "layout"), None)

    def as_dict(self) -> dict[str, Any]:
        """The record as plain data, for ``--json``; functions are left out."""
        return {
            "convention": self.convention,
            "architecture": self.architecture,
            "external": list(self.external),
            "canonical": list(self.canonical),
            "transform": self.transform,
            "parameters": list(self.parameters),
            "source_domain": self.source_domain.prose,
            "canonical_domain": self.canonical_domain.prose,
            "provenance": self.provenance._asdict(),
            "lossless": self.lossless,
            "invertible": self.invertible,
            "rejects_canonical_domain": self.rejects_canonical_domain,
            "tolerance": self.tolerance,
            "status": self.status,
            "disputed": self.disputed,
        }
