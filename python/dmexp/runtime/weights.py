"""From named tensors to a model: which tensor goes where, each shape checked, none left over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ShapeMismatchError
from ..families._check import compare
from .attention import Attention
from .config import LayerConfig, ModelConfig
from .linear import Linear, NarrowLinear, WideLinear, widened
from .mlp import ACTIVATIONS, GatedMlp
from .model import Layer, Model
from .norm import gain
from .rope import Rope, Rotary

Array = np.ndarray[Any, np.dtype[np.float32]]
Tensors = Mapping[str, np.ndarray[Any, Any]]

DERIVED_SUFFIX = "rotary_emb.inv_freq"
"""Tables that old checkpoints carry although the config gives them; the runtime has its own."""

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


def expected_tensors(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and dims of every tensor that the model uses, in the order in which it uses them."""
    hidden, inner = config.hidden_size, config.intermediate_size
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    expected: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, hidden)}
    for index in range(len(config.layers)):
        prefix = f"model.layers.{index}."
        for name in _norm_names(config):
            expected[f"{prefix}{name}.weight"] = (hidden,)
        for name, outputs, inputs, bias in (
            ("self_attn.q_proj", queries, hidden, config.qkv_bias),
            ("self_attn.k_proj", keys, hidden, config.qkv_bias),
            ("self_attn.v_proj", keys, hidden, config.qkv_bias),
            ("self_attn.o_proj", hidden, queries, config.output_bias),
            ("mlp.gate_proj", inner, hidden, config.mlp_bias),
            ("mlp.up_proj", inner, hidden, config.mlp_bias),
            ("mlp.down_proj", hidden, inner, config.mlp_bias),
        ):
            expected[f"{prefix}{name}.weight"] = (outputs, inputs)
            if bias:
                expected[f"{prefix}{name}.bias"] = (outputs,)
        if config.head_norms:
            expected[f"{prefix}self_attn.q_norm.weight"] = (config.head_dim,)
            expected[f"{prefix}self_attn.k_norm.weight"] = (config.head_dim,)
    expected["model.norm.weight"] = (hidden,)
    if not config.tied:
        expected[HEAD] = (config.vocab_size, hidden)
    return expected


def build_model(config: ModelConfig, tensors: Tensors, *, low_memory: bool = False) -> Model:
    """Arrange ``tensors`` (f32, bf16 or f16; the names of Hugging Face) into a model.

    f32 tensors are used where they are. Narrower ones are widened once, or with ``low_memory``
    kept and widened block by block on every use.

    Raises
    ------
    ShapeMismatchError
        A tensor that is missing, that has other dims, or that nothing would use; all are listed.
    """
    found = {
        name: tuple(array.shape)
        for name, array in tensors.items()
        if not name.endswith(DERIVED_SUFFIX)
    }
    if config.tied and HEAD in found:
        _require_same(tensors[HEAD], tensors[EMBEDDING])
        del found[HEAD]
    compare(config.model_type, expected_tensors(config), found).require()
    build = _Builder(config, tensors, low_memory)
    embedding = build.linear(EMBEDDING.removesuffix(".weight"))
    return Model(
        config,
        embedding,
        [build.layer(f"model.layers.{i}.", layer) for i, layer in enumerate(config.layers)],
        build.norm("model.norm", config.norm_offset),
        embedding if config.tied else build.linear(HEAD.removesuffix(".weight")),
    )


def _norm_names(config: ModelConfig) -> tuple[str, ...]:
    """The norms around attention and MLP. Gemma 2 gave an old name a new place."""
    if config.post_norms:
        return (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        )
    return ("input_layernorm", "post_attention_layernorm")


def _require_same(head: np.ndarray[Any, Any], embedding: np.ndarray[Any, Any]) -> None:
    if not np.array_equal(head, embedding):
        raise ShapeMismatchError(
            f"the config says tie_word_embeddings = true, yet {HEAD} differs from {EMBEDDING}: "
            "it is unclear which of them the model was trained with.",
            conflicts=[],
        )


class _Builder:
    """Makes the parts of a model; names and dims were checked before."""

    def __init__(self, config: ModelConfig, tensors: Tensors, low_memory: bool) -> None:
        self._config = config
        self._tensors = tensors
        self._low_memory = low_memory
        self._rotaries: dict[Rope, Rotary] = {}

    def linear(self, name: str, bias: bool = False) -> Linear:
        weight = self._tensors[f"{name}.weight"]
        added = widened(self._tensors[f"{name}.bias"]) if bias else None
        if self._low_memory and weight.dtype.itemsize < 4:
            return NarrowLinear(weight, added)
        return WideLinear(widened(weight), added)

    def norm(self, name: str, offset: float) -> Array:
        return gain(widened(self._tensors[f"{name}.weight"]), offset)

    def layer(self, prefix: str, layer: LayerConfig) -> Layer:
        config = self._config
        first, second, *post = [
            self.norm(prefix + name, config.norm_offset) for name in _norm_names(config)
        ]
        mlp = GatedMlp(
            self.linear(f"{prefix}mlp.gate_proj", config.mlp_bias),
            self.linear(f"{prefix}mlp.up_proj", config.mlp_bias),
            self.linear(f"{prefix}mlp.down_proj", config.mlp_bias),
            ACTIVATIONS[config.activation],
        )
        attention = self._attention(f"{prefix}self_attn.", layer)
        if post:
            return Layer(first, attention, second, post[0], mlp, post[1])
        return Layer(first, attention, None, second, mlp, None)

    def _attention(self, prefix: str, layer: LayerConfig) -> Attention:
        config = self._config
        norms = [
            self.norm(f"{prefix}{name}", config.norm_offset) if config.head_norms else None
            for name in ("q_norm", "k_norm")
        ]
        return Attention(
            query=self.linear(f"{prefix}q_proj", config.qkv_bias),
            key=self.linear(f"{prefix}k_proj", config.qkv_bias),
            value=self.linear(f"{prefix}v_proj", config.qkv_bias),
            output=self.linear(f"{prefix}o_proj", config.output_bias),
            query_norm=norms[0],
            key_norm=norms[1],
            eps=np.float32(config.eps),
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            scale=np.float32(config.attention_scale),
            soft_cap=None if config.attention_cap is None else np.float32(config.attention_cap),
            window=layer.window,
            rotary=self._rotary(layer.rope),
        )

    def _rotary(self, rope: Rope) -> Rotary:
        # Layers that turn alike share one table.
        if rope not in self._rotaries:
            self._rotaries[rope] = Rotary(rope, self._config.head_dim)
        return self._rotaries[rope]
