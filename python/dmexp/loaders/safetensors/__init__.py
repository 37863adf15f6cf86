"""Safetensors, read strictly by a reader of our own, and compared with LIS's narrow subset."""

from __future__ import annotations

from ._file import SafetensorsFile
from ._lis import LisReport, LisTensor, lis_scope
from ._single import SafetensorsSource, open_safetensors

__all__ = [
    "LisReport",
    "LisTensor",
    "SafetensorsFile",
    "SafetensorsSource",
    "lis_scope",
    "open_safetensors",
]
