"""Granite MoE: experts stacked in one tensor, gate and up fused."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    count = config.count("num_local_experts")
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        "block_sparse_moe.router.layer.weight": (count, s.hidden),
        "block_sparse_moe.input_linear.weight": (count, 2 * s.intermediate, s.hidden),
        "block_sparse_moe.output_linear.weight": (count, s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("granitemoe", build, rope=True)
