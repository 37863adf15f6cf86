"""Cohere Command-R: attention and MLP in parallel behind one norm, tied head."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, "input_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **gated_mlp(s.hidden, s.intermediate),
    }
    if config.flag("use_qk_norm", default=False):
        layer["self_attn.q_norm.weight"] = (s.heads, s.head_dim)
        layer["self_attn.k_norm.weight"] = (s.kv_heads, s.head_dim)
    decoder(config, table, s, every=layer, tied=True)


FAMILY = Family("cohere", build, tied=True, rope=True)
