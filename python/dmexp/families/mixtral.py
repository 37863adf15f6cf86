"""Mixtral: Mistral's attention, and experts behind a router in place of the MLP."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, experts, norms, sizes
from ._table import Block, Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    count = config.count("num_local_experts")
    expert: Block = {
        "w1.weight": (s.intermediate, s.hidden),
        "w2.weight": (s.hidden, s.intermediate),
        "w3.weight": (s.intermediate, s.hidden),
    }
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s),
        "block_sparse_moe.gate.weight": (count, s.hidden),
        **experts(table, count, expert, "block_sparse_moe.experts."),
    }
    decoder(config, table, s, every=layer, rotary=s.head_dim)


FAMILY = Family("mixtral", build, rope=True)
