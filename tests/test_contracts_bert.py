"""BERT, RoBERTa and DistilBERT share one architecture string; the tensors tell them apart."""

from __future__ import annotations

import pytest

from dmexp import contracts
from dmexp.families import describe
from dmexp.loaders.gguf.config import build_config

Dims = tuple[int, ...]
HIDDEN, INNER, VOCAB, POSITIONS = 12, 20, 30, 16
METADATA = {
    "bert.block_count": 1,
    "bert.context_length": POSITIONS,
    "bert.embedding_length": HIDDEN,
    "bert.feed_forward_length": INNER,
    "bert.attention.head_count": 2,
    "bert.attention.layer_norm_epsilon": 1e-12,
}
LAYER: dict[str, Dims] = {
    **{f"attn_{part}": (HIDDEN, HIDDEN) for part in ("q", "k", "v", "output")},
    "ffn_up": (INNER, HIDDEN),
    "ffn_down": (HIDDEN, INNER),
    "attn_output_norm": (HIDDEN,),
    "layer_output_norm": (HIDDEN,),
}


def file(*, types: bool = True, **head: Dims) -> dict[str, Dims]:
    tensors: dict[str, Dims] = {
        "token_embd.weight": (VOCAB, HIDDEN),
        "position_embd.weight": (POSITIONS, HIDDEN),
        "token_embd_norm.weight": (HIDDEN,),
        "token_embd_norm.bias": (HIDDEN,),
    }
    if types:
        tensors["token_types.weight"] = (2, HIDDEN)
    for name, dims in LAYER.items():
        tensors |= {f"blk.0.{name}.weight": dims, f"blk.0.{name}.bias": dims[:1]}
    return tensors | {name.replace("_", "."): dims for name, dims in head.items()}


OUTPUT: dict[str, Dims] = {"cls_output_weight": (3, HIDDEN), "cls_output_bias": (3,)}
DENSE: dict[str, Dims] = {"cls_weight": (HIDDEN, HIDDEN), "cls_bias": (HIDDEN,)}
SINGLE: dict[str, Dims] = {"cls_weight": (3, HIDDEN), "cls_bias": (3,)}


@pytest.mark.parametrize(
    ("tensors", "model_type", "names"),
    [
        (file(), "bert", {"encoder.layer.0.attention.self.query.weight"}),
        (file(**OUTPUT), "bert", {"classifier.weight", "classifier.bias"}),
        (file(**SINGLE), "bert", {"classifier.weight", "classifier.bias"}),
        (
            file(**DENSE, **OUTPUT),
            "roberta",
            {"classifier.dense.weight", "classifier.out_proj.weight"},
        ),
        (file(types=False), "distilbert", {"transformer.layer.0.attention.q_lin.bias"}),
        (
            file(types=False, **DENSE, **OUTPUT),
            "distilbert",
            {"pre_classifier.weight", "classifier.weight"},
        ),
    ],
    ids=["bert", "labelled", "unlabelled", "roberta", "distilbert", "distilbert-labelled"],
)
def test_names_and_config_fit_together(
    tensors: dict[str, Dims], model_type: str, names: set[str]
) -> None:
    made = contracts.plan("bert", METADATA, tensors)
    found = [(output.name, output.dims) for output in made.outputs]
    assert names <= {name for name, _ in found}
    config, _ = build_config("bert", METADATA, tensors)
    assert config["model_type"] == model_type
    verdict = describe(config, found)
    assert verdict.status == "yes", [str(conflict) for conflict in verdict.conflicts]


def test_a_classifier_keeps_the_names_of_its_labels() -> None:
    metadata = METADATA | {"bert.classifier.output_labels": ["no", "maybe", "yes"]}
    config, _ = build_config("bert", metadata, file(**OUTPUT))
    assert config["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}
    assert config["architectures"] == ["BertForSequenceClassification"]
    config, _ = build_config("bert", METADATA, file(**OUTPUT))
    assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}


def test_shared_experts_of_laguna_have_the_name_of_its_checkpoints() -> None:
    tensors = {"blk.1.ffn_up_shexp.weight": (6, 4)}
    (output,) = contracts.plan("laguna", {"laguna.block_count": 2}, tensors).outputs
    assert output.name == "model.layers.1.mlp.shared_expert.up_proj.weight"
