"""What has to be said of a GGUF model: types, file type, what is lost, what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dmexp.contracts import Plan

from ._header import GgufHeader
from ._split import GgufSet, extent_end
from ._types import FILE_TYPES, PLAIN_DTYPES


def remarks(found: GgufSet, planned: Plan) -> list[str]:
    """Sentences for the person who exports the model."""
    header = found.header
    notes = []
    quantized = quantized_types(header)
    if quantized:
        listed = ", ".join(f"{name} x {count}" for name, count in quantized.items())
        notes.append(
            f"the weights are quantized: {listed}. What is exported is what they decode to; the "
            "values that were quantized are lost"
        )
    unproven = {
        output.transform or "rename" for output in planned.outputs if output.status == "read"
    }
    if unproven:
        notes.append(
            f"for architecture {header.architecture!r} no pair of checkpoint and GGUF file has "
            f"proved these steps, which are taken from the exporter's source: "
            f"{', '.join(sorted(unproven))}"
        )
    by_reason: dict[str, list[str]] = {}
    for dropped in planned.dropped:
        by_reason.setdefault(dropped.reason, []).append(dropped.external)
    for reason, names in by_reason.items():
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        notes.append(f"left out: {', '.join(names[:4])}{more} ({reason})")
    for path, part in zip(found.parts, found.headers, strict=True):
        surplus = path.stat().st_size - extent_end(part)
        # Less is padding: to the alignment, or to what a disk likes.
        if surplus >= max(part.alignment, 4096):
            notes.append(
                f"{path.name} has {surplus} bytes after its last tensor, which no one reads"
            )
    return notes


def type_counts(header: GgufHeader) -> dict[str, int]:
    """How many tensors there are of each type, the most frequent first."""
    counts = Counter(tensor.type_name for tensor in header.tensors)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def quantized_types(header: GgufHeader) -> dict[str, int]:
    return {name: count for name, count in type_counts(header).items() if name not in PLAIN_DTYPES}


def summary(header: GgufHeader, parts: int = 1) -> dict[str, Any]:
    """What an export keeps of the file it came from."""
    found: dict[str, Any] = {
        "architecture": header.architecture,
        "version": header.version,
        "quantized": bool(quantized_types(header)),
        "types": type_counts(header),
    }
    kind = file_type(header.metadata)
    if kind is not None:
        found["file_type"] = kind
    name = header.metadata.get("general.name")
    if isinstance(name, str) and name:
        found["name"] = name
    if parts > 1:
        found["parts"] = parts
    return found


def file_type(metadata: Mapping[str, Any]) -> str | None:
    """The name of ``general.file_type``; the number itself where it has none here."""
    value = metadata.get("general.file_type")
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    # Some writers set the bit that says that the type was guessed.
    return FILE_TYPES.get(value & ~1024, str(value))
