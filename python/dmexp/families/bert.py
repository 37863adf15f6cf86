"""BERT and its kin: an encoder with learned positions; pooler and heads are optional."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import labels, linear
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden, vocab = build_encoder(config, table, wrapper="bert.")
    heads(config, table, hidden, vocab)


def build_encoder(config: Config, table: Table, *, wrapper: str) -> tuple[int, int]:
    """Everything but the heads. Returns the hidden size and the size of the vocabulary."""
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers")
    inner = config.count("intermediate_size")
    vocab = config.count("vocab_size")
    positions = config.count("max_position_embeddings")
    base = table.prefix("", wrapper, probes=("embeddings.word_embeddings.weight", "encoder.layer."))

    def layer_norm(name: str) -> dict[str, Dims]:
        return _layer_norm(table, name, hidden)

    layer = {
        **linear("attention.self.query", hidden, hidden, bias=True),
        **linear("attention.self.key", hidden, hidden, bias=True),
        **linear("attention.self.value", hidden, hidden, bias=True),
        **linear("attention.output.dense", hidden, hidden, bias=True),
        **layer_norm("attention.output.LayerNorm"),
        **linear("intermediate.dense", inner, hidden, bias=True),
        **linear("output.dense", hidden, inner, bias=True),
        **layer_norm("output.LayerNorm"),
    }
    table.add(
        {
            "embeddings.word_embeddings.weight": (vocab, hidden),
            "embeddings.position_embeddings.weight": (positions, hidden),
            "embeddings.token_type_embeddings.weight": (config.count("type_vocab_size"), hidden),
            **layer_norm("embeddings.LayerNorm"),
        },
        base,
    )
    table.bound(layers * len(layer))
    table.layers(f"{base}encoder.layer.", [layer] * layers)
    # An index table that older releases saved as a buffer.
    table.allow({"embeddings.position_ids": (1, positions)}, base)
    table.allow_whole(linear("pooler.dense", hidden, hidden, bias=True), base)
    return hidden, vocab


def _layer_norm(table: Table, name: str, hidden: int) -> dict[str, Dims]:
    # Checkpoints converted from TensorFlow keep its names for the two halves.
    old = table.ends("LayerNorm.gamma")
    gain, shift = ("gamma", "beta") if old else ("weight", "bias")
    return {f"{name}.{gain}": (hidden,), f"{name}.{shift}": (hidden,)}


def heads(config: Config, table: Table, hidden: int, vocab: int) -> None:
    """Pre-training and task heads, each whole or absent."""
    table.allow_whole(
        {
            "bias": (vocab,),
            **linear("transform.dense", hidden, hidden, bias=True),
            **_layer_norm(table, "transform.LayerNorm", hidden),
        },
        "cls.predictions.",
    )
    # Copies of the word embedding and of the bias above.
    table.allow({"decoder.weight": (vocab, hidden), "decoder.bias": (vocab,)}, "cls.predictions.")
    table.allow_whole(linear("cls.seq_relationship", 2, hidden, bias=True))
    table.allow_whole(linear("qa_outputs", 2, hidden, bias=True))
    if table.has("classifier."):
        table.allow_whole(linear("classifier", labels(config), hidden, bias=True))


FAMILY = Family("bert", build, tied=None, embedding="embeddings.word_embeddings.weight")
