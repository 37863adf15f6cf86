"""RoBERTa, XLM-R and CamemBERT: BERT's table with heads of their own."""

from __future__ import annotations

from ._config import Config
from ._decoder import labels, linear, norms
from ._table import Family, Table
from .bert import build_encoder


def build(config: Config, table: Table) -> None:
    hidden, vocab = build_encoder(config, table, wrapper="roberta.")
    table.allow_whole(
        {
            "bias": (vocab,),
            **linear("dense", hidden, hidden, bias=True),
            **norms(hidden, "layer_norm", bias=True),
        },
        "lm_head.",
    )
    # Copies of the word embedding and of the bias above.
    table.allow({"decoder.weight": (vocab, hidden), "decoder.bias": (vocab,)}, "lm_head.")
    table.allow_whole(linear("qa_outputs", 2, hidden, bias=True))
    if table.has("classifier.dense."):
        table.allow_whole(
            {
                **linear("dense", hidden, hidden, bias=True),
                **linear("out_proj", labels(config), hidden, bias=True),
            },
            "classifier.",
        )
    elif table.has("classifier."):
        table.allow_whole(linear("classifier", labels(config), hidden, bias=True))


FAMILY = Family("roberta", build, tied=None)
