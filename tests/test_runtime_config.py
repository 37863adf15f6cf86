"""Configs: what is read, what is refused, and both spellings of the rotary parameters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from dmexp.errors import DmexpError, FormatError, LimitExceededError, UnsupportedError
from dmexp.runtime.config import ModelConfig, read_config
from dmexp.runtime.rope import Rope
from runtime_util import BYTE_CONFIG, case

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def config(**changes: Any) -> ModelConfig:
    """The byte model's config with ``changes``; None takes a key away."""
    table = {key: value for key, value in (BYTE_CONFIG | changes).items() if value is not None}
    return read_config(table)


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"model_type": "mamba"}, "model_type", "'mamba': the runtime runs llama, mistral"),
        ({"model_type": None}, "model_type", "no 'model_type'"),
        ({"model_type": "mixtral", "num_local_experts": 8}, "num_local_experts", "of experts"),
        ({"model_type": "qwen3_moe", "num_experts": 128}, "num_experts", "mixture of experts"),
        ({"n_routed_experts": 4}, "n_routed_experts", "mixture of experts"),
        (
            {"layer_types": ["linear_attention", "full_attention"]},
            "layer_types",
            "'linear_attention': the runtime runs full and sliding attention, no hybrid",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope_scaling.type", "'yarn'"),
        (
            {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}},
            "rope_parameters.rope_type",
            "'default', 'linear' and 'llama3'",
        ),
        (
            {"rope_scaling": {"rope_type": "default", "mrope_section": [1, 2]}},
            "rope_scaling.mrope_section",
            "every pair",
        ),
        (
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "rope_parameters.partial_rotary_factor",
            "every pair",
        ),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor", "all of a head"),
        ({"hidden_act": "relu2"}, "hidden_act", "'relu2': the runtime knows silu"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention", "back only"),
        ({"quantization_config": {"bits": 4}}, "quantization_config", "plain weights"),
        ({"num_key_value_heads": 3}, "num_key_value_heads", "does not divide the 4"),
        ({"head_dim": 7}, "head_dim", "has to be even"),
        ({"num_hidden_layers": 5000}, "num_hidden_layers", "4096 at most"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    changes: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(says)) as caught:
        config(**changes)
    assert caught.value.key == key
    assert key in caught.value.message


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": 64.0}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": -4}, "hidden_size"),
        ({"rms_norm_eps": None}, "rms_norm_eps"),
        ({"rms_norm_eps": 0.0}, "rms_norm_eps"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps"),
        ({"rope_theta": float("inf")}, "rope_theta"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ({"max_position_embeddings": None}, "max_position_embeddings"),
        ({"model_type": 5}, "model_type"),
        ({"eos_token_id": "</s>"}, "eos_token_id"),
        ({"eos_token_id": [1, 2.5]}, "eos_token_id"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"rope_scaling": "linear"}, "rope_scaling"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling.factor"),
        ({"rope_scaling": {"type": "linear", "factor": -2.0}}, "rope_scaling.factor"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "rope_scaling.low_freq_factor"),
    ],
)
def test_a_key_that_is_missing_or_mistyped_is_named(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(FormatError, match=key) as caught:
        config(**changes)
    assert caught.value.key == key


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_where_a_window_begins_is_not_guessed(family: str) -> None:
    slides: dict[str, Any] = {
        "model_type": family,
        "use_sliding_window": True,
        "sliding_window": 8,
    }
    with pytest.raises(FormatError, match="'max_window_layers' is missing"):
        config(**slides)
    kinds = ["sliding_attention", "full_attention"]
    assert [layer.window for layer in config(**slides, layer_types=kinds).layers] == [8, None]
    assert [layer.window for layer in config(**slides, max_window_layers=1).layers] == [None, 8]


def test_an_absurd_count_is_refused_before_anything_is_made_from_it() -> None:
    with pytest.raises(LimitExceededError, match="vocab_size"):
        config(vocab_size=2**40)


@pytest.mark.parametrize("key", sorted(BYTE_CONFIG))
@pytest.mark.parametrize("value", [{}, [], "", -1, 2**70, float("nan"), [None], {"a": 1}])
def test_no_value_of_any_key_escapes_the_error_tree(key: str, value: Any) -> None:
    try:
        config(**{key: value})
    except DmexpError as error:
        assert key in error.message  # noqa: PT017 - some of the values are fine


def test_neutral_values_are_no_refusal() -> None:
    assert config(num_experts=0, quantization_config={}, rope_scaling=None).heads == 4


def test_both_spellings_of_scaled_rotary_parameters_are_the_same() -> None:
    old = config(rope_theta=500000.0, rope_scaling=LLAMA3)
    new = config(rope_theta=None, rope_parameters={**LLAMA3, "rope_theta": 500000.0})
    assert old.layers == new.layers
    assert old.layers[0].rope == Rope(500000.0, "llama3", 8.0, 1.0, 4.0, 8192)


def test_gemma3_in_its_older_spelling_is_the_same() -> None:
    new = case("gemma3").config
    old = {
        key: value for key, value in new.items() if key not in ("rope_parameters", "layer_types")
    }
    old |= {
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 3,
    }
    assert read_config(old) == read_config(new)
    windows = [layer.window for layer in read_config(old).layers]
    assert windows == [7, 7, None, 7]


def test_a_table_for_one_kind_of_layer_only_is_refused() -> None:
    table = case("gemma3").config
    full = table["rope_parameters"]["full_attention"]
    with pytest.raises(UnsupportedError, match="no table for sliding_attention"):
        read_config(table | {"rope_parameters": {"full_attention": full}})


def test_windows_follow_each_familys_rule() -> None:
    def windows(name: str, **changes: Any) -> list[int | None]:
        table = {k: v for k, v in case(name).config.items() if k != "layer_types"}
        return [layer.window for layer in read_config(table | changes).layers]

    assert windows("gemma2") == [7, None, 7]
    assert windows("mistral") == [7, 7, 7]
    assert windows("qwen2-sliding") == [None, 7, 7]
    assert windows("qwen2-sliding", use_sliding_window=False) == [None, None, None]
    assert windows("llama", sliding_window=7) == [None, None, None]


def test_a_mistral_without_a_window_sees_everything() -> None:
    table = {k: v for k, v in case("mistral").config.items() if k != "sliding_window"}
    assert [layer.window for layer in read_config(table).layers] == [None, None, None]


def test_the_first_gemma_meant_the_tanh_form() -> None:
    table = {k: v for k, v in case("gemma").config.items() if k != "hidden_activation"}
    assert read_config(table | {"hidden_act": "gelu"}).activation == "gelu_pytorch_tanh"
    with pytest.raises(UnsupportedError, match="'gelu'"):
        read_config(case("gemma2").config | {"hidden_activation": "gelu"})


def test_tied_heads_follow_the_config_and_else_the_family() -> None:
    def tied(name: str) -> bool:
        table = {k: v for k, v in case(name).config.items() if k != "tie_word_embeddings"}
        return read_config(table).tied

    assert [tied(name) for name in ("llama", "qwen3", "gemma", "gemma3")] == [
        False,
        False,
        True,
        True,
    ]


def test_llama3_frequencies_are_those_of_the_published_model() -> None:
    # By the definition, in exact steps: fast pairs stay, slow ones are divided by the factor.
    rope = Rope(500000.0, "llama3", 8.0, 1.0, 4.0, 8192)
    scaled = rope.frequencies(128)
    plain = Rope(500000.0).frequencies(128)
    wavelengths = 2 * np.pi / plain.astype(np.float64)
    assert np.array_equal(scaled[wavelengths < 2048], plain[wavelengths < 2048])
    slow = wavelengths > 8192
    assert np.array_equal(scaled[slow], plain[slow] / np.float32(8))
    between = ~slow & (wavelengths >= 2048)
    assert between.sum() > 3
    assert (scaled[between] < plain[between]).all()
    assert (scaled[between] > plain[between] / 8).all()
