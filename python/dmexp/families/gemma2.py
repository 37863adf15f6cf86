"""Gemma 2: Gemma with a norm before and after both halves of a layer."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table

LAYER_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, *LAYER_NORMS),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, tied=True)


FAMILY = Family("gemma2", build, tied=True, rope=True)
