"""Which family a ``model_type`` belongs to. A new family is a module and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from ._table import Family

# model_type -> module of this package. A table rather than a search, so that a string from a
# file never becomes the name of an import.
MODULES = {
    "baichuan": "baichuan",
    "bert": "bert",
    "bloom": "bloom",
    "camembert": "roberta",
    "cohere": "cohere",
    "cohere2": "cohere2",
    "deepseek_v2": "deepseek_v2",
    "deepseek_v3": "deepseek",
    "distilbert": "distilbert",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "glm": "glm",
    "glm4": "glm4",
    "gpt2": "gpt2",
    "gpt_neox": "gpt_neox",
    "gpt_oss": "gpt_oss",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "kimi_k2": "deepseek",
    "lfm2": "lfm2",
    "llama": "llama",
    "llama3": "llama",
    "mamba": "mamba",
    "mistral": "mistral",
    "mixtral": "mixtral",
    "mpnet": "mpnet",
    "mt5": "t5",
    "nemotron": "nemotron",
    "nemotron_h": "nemotron_h",
    "olmo": "olmo",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "opt": "opt",
    "phi": "phi",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3_5": "qwen3_5",
    "qwen3_5_text": "qwen3_5",
    "qwen3_moe": "qwen3_moe",
    "qwen3_next": "qwen3_next",
    "roberta": "roberta",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
    "starcoder2": "starcoder2",
    "t5": "t5",
    "xlm-roberta": "roberta",
}


@cache
def _load(module: str) -> Family:
    # On first use: a program that opens one kind of model pays for one module.
    family = import_module(f"{__package__}.{module}").FAMILY
    assert isinstance(family, Family)
    return family


def find(config: Mapping[str, Any]) -> Family | None:
    """The family that the config names, or None."""
    kind = config.get("model_type")
    if kind is None:
        # The one family whose config says no type; its keys tell.
        from . import dormouse

        return dormouse.FAMILY if dormouse.recognises(config) else None
    module = MODULES.get(kind) if isinstance(kind, str) else None
    return None if module is None else _load(module)
