"""Qwen 3: per-head norms on queries and keys, and a head width of its own."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, head_norms, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **head_norms(s),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("qwen3", build, rope=True)
