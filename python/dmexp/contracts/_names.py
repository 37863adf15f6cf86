"""External names as patterns: the block index taken out, strictly."""

from __future__ import annotations

import re

__all__ = ["pattern_of"]

# Canonical decimals only: blk.00, blk.+1 and blk.-1 are names of nothing.
_BLOCK = re.compile(r"^(|enc\.|dec\.)(blk|convnext|posnet)\.(0|[1-9][0-9]{0,5})\.(.+)$")


def pattern_of(name: str) -> tuple[str, int | None]:
    """``"blk.12.attn_q.weight"`` to ``("blk.{i}.attn_q.weight", 12)``."""
    match = _BLOCK.match(name)
    if match is None:
        return name, None
    side, family, index, rest = match.groups()
    return f"{side}{family}.{{i}}.{rest}", int(index)
