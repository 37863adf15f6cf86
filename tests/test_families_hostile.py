"""Configs that nobody wrote by mistake: a verdict every time, quickly, and never an exception."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmexp.families import describe
from families_util import FIXTURES, fixture

JUNK = [
    0,
    -1,
    10**9,
    2**40,
    10**30,
    10**5000,
    1.5,
    16.0,
    float("nan"),
    float("inf"),
    "16",
    "",
    True,
    [],
    [16],
    ["full_attention"] * 3,
    {},
    {"a": 1},
    [[]],
    "M" * 1000,
]


@pytest.mark.parametrize("name", FIXTURES)
def test_junk_under_each_key_gives_a_verdict(name: str) -> None:
    config, tensors = fixture(name)
    inner = config.get("text_config", config)
    started = time.perf_counter()
    for key in list(inner):
        before = inner[key]
        for junk in JUNK:
            inner[key] = junk
            assert describe(config, tensors.items()).status in ("yes", "no", "not checked")
        inner[key] = before
    assert describe(config, tensors.items()).status == "yes"
    assert time.perf_counter() - started < 60


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("llama-gqa", "num_hidden_layers"),
        ("mixtral", "num_local_experts"),
        ("qwen3moe", "num_local_experts"),
        ("qwen3next", "num_hidden_layers"),
        ("qwen3next", "num_experts"),
        ("qwen35", "mtp_num_hidden_layers"),
        ("gpt2-bare", "n_layer"),
        ("bert", "num_hidden_layers"),
        ("mamba", "num_hidden_layers"),
        ("lfm2", "num_hidden_layers"),
        ("gemma4", "num_hidden_layers"),
        ("gptneox", "num_hidden_layers"),
        ("nemotron_h-moe", "n_routed_experts"),
    ],
)
def test_a_count_of_a_thousand_million_costs_nothing(name: str, key: str) -> None:
    config, tensors = fixture(name)
    config.pop("layer_types", None)
    if key == "mtp_num_hidden_layers":
        config.pop("num_nextn_predict_layers")
    if key == "num_local_experts":
        config.pop("num_experts", None)
    config[key] = 10**9
    started = time.perf_counter()
    verdict = describe(config, tensors.items())
    assert time.perf_counter() - started < 0.5
    assert verdict.status == "no"
    assert f"the file has {len(tensors)}" in verdict.reason


@pytest.mark.parametrize("nested", [None, 3, "x", [], {}, {"hidden_size": "x"}])
def test_a_nested_table_of_another_kind_gives_a_verdict(nested: Any) -> None:
    for kind in ("gemma3", "gemma4", "qwen3_5"):
        for outer in ({}, {"vision_config": nested}):
            config = {"model_type": kind, "text_config": nested, **outer}
            assert describe(config, [("w", (1,))]).status == "no"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(data=st.data())
def test_any_value_under_any_key_gives_a_verdict(data: st.DataObject) -> None:
    config, tensors = fixture(data.draw(st.sampled_from(FIXTURES)))
    inner = config.get("text_config", config)
    for key in data.draw(st.lists(st.sampled_from(sorted(inner)), max_size=4)):
        inner[key] = data.draw(values)
    verdict = describe(config, tensors.items())
    assert verdict.reason
    assert verdict.status in ("yes", "no", "not checked")


def test_a_file_without_tensors_is_described_by_no_known_family() -> None:
    for name in FIXTURES:
        config, _ = fixture(name)
        assert describe(config, []).status == "no"
