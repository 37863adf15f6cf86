"""Baichuan: Llama's table with queries, keys and values in one ``W_pack``."""

from __future__ import annotations

from ._config import Config
from ._decoder import decoder, gated_mlp, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **linear("self_attn.W_pack", 3 * s.hidden, s.hidden),
        **linear("self_attn.o_proj", s.hidden, s.hidden),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, rotary=s.head_dim)


# The larger ones use ALiBi in place of rotary embeddings, and the config does not say which.
FAMILY = Family("baichuan", build)
