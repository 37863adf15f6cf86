"""GLM-4-0414: GLM with norms after each half of a layer too."""

from __future__ import annotations

from ._table import Family
from .glm import build_glm4

FAMILY = Family("glm4", build_glm4, rope=True)
