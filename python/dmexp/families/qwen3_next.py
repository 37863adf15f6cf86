"""Qwen3-Next: gated delta nets with fused projections, gated full attention, experts, MTP."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import decoder, linear, norms, sizes
from ._qwen import feed_forward, gated_attention, layer_types, prediction_block, sparse_layers
from ._table import Family, Table


def delta_net(config: Config, hidden: int) -> dict[str, Dims]:
    key_heads = config.count("linear_num_key_heads")
    value_heads = config.count("linear_num_value_heads")
    keys = key_heads * config.count("linear_key_head_dim")
    value_dim = config.count("linear_value_head_dim")
    values = value_heads * value_dim
    return {
        "linear_attn.A_log": (value_heads,),
        "linear_attn.dt_bias": (value_heads,),
        "linear_attn.conv1d.weight": (
            2 * keys + values,
            1,
            config.count("linear_conv_kernel_dim"),
        ),
        **linear("linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden),
        **linear("linear_attn.in_proj_ba", 2 * value_heads, hidden),
        "linear_attn.norm.weight": (value_dim,),
        **linear("linear_attn.out_proj", hidden, values),
    }


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    table.bound(s.layers)
    common = norms(s.hidden, "input_layernorm", "post_attention_layernorm")
    mixers = {
        "linear_attention": delta_net(config, s.hidden),
        "full_attention": gated_attention(config, s),
    }
    sparse, dense = feed_forward(config, table, s, shared=True)
    blocks = (
        {**common, **mixers[kind], **(sparse if is_sparse else dense)}
        for kind, is_sparse in zip(
            layer_types(config, s.layers), sparse_layers(config, s.layers), strict=True
        )
    )
    decoder(config, table, s, blocks)
    prediction_block(table, config, s, {**common, **mixers["full_attention"], **sparse})


FAMILY = Family("qwen3_next", build, rope=True)
