"""Read GGUF: header, split sets, data of every common type, config, tokenizer."""

from __future__ import annotations

from ._arrays import SkippedArray
from ._header import GgufHeader, GgufTensor, read_header

__all__ = ["GgufHeader", "GgufTensor", "SkippedArray", "read_header"]
