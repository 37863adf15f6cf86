"""Gemma 4 text: two widths of heads, per-layer embeddings, shared keys and values, experts."""

from __future__ import annotations

from collections.abc import Iterator

from ._check import Dims
from ._config import Config, NotKnown, Undescribed
from ._decoder import Sizes, decoder, gated_mlp, linear, norms, sizes
from ._table import Block, Family, Table
from .gemma2 import LAYER_NORMS


def build(config: Config, table: Table) -> None:
    if config.outer is not None:
        for tower in ("vision_config", "audio_config"):
            if config.outer.has(tower) and table.has(f"model.{tower.split('_')[0]}_tower."):
                raise NotKnown(f'the tensors of "{tower}" are not known')
    s = sizes(config, head_dim=True)
    table.bound(s.layers)
    base = decoder(config, table, s, _layers(config, table, s), tied=True)
    table.allow(_shared_leftovers(config, table, s, base))
    per_layer = config.count("hidden_size_per_layer_input", default=256, zero=True)
    if per_layer:
        packed = s.layers * per_layer
        table.add(
            {
                "embed_tokens_per_layer.weight": (
                    config.count("vocab_size_per_layer_input", default=262144),
                    packed,
                ),
                "per_layer_model_projection.weight": (packed, s.hidden),
                "per_layer_projection_norm.weight": (per_layer,),
            },
            base,
        )


def _layers(config: Config, table: Table, s: Sizes) -> Iterator[Block]:
    bias = config.flag("attention_bias", default=False)
    per_layer = config.count("hidden_size_per_layer_input", default=256, zero=True)
    shared_from = _shared_from(config, s)
    wide = config.flag("use_double_wide_mlp", default=False)
    keys_are_values = config.flag("attention_k_eq_v", default=False)
    mixture = _experts(config, s) if config.flag("enable_moe_block", default=False) else {}
    for index, kind in enumerate(_layer_types(config, s.layers)):
        head_dim, kv_heads = _heads(config, s, index, kind)
        shared = index >= shared_from
        block: dict[str, Dims] = {
            **norms(s.hidden, *LAYER_NORMS),
            "layer_scalar": (1,),
            "self_attn.q_norm.weight": (head_dim,),
            **linear("self_attn.q_proj", s.heads * head_dim, s.hidden, bias),
            **linear("self_attn.o_proj", s.hidden, s.heads * head_dim, bias),
            **gated_mlp(s.hidden, s.intermediate * (2 if wide and shared else 1)),
            **mixture,
        }
        if not shared:
            block |= _keys_and_values(
                s, head_dim, kv_heads, bias, values=kind == SLIDING or not keys_are_values
            )
        if per_layer:
            block |= {
                "per_layer_input_gate.weight": (per_layer, s.hidden),
                "per_layer_projection.weight": (s.hidden, per_layer),
                "post_per_layer_input_norm.weight": (s.hidden,),
            }
        yield block


SLIDING = "sliding_attention"


def _keys_and_values(
    s: Sizes, head_dim: int, kv_heads: int, bias: bool, *, values: bool
) -> dict[str, Dims]:
    block: dict[str, Dims] = {"self_attn.k_norm.weight": (head_dim,)}
    block |= linear("self_attn.k_proj", kv_heads * head_dim, s.hidden, bias)
    if values:
        block |= linear("self_attn.v_proj", kv_heads * head_dim, s.hidden, bias)
    return block


def _shared_from(config: Config, s: Sizes) -> int:
    """The first layer that takes keys and values from an earlier one."""
    shared = config.count("num_kv_shared_layers", default=0, zero=True)
    if shared >= s.layers:
        raise config.fail("num_kv_shared_layers", f"less than num_hidden_layers ({s.layers})")
    return s.layers - shared


def _shared_leftovers(config: Config, table: Table, s: Sizes, base: str) -> dict[str, Dims]:
    """Keys and values that published files still hold for layers that no longer use them."""
    bias = config.flag("attention_bias", default=False)
    start = _shared_from(config, s)
    left: dict[str, Dims] = {}
    for index, kind in enumerate(_layer_types(config, s.layers)[start:], start):
        head_dim, kv_heads = _heads(config, s, index, kind)
        block = _keys_and_values(s, head_dim, kv_heads, bias, values=True)
        left |= {f"{base}layers.{index}.{name}": dims for name, dims in block.items()}
    return left


def _heads(config: Config, s: Sizes, index: int, kind: str) -> tuple[int, int]:
    """Head width and key/value heads of one layer, in the newer or in the older spelling."""
    per_layer = config.section("per_layer_config")
    if per_layer is not None:
        own = per_layer.section(str(index))
        if own is None:
            return s.head_dim, s.kv_heads
        return (
            own.count("head_dim", default=s.head_dim),
            own.count("num_key_value_heads", default=s.kv_heads),
        )
    if kind == SLIDING:
        return s.head_dim, s.kv_heads
    kv_heads = s.kv_heads
    if config.flag("attention_k_eq_v", default=False):
        kv_heads = config.count("num_global_key_value_heads", default=kv_heads)
    return config.count("global_head_dim", default=512), kv_heads


def _layer_types(config: Config, layers: int) -> list[str]:
    types = config.texts("layer_types")
    if types is None:
        types = ["full_attention" if (i + 1) % 6 == 0 else SLIDING for i in range(layers)]
        types[-1] = "full_attention"
    if len(types) != layers:
        raise Undescribed(
            f'"layer_types" has {len(types)} entries in the config, '
            f'"num_hidden_layers" says {layers}'
        )
    if not set(types) <= {SLIDING, "full_attention"}:
        raise config.fail("layer_types", f'"{SLIDING}" and "full_attention" only')
    return types


def _experts(config: Config, s: Sizes) -> dict[str, Dims]:
    count = config.count("num_experts")
    width = config.count("moe_intermediate_size")
    return {
        "router.proj.weight": (count, s.hidden),
        "router.scale": (s.hidden,),
        "router.per_expert_scale": (count,),
        "experts.gate_up_proj": (count, 2 * width, s.hidden),
        "experts.down_proj": (count, s.hidden, width),
        **norms(
            s.hidden,
            "post_feedforward_layernorm_1",
            "post_feedforward_layernorm_2",
            "pre_feedforward_layernorm_2",
        ),
    }


FAMILY = Family(
    "gemma4",
    build,
    tied=True,
    rope=True,
    text_defaults={
        "vocab_size": 262144,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
    },
)
