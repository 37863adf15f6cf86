"""The runtime against transformers: recorded logits and greedy continuations."""

from __future__ import annotations

import numpy as np
import pytest

from dmexp.runtime.config import read_config
from dmexp.runtime.model import Cache
from dmexp.runtime.weights import build_model
from runtime_util import case, case_names

TOLERANCE = 1e-4


def test_every_family_is_recorded() -> None:
    kinds = {case(name).config["model_type"] for name in case_names()}
    assert kinds == {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text"}


@pytest.mark.parametrize("name", case_names())
def test_logits_at_every_position_equal_the_reference(name: str) -> None:
    recorded = case(name)
    model = build_model(read_config(recorded.config), recorded.tensors)
    logits = model.logits(recorded.tokens, every=True)
    assert logits.dtype == np.float32
    assert np.abs(logits - recorded.logits).max() < TOLERANCE


@pytest.mark.parametrize("name", case_names())
def test_greedy_continuation_equals_the_reference_token_for_token(name: str) -> None:
    recorded = case(name)
    model = build_model(read_config(recorded.config), recorded.tensors)
    cache = Cache(model.config, positions=4)
    logits = model.logits(recorded.tokens[:9], cache)
    tokens = []
    for _ in recorded.greedy:
        tokens.append(int(logits.argmax()))
        logits = model.logits(tokens[-1:], cache)
    assert tokens == recorded.greedy


@pytest.mark.parametrize("name", case_names())
def test_one_token_at_a_time_equals_all_at_once(name: str) -> None:
    recorded = case(name)
    model = build_model(read_config(recorded.config), recorded.tensors)
    cache = Cache(model.config, positions=1)
    steps = np.stack([model.logits([token], cache) for token in recorded.tokens])
    assert np.abs(steps - recorded.logits).max() < TOLERANCE
