"""Nemotron: plain MLPs, and layer norms whose stored gain lacks the 1 that is added to it."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, norms, plain_mlp, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **plain_mlp(s.hidden, s.intermediate, bias=config.flag("mlp_bias", default=False)),
    }
    decoder(config, table, s, every=layer, norm_bias=True)


FAMILY = Family("nemotron", build, rope=True)
