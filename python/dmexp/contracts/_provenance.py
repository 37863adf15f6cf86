"""What was undone to a file, as JSON that says the same on every machine.

No time, no path, no weight value: two people who read the same file get the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import ContractError, DomainError
from ._plan import Plan, plan
from ._registry import get

__all__ = ["SCHEMA", "manifest_digest", "provenance", "provenance_json"]

SCHEMA = "dmexp-model-load-provenance/1"

Array = NDArray[Any]
Read = Callable[[str], Array]


class Header(Protocol):
    """What provenance needs of a header; `dmexp.loaders.gguf.GgufHeader` has it."""

    @property
    def version(self) -> int: ...
    @property
    def architecture(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...
    @property
    def tensors(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True)
class _Transform:
    transform: str
    external: str
    canonical: str
    source_domain: str
    canonical_domain: str
    lossless: bool
    invertible: bool
    domain_validated: bool
    status: str
    tensors: int
    layers: int


def manifest_digest(rows: Iterable[tuple[str, str, tuple[int, ...]]]) -> str:
    """SHA-256 over ``name, type, dims`` of every tensor, sorted by name."""
    digest = hashlib.sha256()
    for name, kind, dims in sorted(rows):
        digest.update(f"{name}\t{kind}\t{','.join(map(str, dims))}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def provenance(header: Header, *, read: Read | None = None) -> dict[str, Any]:
    """Describe how a file is read.

    Parameters
    ----------
    header
        As parsed: version, architecture, metadata, tensors with name, dims and type.
    read
        Gives the values of one external tensor. Without it the header alone is described, and
        ``domain_checks`` and ``tensor_summaries`` stay empty.

    Returns
    -------
    dict
        Plain data, in the order in which it is written.

    Raises
    ------
    UnknownArchitectureError, NotInvertibleError, ContractError
        As `plan` does. A value outside its domain is reported, not raised.
    """
    tensors = {one.name: tuple(one.dims) for one in header.tensors}
    made = plan(header.architecture, header.metadata, tensors)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "architecture": made.architecture,
        "convention": made.convention,
        "status": made.status,
        "gguf_version": header.version,
        "manifest_digest": manifest_digest(
            (one.name, one.type_name, tuple(one.dims)) for one in header.tensors
        ),
        "types": _count(one.type_name for one in header.tensors),
        "transforms": [asdict(one) for one in _transforms(made)],
        "dropped": [one._asdict() for one in made.dropped],
        "domain_checks": [],
        "tensor_summaries": [],
    }
    if read is not None:
        record["domain_checks"], record["tensor_summaries"] = _values(made, read)
    return record


def provenance_json(record: Mapping[str, Any]) -> str:
    """The record as text: two spaces of indent, keys in their order, a newline at the end."""
    return json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _count(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def _transforms(made: Plan) -> list[_Transform]:
    """One entry for each id and contract, with the tensors and layers that it covers."""
    groups: dict[tuple[str, tuple[str, ...]], tuple[set[str], set[int | None], str]] = {}
    from ._names import pattern_of

    for output in made.outputs:
        if not output.transform or not output.inputs:
            continue
        patterns = tuple(pattern_of(name)[0] for name in output.inputs)
        stored, blocks, _ = groups.setdefault(
            (output.transform, patterns), (set(), set(), output.status)
        )
        stored.update(output.inputs)
        blocks.add(pattern_of(output.inputs[0])[1])
    entries = []
    for (transform, patterns), (stored, blocks, status) in sorted(groups.items()):
        contract = get(made.architecture, patterns[0])
        if contract is None:
            raise ContractError(f"{patterns[0]!r} is transformed and has no contract")
        entries.append(
            _Transform(
                transform,
                " + ".join(patterns),
                " + ".join(contract.canonical),
                contract.source_domain.prose,
                contract.canonical_domain.prose,
                contract.lossless,
                contract.invertible,
                contract.source_domain.allowed is not None,
                status,
                len(stored),
                len(blocks - {None}),
            )
        )
    return entries


def _values(made: Plan, read: Read) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    checks: dict[tuple[str, str], dict[str, Any]] = {}
    summaries = []
    for output in made.outputs:
        arrays = {name: read(name) for name in output.inputs}
        contract = get(made.architecture, output.inputs[0]) if output.inputs else None
        check = None
        if contract is not None and contract.source_domain.allowed is not None:
            key = (output.transform, contract.source_domain.prose)
            check = checks.setdefault(
                key,
                {
                    "transform": key[0],
                    "expected": key[1],
                    "tensors": 0,
                    "rejected": 0,
                    "first_failure": None,
                },
            )
            check["tensors"] += 1
        try:
            built = output.build(arrays)
        except DomainError as error:
            assert check is not None
            check["rejected"] += 1
            # Where, not what: a weight is not published.
            if check["first_failure"] is None:
                check["first_failure"] = {"tensor": error.tensor, "index": list(error.index)}
            continue
        summaries.append(_summary(output.name, output.transform, built))
    for external, _ in made.dropped:
        made.check_dropped(external, read(external))
    return [checks[key] for key in sorted(checks)], summaries


def _summary(name: str, transform: str, array: Array) -> dict[str, Any]:
    wide = np.ascontiguousarray(array, dtype="<f4")
    finite = np.isfinite(wide).reshape(-1)
    values = wide.reshape(-1)[finite]
    digest = hashlib.sha256(name.encode())
    digest.update(b"".join(struct.pack("<Q", dim) for dim in array.shape))
    digest.update(wide.tobytes())
    return {
        "canonical": name,
        "transform": transform,
        "dims": list(array.shape),
        "values": int(wide.size),
        "finite": int(values.size),
        "first_non_finite": -1 if values.size == wide.size else int(np.argmin(finite)),
        "min": _shortest(values.min()) if values.size else None,
        "max": _shortest(values.max()) if values.size else None,
        "sha256": digest.hexdigest(),
    }


def _shortest(value: np.float32) -> str:
    return np.format_float_scientific(value, unique=True, trim="0")
