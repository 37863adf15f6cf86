"""The model's parts: weights in and out of place, low memory, caches, limits."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmexp.errors import InvalidArgumentError, ShapeMismatchError
from dmexp.runtime import attention, linear, model
from dmexp.runtime.config import read_config
from dmexp.runtime.linear import NarrowLinear, WideLinear, widened
from dmexp.runtime.mlp import gelu_tanh, silu
from dmexp.runtime.model import Cache
from dmexp.runtime.norm import gain, rms_norm
from dmexp.runtime.rope import Rope, Rotary, rotate
from dmexp.runtime.weights import build_model, expected_tensors
from runtime_util import Case, case, case_names


def changed(recorded: Case, **tensors: Any) -> dict[str, Any]:
    """The tensors with some replaced, or taken away where the new one is None."""
    table: dict[str, Any] = {**recorded.tensors, **tensors}
    return {name: array for name, array in table.items() if array is not None}


@pytest.mark.parametrize("name", case_names())
def test_every_tensor_of_a_reference_model_is_used_and_no_other(name: str) -> None:
    recorded = case(name)
    expected = expected_tensors(read_config(recorded.config))
    assert expected == {key: value.shape for key, value in recorded.tensors.items()}


def test_all_conflicts_are_listed() -> None:
    recorded = case("llama")
    tensors = changed(
        recorded,
        **{
            "model.norm.weight": None,
            "model.layers.1.mlp.up_proj.weight": np.zeros((2, 2), np.float32),
            "model.layers.9.mlp.up_proj.weight": np.zeros((2, 2), np.float32),
        },
    )
    with pytest.raises(ShapeMismatchError) as caught:
        build_model(read_config(recorded.config), tensors)
    problems = {each["name"]: each["problem"] for each in caught.value.conflicts}
    assert problems == {
        "model.norm.weight": "missing",
        "model.layers.1.mlp.up_proj.weight": "shape",
        "model.layers.9.mlp.up_proj.weight": "unexpected",
    }


def test_biases_that_the_config_does_not_mention_are_refused() -> None:
    recorded = case("llama-biases")
    silent = recorded.config | {"attention_bias": False}
    with pytest.raises(ShapeMismatchError, match=r"q_proj\.bias"):
        build_model(read_config(silent), recorded.tensors)


def test_derived_rotary_tables_are_left_alone() -> None:
    recorded = case("llama")
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(4, np.float32)}
    assert build_model(read_config(recorded.config), changed(recorded, **extra))


def test_a_tied_head_that_is_stored_has_to_be_the_embedding() -> None:
    recorded = case("qwen3")
    config = read_config(recorded.config)
    embedding = recorded.tensors["model.embed_tokens.weight"]
    same = build_model(config, changed(recorded, **{"lm_head.weight": embedding.copy()}))
    assert np.abs(same.logits(recorded.tokens) - recorded.logits[-1]).max() < 1e-4
    with pytest.raises(ShapeMismatchError, match=r"lm_head\.weight differs"):
        build_model(config, changed(recorded, **{"lm_head.weight": embedding * 2}))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("name", ["llama-biases", "gemma3"])
def test_low_memory_computes_the_same(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of a few rows, the last one smaller.
    monkeypatch.setattr(linear, "BLOCK_BYTES", 7 * 4 * 32)
    recorded = case(name)
    config = read_config(recorded.config)
    narrow = {key: value.astype(dtype) for key, value in recorded.tensors.items()}
    whole = build_model(config, narrow).logits(recorded.tokens, every=True)
    blocks = build_model(config, narrow, low_memory=True).logits(recorded.tokens, every=True)
    assert np.abs(whole - blocks).max() < 1e-5
    # The widened values are what is computed with, not the f32 ones that they came from.
    assert np.abs(whole - recorded.logits).max() > 1e-4


def test_low_memory_keeps_narrow_matrices_narrow() -> None:
    weight = np.ones((3, 4), ml_dtypes.bfloat16)
    narrow = NarrowLinear(weight)
    assert np.array_equal(narrow(np.ones((2, 4), np.float32)), np.full((2, 3), 4, np.float32))
    assert np.array_equal(narrow.rows(np.array([2])), np.ones((1, 4), np.float32))
    assert narrow._weight is weight


def test_f32_stays_where_it_is_unless_its_address_is_odd() -> None:
    buffer = np.zeros(4 * 12 + 1, np.uint8)
    aligned = buffer[:48].view(np.float32).reshape(3, 4)
    odd = buffer[1:49].view(np.float32).reshape(3, 4)
    assert np.shares_memory(widened(aligned), aligned)
    assert not np.shares_memory(widened(odd), odd)
    assert widened(odd).flags.aligned
    assert widened(aligned.T).flags.c_contiguous


def test_a_matrix_applies_to_rows_and_adds_its_bias() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = WideLinear(weight, np.array([10, 20], np.float32))(np.eye(3, dtype=np.float32))
    assert np.array_equal(found, weight.T + np.array([10, 20], np.float32))


@pytest.mark.parametrize("name", ["mistral", "gemma2", "llama"])
@pytest.mark.parametrize("size", [1, 3, 7, 8, 39])
def test_a_prompt_in_pieces_equals_the_whole(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "PREFILL_POSITIONS", size)
    recorded = case(name)
    built = build_model(read_config(recorded.config), recorded.tensors)
    assert np.abs(built.logits(recorded.tokens, every=True) - recorded.logits).max() < 1e-4
    cache = Cache(built.config, positions=1)
    built.remember(recorded.tokens[:-1], cache)
    assert np.abs(built.logits(recorded.tokens[-1:], cache) - recorded.logits[-1]).max() < 1e-4


def test_a_cache_belongs_to_one_sequence_and_threads_may_share_the_model() -> None:
    recorded = case("qwen2")
    built = build_model(read_config(recorded.config), recorded.tensors)
    found: dict[int, Any] = {}

    def run(number: int) -> None:
        cache = Cache(built.config)
        steps = [built.logits([token], cache) for token in recorded.tokens[number:]]
        found[number] = steps[-1]

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 0, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.abs(found[0] - recorded.logits[-1]).max() < 1e-4
    assert np.abs(found[5] - built.logits(recorded.tokens[5:])).max() < 1e-4


@pytest.mark.parametrize(
    ("tokens", "says"),
    [([], "no token"), ([96], "96 is outside"), ([-1], "-1 is outside"), ([3] * 129, "129 tokens")],
)
def test_tokens_that_cannot_be_run_are_refused(tokens: list[int], says: str) -> None:
    recorded = case("llama")
    built = build_model(read_config(recorded.config), recorded.tensors)
    with pytest.raises(InvalidArgumentError, match=says):
        built.logits(tokens)


def test_positions_end_where_the_model_ends() -> None:
    recorded = case("llama")
    built = build_model(read_config(recorded.config), recorded.tensors)
    cache = Cache(built.config)
    built.logits([3] * 128, cache)
    with pytest.raises(InvalidArgumentError, match="129 tokens do not fit the model's 128"):
        built.logits([3], cache)


def test_the_mask_hides_the_future_and_what_left_the_window() -> None:
    seen = np.isfinite(attention.causal_mask(3, 5, 2, None)).astype(int)
    assert seen.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    seen = np.isfinite(attention.causal_mask(3, 5, 2, 2)).astype(int)
    assert seen.tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]


def test_norms_scale_to_unit_root_mean_square() -> None:
    values = np.array([[3, 4], [0, 0]], np.float32)
    factor = gain(np.array([0, 1], np.float32), 1.0)
    assert factor.tolist() == [1, 2]
    found = rms_norm(values, factor, np.float32(0.0625))
    root = np.sqrt(12.5 + 0.0625)
    assert np.allclose(found, [[3 / root, 8 / root], [0, 0]], rtol=1e-6, atol=0)
    assert values.tolist() == [[3, 4], [0, 0]]


def test_a_norm_without_offset_keeps_the_stored_gain() -> None:
    weight = np.array([1, 2], np.float32)
    assert gain(weight, 0.0) is weight


def test_activations_hold_at_the_ends_of_f32() -> None:
    x = np.array([-3e38, -100, 0, 100, 3e38], np.float32)
    with np.errstate(over="ignore"):
        assert silu(x).tolist() == [0, 0, 0, 100, np.float32(3e38)]
    moderate = np.array([-30, -1, 0, 1, 30], np.float32)
    assert np.allclose(gelu_tanh(moderate), [0, -0.158808, 0, 0.841192, 30], atol=1e-6)


def test_rotation_turns_pairs_of_halves_by_position() -> None:
    rotary = Rotary(Rope(10000.0), 4)
    heads = np.zeros((2, 1, 4), np.float32)
    heads[:, 0, 0] = heads[:, 0, 1] = 1
    cos, sin = rotary.at(3, 5)
    turned = rotate(heads, cos, sin)
    for row, position in enumerate((3, 4)):
        slow = position * 0.01
        expected = [np.cos(position), np.cos(slow), np.sin(position), np.sin(slow)]
        assert np.allclose(turned[row, 0], expected, atol=1e-6)


def test_rotary_tables_are_the_same_however_they_grew() -> None:
    grown, whole = Rotary(Rope(10000.0), 8), Rotary(Rope(10000.0), 8)
    for stop in (1, 100, 257, 1000):
        grown.at(stop - 1, stop)
    for ours, theirs in zip(grown.at(0, 1000), whole.at(0, 1000), strict=True):
        assert np.array_equal(ours, theirs)
