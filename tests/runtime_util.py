"""Small models for the runtime's tests, with reference values made by transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dmexp
from dmexp.runtime.config import read_config
from dmexp.runtime.model import Model
from dmexp.runtime.weights import build_model, expected_tensors
from runtime_weights import weights

VECTORS = Path(__file__).resolve().parent / "vectors" / "runtime"


@dataclass(frozen=True)
class Case:
    """One recorded model."""

    name: str
    config: dict[str, Any]
    tensors: dict[str, np.ndarray[Any, Any]]
    tokens: list[int]
    logits: np.ndarray[Any, Any]
    greedy: list[int]


def case_names() -> list[str]:
    return sorted(path.stem for path in VECTORS.glob("*.json"))


def case(name: str) -> Case:
    """Read a recorded model and draw its weights again."""
    described = json.loads((VECTORS / f"{name}.json").read_text())
    dims = {key: tuple(value) for key, value in described["dims"].items()}
    config = described["config"]
    with np.load(VECTORS / f"{name}.npz") as arrays:
        logits = arrays["logits"]
    return Case(
        name,
        config,
        weights(dims, described["seed"], config["model_type"]),
        described["tokens"],
        logits,
        described["greedy"],
    )


BYTE_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}
"""A model whose tokens are bytes, so that it needs no tokenizer."""


def byte_weights() -> dict[str, np.ndarray[Any, Any]]:
    return weights(expected_tensors(read_config(BYTE_CONFIG)), 7, "llama")


def byte_model(**changes: Any) -> Model:
    return build_model(read_config(BYTE_CONFIG | changes), byte_weights())


def write_byte_model(path: Path, *, dtype: str = "f32", **changes: Any) -> Path:
    dmexp.save_file(byte_weights(), path, dtype=dtype, config=BYTE_CONFIG | changes)
    return path


def write_case(
    recorded: Case, path: Path, *, dtype: str = "f32", metadata: dict[str, Any] | None = None
) -> Path:
    dmexp.save_file(recorded.tensors, path, dtype=dtype, config=recorded.config, metadata=metadata)
    return path
