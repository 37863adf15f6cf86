"""GGUF metadata as the Hugging Face config of the same family.

A config is what gives tensors their shape and their meaning, so it says nothing that the file
does not say or that its architecture does not fix. An architecture without an entry here keeps
its own name as ``model_type``, which no family claims, and its raw metadata under ``gguf``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._arrays import SkippedArray
from . import _decoder, _further, _gemma, _hybrid, _mixture, _older, _qwen
from ._meta import Meta, Values, shortest

__all__ = ["BUILDERS", "build_config"]

BUILDERS: dict[str, Callable[[Meta], Values]] = {
    "apertus": _decoder.apertus,
    "arcee": _decoder.arcee,
    "baichuan": _decoder.baichuan,
    "bert": _older.bert,
    "bloom": _older.bloom,
    "chatglm": _further.glm,
    "cohere2": _decoder.cohere2,
    "command-r": _decoder.cohere,
    "dbrx": _mixture.dbrx,
    "deepseek": _mixture.deepseek,
    "deepseek2": _mixture.deepseek2,
    "dots1": _further.dots1,
    "ernie4_5": _decoder.ernie,
    "ernie4_5-moe": _mixture.ernie_moe,
    "exaone": _decoder.exaone,
    "exaone-moe": _further.exaone_moe,
    "exaone4": _decoder.exaone4,
    "falcon": _older.falcon,
    "gemma": _gemma.gemma,
    "gemma-embedding": _gemma.gemma_embedding,
    "gemma2": _gemma.gemma2,
    "gemma3": _gemma.gemma3,
    "gemma3n": _gemma.gemma3n,
    "gemma4": _gemma.gemma4,
    "glm4": _decoder.glm4,
    "glm4moe": _mixture.glm4moe,
    "gpt-oss": _mixture.gpt_oss,
    "gpt2": _older.gpt2,
    "gptneox": _older.gptneox,
    "granite": _decoder.granite,
    "granitehybrid": _hybrid.granitehybrid,
    "granitemoe": _decoder.granitemoe,
    "hunyuan-dense": _decoder.hunyuan,
    "hunyuan-moe": _further.hunyuan_moe,
    "internlm2": _decoder.internlm2,
    "jais2": _further.jais2,
    "jamba": _hybrid.jamba,
    "lfm2": _hybrid.lfm2,
    "lfm2moe": _hybrid.lfm2moe,
    "llama": _decoder.llama,
    "llama4": _mixture.llama4,
    "mamba": _hybrid.mamba,
    "mamba2": _hybrid.mamba2,
    "minicpm": _decoder.minicpm,
    "minimax-m2": _mixture.minimax_m2,
    "mistral3": _decoder.mistral3,
    "modern-bert": _further.modern_bert,
    "mpt": _older.mpt,
    "nemotron": _decoder.nemotron,
    "nemotron_h": _hybrid.nemotron_h,
    "nemotron_h_moe": _hybrid.nemotron_h,
    "olmo": _decoder.olmo,
    "olmo2": _decoder.olmo2,
    "olmoe": _mixture.olmoe,
    "phi2": _older.phi2,
    "phi3": _decoder.phi3,
    "phimoe": _mixture.phimoe,
    "qwen2": _qwen.qwen2,
    "qwen2moe": _qwen.qwen2moe,
    "qwen2vl": _qwen.qwen2vl,
    "qwen3": _qwen.qwen3,
    "qwen35": _qwen.qwen35,
    "qwen35moe": _qwen.qwen35moe,
    "qwen3moe": _qwen.qwen3moe,
    "qwen3next": _qwen.qwen3next,
    "qwen3vl": _qwen.qwen3vl,
    "qwen3vlmoe": _qwen.qwen3vlmoe,
    "seed_oss": _decoder.seed_oss,
    "smollm3": _decoder.smollm3,
    "stablelm": _older.stablelm,
    "starcoder": _further.starcoder,
    "starcoder2": _older.starcoder2,
    "t5": _older.t5,
    "t5encoder": _further.t5_encoder,
}


def build_config(
    architecture: str,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[int, ...]],
    read: Callable[[str], np.ndarray[Any, Any]] | None = None,
) -> tuple[Values, list[str]]:
    """Write the config of a model from its GGUF metadata.

    Parameters
    ----------
    architecture
        ``general.architecture``, as spelled in the file.
    metadata
        The header's.
    tensors
        Dims in checkpoint order, by the file's own names, over all parts.
    read
        Gives a tensor's values by its name; asked for generated ones only, such as rotary
        factors.

    Returns
    -------
    tuple
        The config, without nulls, and sentences on what had to be taken from the architecture.

    Raises
    ------
    FormatError
        A key that the family needs is missing or holds something else.
    """
    meta = Meta(architecture, metadata, tensors, read)
    build = BUILDERS.get(architecture)
    config = build(meta) if build and _is_whole(meta) else _unmapped(meta)
    return _without_nulls(config), meta.notices


def _is_whole(m: Meta) -> bool:
    """Whether the file holds the model that its architecture string stands for."""
    if m.architecture == "chatglm":
        # ChatGLM's own checkpoints have q, k and v in one, and a config of other keys.
        return "blk.0.attn_q.weight" in m.tensors
    # Blocks that predict further tokens are also exported by themselves, as a draft model.
    return not m.predicting or any(name.startswith("blk.0.") for name in m.tensors)


def _unmapped(m: Meta) -> Values:
    """The sizes that every architecture states under the same keys, and the raw metadata."""
    config: Values = {"model_type": m.architecture}
    for key, name in (
        ("hidden_size", "embedding_length"),
        ("num_hidden_layers", "block_count"),
        ("num_attention_heads", "attention.head_count"),
        ("num_key_value_heads", "attention.head_count_kv"),
        ("intermediate_size", "feed_forward_length"),
        ("max_position_embeddings", "context_length"),
    ):
        value = m.raw(name)
        if isinstance(value, int) and not isinstance(value, bool):
            config[key] = value
    if "token_embd.weight" in m.tensors:
        config["vocab_size"] = m.vocab
        config["tie_word_embeddings"] = m.tied
    prefix = f"{m.architecture}."
    config["gguf"] = {
        key.removeprefix(prefix): _plain(value)
        for key, value in m.metadata.items()
        if key.startswith(prefix) and not isinstance(value, SkippedArray)
    }
    m.notices.append(
        f"no Hugging Face config is known for architecture {m.architecture!r}; the config keeps "
        "the file's own keys under [gguf]"
    )
    return config


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return shortest(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    # TOML integers are signed.
    return str(value) if isinstance(value, int) and value >= 2**63 else value


def _without_nulls(values: Values) -> Values:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in values.items()
        if value is not None
    }
