"""Which steps are proven by files that the exporter itself wrote, and where they are.

An entry names the ids that a file in ``tests/corpus/gguf`` exercises for an architecture; the
empty id stands for plain renames. A test rebuilds every checkpoint tensor of those files and
holds this table to what it saw, in both directions. Everything else is read from the exporter's
source: ``"read"``.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["PROVEN", "Status", "status"]

Status = Literal["verified", "read"]

PROVEN: dict[str, frozenset[str]] = {}


def status(architecture: str, transform: str) -> Status:
    """``"verified"`` where a file proves the step for the architecture, else ``"read"``."""
    return "verified" if transform in PROVEN.get(architecture, ()) else "read"
