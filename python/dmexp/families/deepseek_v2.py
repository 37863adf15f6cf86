"""DeepSeek V2: V3's table without the routers' correction."""

from __future__ import annotations

from ._table import Family
from .deepseek import build_v2

FAMILY = Family("deepseek_v2", build_v2, rope=True)
