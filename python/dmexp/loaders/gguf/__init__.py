"""Read GGUF: header, split sets, data of every common type, config, tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._arrays import SkippedArray
from ._header import GgufHeader, read_header
from ._split import GgufSet, read_set
from ._tensors import GgufTensor

if TYPE_CHECKING:
    from ._info import gguf_info
    from ._open import GgufSource, open_gguf
    from .tokenizer import tokenizer_from_directory, tokenizer_from_metadata

__all__ = [
    "GgufHeader",
    "GgufSet",
    "GgufSource",
    "GgufTensor",
    "SkippedArray",
    "gguf_info",
    "open_gguf",
    "read_header",
    "read_set",
    "tokenizer_from_directory",
    "tokenizer_from_metadata",
]

# `dmexp.contracts` reads headers with this package, and opening needs contracts: whatever leads
# back there is imported on first use.
_HOMES = {
    "GgufSource": "_open",
    "gguf_info": "_info",
    "open_gguf": "_open",
    "tokenizer_from_directory": "tokenizer",
    "tokenizer_from_metadata": "tokenizer",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)
