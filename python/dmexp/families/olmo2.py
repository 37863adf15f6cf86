"""OLMo 2: norms after each half of a layer, and over all queries and all keys at once."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "post_attention_layernorm", "post_feedforward_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        "self_attn.q_norm.weight": (s.heads * s.head_dim,),
        "self_attn.k_norm.weight": (s.kv_heads * s.head_dim,),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("olmo2", build, rope=True)
