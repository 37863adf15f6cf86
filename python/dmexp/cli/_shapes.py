"""How a verdict on config against tensors is printed."""

from __future__ import annotations

from typing import Any

from ..families._check import Verdict
from ._text import printable


def shapes_line(verdict: Verdict) -> str:
    """Whether the config describes the tensors; never claims a check that was not made."""
    if verdict.status == "not checked":
        return f"shapes: not checked ({printable(verdict.reason)})"
    family = f" ({printable(verdict.family)})" if verdict.family else ""
    return f"shapes: config describes the tensors: {verdict.status}{family}"


def shapes_dict(verdict: Verdict) -> dict[str, Any]:
    """The same as data."""
    return {
        "status": verdict.status,
        "family": verdict.family,
        "reason": verdict.reason,
        "conflicts": [conflict.as_dict() for conflict in verdict.conflicts],
    }
