"""The runtime against transformers: recorded logits and greedy continuations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tomli

from dmexp.loaders import open_source
from dmexp.runtime.config import read_config
from dmexp.runtime.model import Cache
from dmexp.runtime.weights import build_model
from runtime_util import case, case_names

CORPUS = Path(__file__).resolve().parent / "corpus" / "gguf"
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


@pytest.mark.parametrize("name", ["llama-gqa", "llama-tied-rope3", "qwen3", "gemma3"])
def test_a_gguf_file_answers_as_the_checkpoint_that_it_was_made_from(name: str) -> None:
    found = []
    for path in (CORPUS / name, CORPUS / name / f"{name}.f32.gguf"):
        with open_source(path) as source:
            tensors = {each.name: source.read(each.name) for each in source.entries()}
            model = build_model(read_config(tomli.loads(source.info.config)), tensors)
            found.append(model.logits(list(range(3, 60)), every=True))
    assert np.array_equal(*found)
