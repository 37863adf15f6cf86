"""MPNet: BERT's shape with one table of relative positions for all layers."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers")
    inner = config.count("intermediate_size")
    positions = config.count("max_position_embeddings")
    base = table.prefix(
        "", "mpnet.", probes=("embeddings.word_embeddings.weight", "encoder.layer.")
    )
    layer = {
        **linear("attention.attn.q", hidden, hidden, bias=True),
        **linear("attention.attn.k", hidden, hidden, bias=True),
        **linear("attention.attn.v", hidden, hidden, bias=True),
        **linear("attention.attn.o", hidden, hidden, bias=True),
        **norms(hidden, "attention.LayerNorm", "output.LayerNorm", bias=True),
        **linear("intermediate.dense", inner, hidden, bias=True),
        **linear("output.dense", hidden, inner, bias=True),
    }
    shared: dict[str, Dims] = {
        "embeddings.word_embeddings.weight": (config.count("vocab_size"), hidden),
        "embeddings.position_embeddings.weight": (positions, hidden),
        **norms(hidden, "embeddings.LayerNorm", bias=True),
        "encoder.relative_attention_bias.weight": (
            config.count("relative_attention_num_buckets", default=32),
            config.count("num_attention_heads"),
        ),
    }
    table.add(shared, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}encoder.layer.", [layer] * layers)
    table.allow({"embeddings.position_ids": (1, positions)}, base)
    table.allow_whole(linear("pooler.dense", hidden, hidden, bias=True), base)


FAMILY = Family("mpnet", build, tied=None)
