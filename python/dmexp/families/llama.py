"""Llama and what shares its table: grouped-query attention, gated MLP, RMS norms."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table, *, tied: bool = False) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **gated_mlp(s.hidden, s.intermediate, bias=config.flag("mlp_bias", default=False)),
    }
    decoder(config, table, s, every=layer, tied=tied, rotary=s.head_dim)


FAMILY = Family("llama", build, rope=True)
