"""Gemma: a head width of its own, tied to the embedding unless the config says otherwise."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, tied=True, rotary=s.head_dim)


FAMILY = Family("gemma", build, tied=True, rope=True)
