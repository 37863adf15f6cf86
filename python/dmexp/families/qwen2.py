"""Qwen 2 and 2.5: Llama's table, always with biases on queries, keys and values."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=True),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, rotary=s.head_dim)


FAMILY = Family("qwen2", build, rope=True)
