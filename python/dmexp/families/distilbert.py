"""DistilBERT: BERT in half as many layers, with names of its own and no token types."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import labels, linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden = config.count("dim", "hidden_size")
    layers = config.count("n_layers", "num_hidden_layers")
    inner = config.count("hidden_dim")
    vocab = config.count("vocab_size")
    positions = config.count("max_position_embeddings")
    base = table.prefix(
        "", "distilbert.", probes=("embeddings.word_embeddings.weight", "transformer.layer.")
    )
    layer = {
        **linear("attention.q_lin", hidden, hidden, bias=True),
        **linear("attention.k_lin", hidden, hidden, bias=True),
        **linear("attention.v_lin", hidden, hidden, bias=True),
        **linear("attention.out_lin", hidden, hidden, bias=True),
        **norms(hidden, "sa_layer_norm", "output_layer_norm", bias=True),
        **linear("ffn.lin1", inner, hidden, bias=True),
        **linear("ffn.lin2", hidden, inner, bias=True),
    }
    embeddings: dict[str, Dims] = {
        "embeddings.word_embeddings.weight": (vocab, hidden),
        "embeddings.position_embeddings.weight": (positions, hidden),
        **norms(hidden, "embeddings.LayerNorm", bias=True),
    }
    table.add(embeddings, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}transformer.layer.", [layer] * layers)
    table.allow_whole(
        {
            **linear("vocab_transform", hidden, hidden, bias=True),
            **norms(hidden, "vocab_layer_norm", bias=True),
            "vocab_projector.bias": (vocab,),
        }
    )
    table.allow({"vocab_projector.weight": (vocab, hidden)})
    table.allow_whole(linear("qa_outputs", 2, hidden, bias=True))
    table.allow_whole(linear("pre_classifier", hidden, hidden, bias=True))
    if table.has("classifier."):
        table.allow_whole(linear("classifier", labels(config), hidden, bias=True))


FAMILY = Family("distilbert", build, tied=None)
