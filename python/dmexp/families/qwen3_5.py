"""Qwen 3.5: gated delta nets with separate projections, gated full attention, MTP, vision."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import decoder, gated_mlp, linear, norms, sizes
from ._qwen import gated_attention, layer_types, prediction_block
from ._table import Family, Table
from ._vision import QWEN_DEFAULTS, qwen


def delta_net(config: Config, hidden: int) -> dict[str, Dims]:
    value_heads = config.count("linear_num_value_heads")
    value_dim = config.count("linear_value_head_dim")
    keys = config.count("linear_num_key_heads") * config.count("linear_key_head_dim")
    values = value_heads * value_dim
    return {
        "linear_attn.A_log": (value_heads,),
        "linear_attn.dt_bias": (value_heads,),
        "linear_attn.conv1d.weight": (
            2 * keys + values,
            1,
            config.count("linear_conv_kernel_dim"),
        ),
        **linear("linear_attn.in_proj_qkv", 2 * keys + values, hidden),
        **linear("linear_attn.in_proj_z", values, hidden),
        **linear("linear_attn.in_proj_a", value_heads, hidden),
        **linear("linear_attn.in_proj_b", value_heads, hidden),
        "linear_attn.norm.weight": (value_dim,),
        **linear("linear_attn.out_proj", hidden, values),
    }


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    table.bound(s.layers)
    common = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **gated_mlp(s.hidden, s.intermediate),
    }
    mixers = {
        "linear_attention": delta_net(config, s.hidden),
        "full_attention": gated_attention(config, s),
    }
    blocks = ({**common, **mixers[kind]} for kind in layer_types(config, s.layers))
    base = decoder(config, table, s, blocks)
    prediction_block(table, config, s, {**common, **mixers["full_attention"]})
    vision = config.outer and config.outer.section("vision_config", QWEN_DEFAULTS)
    if vision:
        around = "model." if base.startswith("model.language_model.") else ""
        table.allow_whole(qwen(table, vision), f"{around}visual.")


FAMILY = Family(
    "qwen3_5",
    build,
    rope=True,
    text_defaults={
        "vocab_size": 248320,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
    },
)
