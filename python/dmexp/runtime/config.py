"""What a model computes, read from the config that travels in a file's header."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import FormatError, UnsupportedError
from .fields import Fields
from .mlp import ACTIVATIONS
from .rope import LAYER_KINDS, Rope, read_rope

LARGEST_LAYERS = 4096

_NOT_HONOURED = (
    ("num_experts", "the runtime has no mixture of experts"),
    ("num_local_experts", "the runtime has no mixture of experts"),
    ("n_routed_experts", "the runtime has no mixture of experts"),
    ("use_bidirectional_attention", "the runtime looks back only"),
    ("quantization_config", "the runtime reads plain weights"),
)
"""Keys that change what is computed, whatever the family; absent, null, 0 and false are fine."""


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """What may differ from layer to layer."""

    window: int | None
    rope: Rope


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A dense decoder. Sizes count values; `attention_scale` multiplies query · key."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    activation: str
    attention_scale: float
    layers: tuple[LayerConfig, ...]
    max_positions: int
    tied: bool
    eos_ids: tuple[int, ...]
    bos_id: int | None
    norm_offset: float = 0.0
    """1 where the file stores a norm's gain less one."""
    post_norms: bool = False
    """Whether a second norm follows attention and MLP before the residual sum."""
    head_norms: bool = False
    """Whether queries and keys are normalised per head."""
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    embedding_scale: float = 1.0
    attention_cap: float | None = None
    logit_cap: float | None = None


def read_config(config: Mapping[str, Any]) -> ModelConfig:
    """Read a config with Hugging Face keys.

    Raises
    ------
    UnsupportedError
        For a ``model_type`` or a feature that the runtime does not have, by name.
    FormatError
        For a key that is missing or mistyped.
    """
    fields = Fields(config)
    for key, why in _NOT_HONOURED:
        if fields.raw(key):
            fields.refuse(key, why)
    if fields.raw("partial_rotary_factor") not in (None, 1):
        fields.refuse("partial_rotary_factor", "the runtime turns all of a head")
    for kind in fields.texts("layer_types") or ():
        if kind not in LAYER_KINDS:
            raise UnsupportedError(
                f"config key 'layer_types' holds {kind!r}: the runtime runs full and sliding "
                "attention, no hybrid with other layers.",
                key="layer_types",
                found=kind,
                expected=list(LAYER_KINDS),
            )
    if "model_type" not in fields:
        raise UnsupportedError(
            "the config has no 'model_type', so the runtime does not know what the weights "
            f"compute. It runs: {', '.join(FAMILIES)}.",
            key="model_type",
            found=None,
            expected=list(FAMILIES),
        )
    model_type = fields.text("model_type")
    family = FAMILIES.get(model_type)
    if family is None:
        fields.refuse("model_type", f"the runtime runs {', '.join(FAMILIES)}", list(FAMILIES))
    return family(fields)


def _llama(fields: Fields, **family: Any) -> ModelConfig:
    """The shape that all families share; ``family`` overrides what differs."""
    heads = fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", heads)
    hidden_size = fields.count("hidden_size")
    if heads % kv_heads:
        fields.refuse("num_key_value_heads", f"it does not divide the {heads} query heads")
    head_dim = fields.count(
        "head_dim", family.pop("head_dim", None) or max(1, hidden_size // heads)
    )
    if head_dim % 2:
        fields.refuse("head_dim", "rotary embedding turns pairs, so it has to be even")
    bias = fields.flag("attention_bias", False)
    bos_ids = fields.ids("bos_token_id")
    shape: dict[str, Any] = {
        "model_type": fields.text("model_type"),
        "vocab_size": fields.count("vocab_size"),
        "hidden_size": hidden_size,
        "intermediate_size": fields.count("intermediate_size"),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "eps": fields.number("rms_norm_eps"),
        "activation": family.pop("activation", None) or _activation(fields, "hidden_act", "silu"),
        "attention_scale": head_dim**-0.5,
        "layers": (),
        "max_positions": fields.count("max_position_embeddings"),
        "tied": fields.flag("tie_word_embeddings", family.pop("tied", False)),
        "eos_ids": fields.ids("eos_token_id"),
        "bos_id": bos_ids[0] if bos_ids else None,
        "qkv_bias": bias,
        "output_bias": bias,
        "mlp_bias": fields.flag("mlp_bias", False),
    }
    shape.update(family)
    if not shape["layers"]:
        shape["layers"] = _layers(fields, window=None, sliding=lambda index: False)
    return ModelConfig(**shape)


def _mistral(fields: Fields) -> ModelConfig:
    window = _window(fields)
    return _llama(fields, layers=_layers(fields, window, lambda index: window is not None))


def _qwen2(fields: Fields) -> ModelConfig:
    return _llama(fields, qkv_bias=True, output_bias=False, layers=_qwen_layers(fields))


def _qwen3(fields: Fields) -> ModelConfig:
    return _llama(fields, head_norms=True, head_dim=128, layers=_qwen_layers(fields))


def _qwen_layers(fields: Fields) -> tuple[LayerConfig, ...]:
    window = _window(fields) if fields.flag("use_sliding_window", False) else None
    if window is None or "layer_types" in fields:
        return _layers(fields, window, lambda index: False)
    full = fields.count("max_window_layers", least=0)
    return _layers(fields, window, lambda index: index >= full)


def _gemma(fields: Fields) -> ModelConfig:
    # The first Gemma configs say "gelu" and mean its tanh form.
    old = fields.raw("hidden_activation") is None and fields.raw("hidden_act") == "gelu"
    return _llama(fields, **_gemma_shape(fields, "gelu_pytorch_tanh" if old else None))


def _gemma2(fields: Fields) -> ModelConfig:
    layers = _layers(fields, _window(fields), lambda index: index % 2 == 0)
    return _llama(fields, **_gemma_shape(fields), **_gemma2_shape(fields), layers=layers)


def _gemma3(fields: Fields) -> ModelConfig:
    every = fields.count(
        "sliding_window_pattern"
        if "sliding_window_pattern" in fields
        else "_sliding_window_pattern",
        6,
    )
    layers = _layers(
        fields,
        _window(fields),
        lambda index: (index + 1) % every != 0,
        full=read_rope(fields, "full_attention", fields.number("rope_theta", 1e6)),
        local=read_rope(
            fields,
            "sliding_attention",
            fields.number("rope_local_base_freq", 1e4),
            scaled=False,
        ),
    )
    return _llama(
        fields,
        **_gemma_shape(fields),
        **_gemma2_shape(fields),
        head_norms=True,
        layers=layers,
    )


def _gemma_shape(fields: Fields, activation: str | None = None) -> dict[str, Any]:
    key = "hidden_activation" if "hidden_activation" in fields else "hidden_act"
    return {
        "norm_offset": 1.0,
        "embedding_scale": math.sqrt(fields.count("hidden_size")),
        "activation": activation or _activation(fields, key, "gelu_pytorch_tanh"),
        "head_dim": 256,
        "tied": True,
    }


def _gemma2_shape(fields: Fields) -> dict[str, Any]:
    return {
        "post_norms": True,
        "attention_scale": fields.number("query_pre_attn_scalar") ** -0.5,
        "attention_cap": fields.optional_number("attn_logit_softcapping"),
        "logit_cap": fields.optional_number("final_logit_softcapping"),
    }


FAMILIES: dict[str, Callable[[Fields], ModelConfig]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}
"""By ``model_type``; the order in which messages list them."""


def _activation(fields: Fields, key: str, default: str) -> str:
    name = fields.text(key, default)
    if name not in ACTIVATIONS:
        fields.refuse(key, f"the runtime knows {', '.join(ACTIVATIONS)}", list(ACTIVATIONS))
    return name


def _window(fields: Fields) -> int | None:
    return fields.count("sliding_window") if "sliding_window" in fields else None


def _layers(
    fields: Fields,
    window: int | None,
    sliding: Callable[[int], bool],
    full: Rope | None = None,
    local: Rope | None = None,
) -> tuple[LayerConfig, ...]:
    """One entry a layer. ``layer_types`` decides where the config has it, else ``sliding``."""
    count = fields.count("num_hidden_layers")
    if count > LARGEST_LAYERS:
        fields.refuse("num_hidden_layers", f"the runtime runs {LARGEST_LAYERS} at most")
    kinds = fields.texts("layer_types")
    if kinds is None:
        kinds = ["sliding_attention" if sliding(i) else "full_attention" for i in range(count)]
    if len(kinds) != count:
        raise FormatError(
            f"config key 'layer_types' has {len(kinds)} entries, num_hidden_layers is {count}.",
            key="layer_types",
        )
    if "sliding_attention" in kinds and window is None:
        fields.refuse("sliding_window", "layer_types calls for sliding attention")
    full = full or read_rope(fields, "full_attention", fields.number("rope_theta", 1e4))
    local = local or full
    return tuple(
        LayerConfig(window, local) if kind == "sliding_attention" else LayerConfig(None, full)
        for kind in kinds
    )
