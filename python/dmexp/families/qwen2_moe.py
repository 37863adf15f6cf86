"""Qwen 2 MoE: Qwen 2 attention, experts stored one by one, and a gated shared expert."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, norms, sizes
from ._qwen import feed_forward, sparse_layers
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    common = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=config.flag("qkv_bias", default=True)),
    }
    sparse, dense = feed_forward(config, table, s, shared=True)
    blocks = (
        {**common, **(sparse if is_sparse else dense)}
        for is_sparse in sparse_layers(config, s.layers)
    )
    decoder(config, table, s, blocks)


FAMILY = Family("qwen2_moe", build, rope=True)
