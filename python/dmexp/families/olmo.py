"""OLMo 1: Llama's table without any norm's gain."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **attention(s, qkv_bias=bias, o_bias=bias),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, norm_name=None)


FAMILY = Family("olmo", build, rope=True)
