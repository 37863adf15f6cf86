"""Keys that exporters spell in two ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dmexp.errors import DmexpError, FormatError, UnsupportedDtypeError, UnsupportedError
from dmexp.families import find
from dmexp.loaders.hf_keys import check_rope, weight_dtype
from families_util import FIXTURES, fixture

LLAMA = {"model_type": "llama"}


def rope(values: dict[str, Any], kind: str = "llama") -> list[str]:
    return check_rope({"model_type": kind, **values}, find({"model_type": kind}), "config.json")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"torch_dtype": "float16"}, "f16"),
        ({"dtype": "bfloat16"}, "bf16"),
        ({"dtype": "torch.float32"}, "f32"),
        ({"dtype": "bf16", "torch_dtype": "bfloat16"}, "bf16"),
        ({"torch_dtype": "auto", "dtype": "float32"}, "f32"),
        ({"torch_dtype": None}, None),
        ({"text_config": {"dtype": "bfloat16"}}, "bf16"),
        ({"dtype": "bfloat16", "text_config": {"torch_dtype": "bfloat16"}}, "bf16"),
    ],
)
def test_p57_both_spellings_of_the_dtype_are_read(values: dict[str, Any], expected: str) -> None:
    assert weight_dtype(values) == expected


@pytest.mark.parametrize(
    "values",
    [
        {"dtype": "float16", "torch_dtype": "bfloat16"},
        {"dtype": "float16", "text_config": {"dtype": "bfloat16"}},
    ],
)
def test_p57_spellings_of_the_dtype_that_disagree_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="f16") as caught:
        weight_dtype(values, "config.json")
    assert "bf16" in str(caught.value)
    assert caught.value.path == "config.json"


def test_a_dtype_that_weights_cannot_have_is_refused() -> None:
    with pytest.raises(UnsupportedDtypeError, match="int8"):
        weight_dtype({"torch_dtype": "int8"})
    with pytest.raises(FormatError, match="expected a string"):
        weight_dtype({"torch_dtype": 16})


@pytest.mark.parametrize("name", FIXTURES)
def test_every_fixture_states_its_base_or_needs_none(name: str) -> None:
    config, _ = fixture(name)
    family = find(config)
    assert family is not None
    if "rope_theta" in json.dumps(config) or "text_config" in config or not family.rope:
        check_rope(config, family)
    else:
        with pytest.raises(FormatError, match="rope_theta"):
            check_rope(config, family)


@pytest.mark.parametrize(
    "values",
    [
        {"rope_theta": 1e4},
        {"rope_theta": 10000},
        {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
        {"rope_theta": 1e4, "rope_parameters": {"rope_theta": 10000}},
        {"rope_theta": 1e4, "rope_scaling": None},
        {"rope_theta": 1e4, "rope_scaling": {}},
    ],
)
def test_p57_both_spellings_of_the_base_are_read(values: dict[str, Any]) -> None:
    assert rope(values) == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "names no base"),
        ({"rope_parameters": {"rope_type": "default"}}, "names no base"),
        ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}}, "1000000.0"),
        ({"rope_theta": 0}, "positive"),
        ({"rope_theta": -1.0}, "positive"),
        ({"rope_theta": float("inf")}, "positive"),
        ({"rope_theta": float("nan")}, "positive"),
        ({"rope_theta": True}, "positive"),
        ({"rope_theta": "1e4"}, "positive"),
        ({"rope_theta": 1e4, "rope_parameters": [1]}, "expected a table"),
        (
            {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "rope_type": "yarn"}},
            "'yarn'",
        ),
        (
            {
                "rope_theta": 1e4,
                "rope_scaling": {"type": "linear"},
                "rope_parameters": {"rope_type": "default"},
            },
            "'linear'",
        ),
    ],
)
def test_p57_absence_and_disagreement_are_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError) as caught:
        rope(values)
    assert says in str(caught.value)
    assert caught.value.path == "config.json"


def test_p57_an_unknown_rotary_type_is_refused_by_name() -> None:
    for place in ("rope_scaling", "rope_parameters"):
        with pytest.raises(UnsupportedError, match="'spiral'") as caught:
            rope({"rope_theta": 1e4, place: {"rope_type": "spiral"}})
        assert caught.value.key == f"{place}.rope_type"
    with pytest.raises(UnsupportedError, match="'spiral'"):
        rope({"rope_theta": 1e4, "rope_type": "spiral"})


@pytest.mark.parametrize("kind", ["llama3", "linear", "yarn", "longrope", "dynamic"])
def test_a_scaled_rotary_type_is_named_and_carried(kind: str) -> None:
    (notice,) = rope({"rope_theta": 1e4, "rope_scaling": {"rope_type": kind, "factor": 8.0}})
    assert kind in notice


def test_a_base_for_each_kind_of_layer() -> None:
    both = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    assert rope({"rope_parameters": both}, "gemma3_text") == []
    flat = {"rope_theta": 1e6, "rope_local_base_freq": 1e4}
    assert rope({**flat, "rope_parameters": both}, "gemma3_text") == []
    for key in flat:
        with pytest.raises(FormatError, match=key):
            rope({**flat, key: 5e5, "rope_parameters": both}, "gemma3_text")


def test_a_nested_model_may_leave_its_base_to_its_class() -> None:
    family = find({"model_type": "gemma3"})
    assert check_rope({"model_type": "gemma3", "text_config": {"hidden_size": 8}}, family) == []
    with pytest.raises(DmexpError):
        check_rope({"model_type": "gemma3", "text_config": {"rope_theta": 0}}, family)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "mamba"])
def test_a_model_without_a_rotary_embedding_needs_no_base(kind: str) -> None:
    assert rope({}, kind) == []
