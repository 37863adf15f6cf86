"""What a config says about tensors, for every family that is known."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

from dmexp.errors import ShapeMismatchError
from dmexp.families import describe, find, known
from families_util import FIXTURES, fixture

# May be absent: derived buffers, and heads that are the embedding itself.
OPTIONAL = re.compile(r"rotary_emb\.inv_freq$|\.attn\.bias$|position_ids$")
HIDDEN = ("hidden_size", "n_embd", "dim", "d_model")
EMBEDDING = re.compile(r"(^|\.)(\w*embed\w*|wte|shared)\.weight$")


def language(config: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = config.get("text_config", config)
    return nested


@pytest.mark.parametrize("name", FIXTURES)
def test_a_checkpoint_is_described_by_its_own_config(name: str) -> None:
    config, tensors = fixture(name)
    verdict = describe(config, tensors.items())
    assert (verdict.status, verdict.conflicts) == ("yes", ()), [str(c) for c in verdict.conflicts]
    assert verdict.family is not None


@pytest.mark.parametrize("name", FIXTURES)
def test_halving_hidden_size_is_refused_and_names_the_embedding(name: str) -> None:
    config, tensors = fixture(name)
    inner = language(config)
    key = next(key for key in HIDDEN if key in inner)
    inner[key] //= 2
    verdict = describe(config, tensors.items())
    assert verdict.status == "no"
    conflicts = [c for c in verdict.conflicts if EMBEDDING.search(c.name)]
    assert conflicts
    for conflict in conflicts:
        assert conflict.problem == "shape"
        assert conflict.found == tensors[conflict.name]
        assert conflict.expected != conflict.found


@pytest.mark.parametrize("name", FIXTURES)
def test_each_absent_tensor_is_named_as_missing(name: str) -> None:
    config, tensors = fixture(name)
    for absent in tensors:
        rest = {n: dims for n, dims in tensors.items() if n != absent}
        verdict = describe(config, rest.items())
        if OPTIONAL.search(absent) or (absent == "lm_head.weight" and name == "gpt2-wrapped"):
            assert verdict.status == "yes", absent
        else:
            assert verdict.status == "no", absent
            missing = [c for c in verdict.conflicts if c.problem == "missing"]
            if name.endswith("classifier") and absent.startswith("score"):
                # Without its score it looks like a decoder that lost its head.
                assert [c.name for c in missing] == ["lm_head.weight"]
            else:
                assert [(c.name, c.expected) for c in missing] == [(absent, tensors[absent])]


@pytest.mark.parametrize("name", FIXTURES)
def test_each_wrong_dim_is_a_conflict_of_shape(name: str) -> None:
    config, tensors = fixture(name)
    for changed, dims in tensors.items():
        other = (*dims[:-1], dims[-1] + 1)
        verdict = describe(config, {**tensors, changed: other}.items())
        assert [(c.name, c.problem, c.expected, c.found) for c in verdict.conflicts] == [
            (changed, "shape", dims, other)
        ]


@pytest.mark.parametrize("name", FIXTURES)
def test_a_tensor_too_many_is_unexpected(name: str) -> None:
    config, tensors = fixture(name)
    verdict = describe(config, {**tensors, "model.layers.0.extra.weight": (3,)}.items())
    assert [(c.name, c.problem, c.found) for c in verdict.conflicts] == [
        ("model.layers.0.extra.weight", "unexpected", (3,))
    ]


@pytest.mark.parametrize("name", FIXTURES)
def test_order_does_not_matter(name: str) -> None:
    config, tensors = fixture(name)
    assert describe(config, reversed(tensors.items())).status == "yes"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, "the file has no config"),
        ({"d_model": 6}, "the config names no model_type"),
        ({"model_type": "my_model"}, 'model_type "my_model" is not known'),
        ({"model_type": 3}, "model_type 3 is not known"),
        ({"model_type": ["llama"]}, "model_type ['llama'] is not known"),
        ({"model_type": {"a": 1}}, "model_type {'a': 1} is not known"),
        ({"model_type": "../llama"}, 'model_type "../llama" is not known'),
    ],
)
def test_what_is_not_known_is_not_checked(config: dict[str, Any], reason: str) -> None:
    verdict = describe(config, [("w", (2,))])
    assert str(verdict) == f"not checked ({reason})"
    verdict.require()


def test_a_described_file_prints_its_family() -> None:
    config, tensors = fixture("llama-gqa")
    assert str(describe(config, tensors.items())) == "yes (llama)"


def test_require_lists_every_conflict_as_text_and_as_data() -> None:
    config, tensors = fixture("qwen3")
    del tensors["model.norm.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = (32, 48)
    tensors["extra"] = ()
    with pytest.raises(ShapeMismatchError) as caught:
        describe(config, tensors.items()).require("m.dmexp")
    error = caught.value
    assert error.code == "SHAPE_MISMATCH"
    assert error.path == "m.dmexp"
    assert error.family == "qwen3"
    assert error.conflicts == [
        {
            "name": "model.layers.0.mlp.up_proj.weight",
            "problem": "shape",
            "expected": [48, 32],
            "found": [32, 48],
        },
        {"name": "model.norm.weight", "problem": "missing", "expected": [32], "found": None},
        {"name": "extra", "problem": "unexpected", "expected": None, "found": []},
    ]
    for conflict in error.conflicts:
        assert conflict["name"] in str(error)


def test_a_long_list_of_conflicts_is_cut_in_the_text_only() -> None:
    config, _ = fixture("llama-gqa")
    with pytest.raises(ShapeMismatchError) as caught:
        describe(config, [(f"w{i}", (1,)) for i in range(500)]).require()
    assert len(caught.value.conflicts) == 521
    assert "and 321 more" in str(caught.value)


@pytest.mark.parametrize("name", ["llama-gqa", "gemma3", "gpt2-bare", "mamba", "nemotron_h"])
def test_each_size_that_is_absent_is_named(name: str) -> None:
    config, tensors = fixture(name)
    named = 0
    for key in list(config):
        rest = {k: v for k, v in config.items() if k not in (key, "model_type")}
        verdict = describe({"model_type": config["model_type"], **rest}, tensors.items())
        if not verdict.conflicts and verdict.status == "no":
            assert f'"{key}"' in verdict.reason
            named += 1
    assert named >= 3


def test_two_spellings_that_disagree_are_refused() -> None:
    config, tensors = fixture("qwen3moe")
    assert config["num_local_experts"] == 4
    verdict = describe({**config, "num_experts": 4}, tensors.items())
    assert verdict.status == "yes"
    verdict = describe({**config, "num_experts": 8}, tensors.items())
    assert verdict.status == "no"
    assert '"num_experts" is 8' in verdict.reason
    assert '"num_local_experts" is 4' in verdict.reason


def test_p56_head_dim_is_taken_from_the_config_and_not_recomputed() -> None:
    config, tensors = fixture("qwen3-p56")
    assert tensors["model.layers.0.self_attn.q_proj.weight"] == (4096, 2560)
    assert describe(config, tensors.items()).status == "yes"
    wrong = {**tensors, "model.layers.0.self_attn.q_proj.weight": (2560, 2560)}
    (conflict,) = describe(config, wrong.items()).conflicts
    assert conflict.expected == (4096, 2560)


def test_a_pooler_is_whole_or_absent() -> None:
    config, tensors = fixture("bert")
    without = {n: d for n, d in tensors.items() if not n.startswith("pooler.")}
    assert describe(config, without.items()).status == "yes"
    without["pooler.dense.weight"] = tensors["pooler.dense.weight"]
    (conflict,) = describe(config, without.items()).conflicts
    assert (conflict.name, conflict.problem) == ("pooler.dense.bias", "missing")


@pytest.mark.parametrize("name", ["qwen3next", "qwen35"])
def test_the_prediction_block_is_whole_or_absent(name: str) -> None:
    config, tensors = fixture(name)
    without = {n: d for n, d in tensors.items() if not n.startswith("mtp.")}
    assert describe(config, without.items()).status == "yes"
    config.pop("mtp_num_hidden_layers")
    config.pop("num_nextn_predict_layers")
    assert describe(config, tensors.items()).status == "yes"


def test_a_head_is_optional_only_where_the_config_says_tied() -> None:
    config, tensors = fixture("llama-gqa")
    del tensors["lm_head.weight"]
    (conflict,) = describe(config, tensors.items()).conflicts
    assert (conflict.name, conflict.problem) == ("lm_head.weight", "missing")
    assert describe({**config, "tie_word_embeddings": True}, tensors.items()).status == "yes"
    del config["tie_word_embeddings"]
    assert describe(config, tensors.items()).status == "no"


def test_a_nested_tie_flag_counts_and_must_agree_with_the_outer_one() -> None:
    config, tensors = fixture("qwen3_5-vision")
    outer = copy.deepcopy(config)
    del outer["tie_word_embeddings"]
    assert describe(outer, tensors.items()).status == "yes"
    inner = copy.deepcopy(config)
    del inner["text_config"]["tie_word_embeddings"]
    assert describe(inner, tensors.items()).status == "yes"
    config["text_config"]["tie_word_embeddings"] = False
    verdict = describe(config, tensors.items())
    assert verdict.status == "no"
    assert "text_config.tie_word_embeddings" in verdict.reason


def test_gemma4_in_the_older_spelling_of_its_head_widths() -> None:
    config, tensors = fixture("gemma4")
    del config["per_layer_config"]
    config["global_head_dim"] = 32
    assert describe(config, tensors.items()).status == "yes"
    config["global_head_dim"] = 64
    names = {c.name for c in describe(config, tensors.items()).conflicts}
    assert "model.layers.1.self_attn.q_proj.weight" in names
    assert not any(name.startswith("model.layers.0.") for name in names)


def test_every_known_type_loads_and_has_a_fixture() -> None:
    tested = {family.name for name in FIXTURES if (family := find(fixture(name)[0]))}
    for kind in known():
        family = find({"model_type": kind})
        assert family is not None
        assert family.name in tested, f"no fixture for {kind}"


def test_the_page_lists_every_known_type() -> None:
    page = (Path(__file__).parents[1] / "docs" / "families.md").read_text("utf-8")
    table = page[page.index("## Known families") : page.index("Rules that hold")]
    assert sorted(set(re.findall(r"`([\w-]+)`", table)) & set(known())) == known()


def test_a_dormouse_config_is_told_by_its_keys() -> None:
    verdict = describe({"d_model": 6, "engram_rows": 4}, [("norm.weight", (6,))])
    assert (verdict.status, verdict.family) == ("no", "dormouse")
