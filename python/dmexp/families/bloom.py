"""BLOOM: fused q/k/v per head, a norm on the embedding, no positions, tied by default."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    # The first checkpoints spell it in the second way.
    hidden = config.count("hidden_size", "n_embed")
    layers = config.count("n_layer", "num_hidden_layers")
    vocab = config.count("vocab_size")
    base = table.prefix("transformer.", "", probes=("word_embeddings.weight", "h."))
    layer = {
        **norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        **linear("self_attention.query_key_value", 3 * hidden, hidden, bias=True),
        **linear("self_attention.dense", hidden, hidden, bias=True),
        **linear("mlp.dense_h_to_4h", 4 * hidden, hidden, bias=True),
        **linear("mlp.dense_4h_to_h", hidden, 4 * hidden, bias=True),
    }
    table.add({"word_embeddings.weight": (vocab, hidden)}, base)
    table.add(norms(hidden, "word_embeddings_layernorm", "ln_f", bias=True), base)
    table.bound(layers * len(layer))
    table.layers(f"{base}h.", [layer] * layers)
    head: dict[str, Dims] = {"lm_head.weight": (vocab, hidden)}
    if is_tied(config, True) or not base:
        table.allow(head)
    else:
        table.add(head)


FAMILY = Family("bloom", build, tied=True, embedding="word_embeddings.weight")
