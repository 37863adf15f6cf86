"""Model families: the names and dims that a config calls for.

`describe` is the one entry point; export, load, `info` and `verify` all call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._check import Conflict, Dims, Verdict

__all__ = ["Conflict", "Verdict", "describe"]


def describe(config: Mapping[str, Any], tensors: Iterable[tuple[str, Dims]]) -> Verdict:
    """Say whether ``config`` (parsed TOML) describes ``tensors`` (name and dims of each)."""
    del tensors
    kind = config.get("model_type")
    return Verdict("not checked", None, f'model_type "{kind}" is not known')
