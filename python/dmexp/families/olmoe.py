"""OLMoE: experts in every layer, norms over all queries and all keys at once."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, experts, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    count = config.count("num_experts", "num_local_experts")
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        "self_attn.q_norm.weight": (s.heads * s.head_dim,),
        "self_attn.k_norm.weight": (s.kv_heads * s.head_dim,),
        "mlp.gate.weight": (count, s.hidden),
        **experts(table, count, gated_mlp(s.hidden, s.intermediate, prefix="")),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("olmoe", build, rope=True)
