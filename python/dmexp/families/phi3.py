"""Phi-3 and 4: fused q/k/v and fused gate/up projections, no biases."""

from __future__ import annotations

from ._config import Config
from ._decoder import decoder, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    queries = s.heads * s.head_dim
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **linear("self_attn.qkv_proj", queries + 2 * s.kv_heads * s.head_dim, s.hidden),
        **linear("self_attn.o_proj", s.hidden, queries),
        **linear("mlp.gate_up_proj", 2 * s.intermediate, s.hidden),
        **linear("mlp.down_proj", s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("phi3", build, rope=True)
