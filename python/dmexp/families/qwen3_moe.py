"""Qwen 3 MoE: Qwen 3 attention, and experts stored one by one."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, head_norms, norms, sizes
from ._qwen import feed_forward, sparse_layers
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    bias = config.flag("attention_bias", default=False)
    common = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **head_norms(s),
    }
    sparse, dense = feed_forward(config, table, s, shared=False)
    blocks = (
        {**common, **(sparse if is_sparse else dense)}
        for is_sparse in sparse_layers(config, s.layers)
    )
    decoder(config, table, s, blocks)


FAMILY = Family("qwen3_moe", build, rope=True)
