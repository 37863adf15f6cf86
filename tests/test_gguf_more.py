"""Further pairs that the exporter made: other architectures, other file types, fused tensors."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli

from contracts_util import MORE, checkpoint, label
from dmexp import contracts
from dmexp.families import describe, find
from dmexp.loaders.gguf import GgufSource, open_gguf, read_header

# What the exporter itself rounds, in f32: gains and logarithms.
COMPUTED = 2e-6
# Largest error of a value of at most 1.5, the largest of these checkpoints.
STORED = {"f32": 0.0, "bf16": 0.0, "f16": 2.0**-11, "q8_0": 1.5 / 127}

# The checkpoint has these, the file cannot.
LOST = {"bertcls": {"pooler.dense.weight", "pooler.dense.bias"}}
GENERATED = {
    "apertus": {"rope_freqs.weight"},
    "exaone4": {"rope_freqs.weight"},
    "gemma4kv": {"rope_freqs.weight"},
    "minicpm_long": {"rope_factors_long.weight", "rope_factors_short.weight"},
    "phi3long": {"rope_factors_long.weight", "rope_factors_short.weight"},
    "phimoe": {"rope_factors_long.weight", "rope_factors_short.weight"},
    "rwkv7": {f"blk.0.time_mix_v{index}.weight" for index in range(3)},
}
# Checkpoints of a model with a task's head put this in front of the names of the model proper.
PREFIXES = {"bertcls": "bert.", "modernbertcls": "model."}


@pytest.fixture(params=MORE, ids=label)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def expected(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    prefix = PREFIXES.get(path.parent.name, "")
    found = checkpoint(path.parent / "model.safetensors")
    return {name.removeprefix(prefix): array for name, array in found.items()}


def bound(path: Path, source: GgufSource, name: str) -> float:
    """0 means bit for bit."""
    output = next(output for output in source.plan.outputs if output.name == name)
    file_type = path.stem.split(".")[-1].partition("-")[0]
    return max(COMPUTED if output.computes else 0.0, STORED[file_type])


def test_every_tensor_of_the_checkpoint_is_rebuilt(path: Path) -> None:
    wanted = expected(path)
    model = path.parent.name
    with open_gguf(path) as source:
        found = {entry.name: entry.dims for entry in source.entries()}
        assert set(wanted) - set(found) == LOST.get(model, set())
        assert set(found) <= set(wanted)
        assert {item.external for item in source.plan.dropped} == GENERATED.get(model, set())
        for name, dims in found.items():
            built = source.read(name).astype(np.float32)
            assert built.shape == dims == wanted[name].shape, name
            limit = bound(path, source, name)
            if limit == 0.0:
                assert built.tobytes() == wanted[name].tobytes(), name
            else:
                assert float(np.abs(built - wanted[name]).max()) <= limit, name
    losses = [one.canonical for one in contracts.lost(source.header.architecture)]
    assert all(any(fnmatch(name, one) for one in losses) for name in LOST.get(model, set()))


def test_the_config_describes_what_comes_out(path: Path) -> None:
    with open_gguf(path) as source:
        config = tomli.loads(source.info.config)
        verdict = describe(config, [(entry.name, entry.dims) for entry in source.entries()])
    known = find(config) is not None
    assert verdict.status == ("yes" if known else "not checked"), [
        str(conflict) for conflict in verdict.conflicts
    ]


# Keys of saving and of training; special tokens, which a GGUF file takes from its tokenizer; and
# what an exporter writes down otherwise or not at all.
UNSAID = {
    "architectures",
    "attention_dropout",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "initializer_range",
    "pad_token_id",
    "transformers_version",
    "use_cache",
}
OTHERWISE = {
    # The shared latent counts as one head there.
    ("deepseek32", "num_key_value_heads"): 1,
    ("falcon40", "max_position_embeddings"): 2048,
    ("falcon40", "multi_query"): False,
    ("falcon7", "max_position_embeddings"): 2048,
    ("gemma2", "query_pre_attn_scalar"): 8,
    ("gemma_embed", "query_pre_attn_scalar"): 8,
    ("glmdsa", "num_key_value_heads"): 1,
    ("glm", "max_position_embeddings"): 20,
    ("glm", "rms_norm_eps"): 1e-5,
    ("glm", "partial_rotary_factor"): 0.25,
    ("granitehybrid_dense", "max_position_embeddings"): 2**20,
    ("granitehybrid_new", "layer_types"): ["mamba", "attention", "mamba", "attention"],
    ("granitehybrid_new", "max_position_embeddings"): 2**20,
    ("nemotronhmoe", "intermediate_size"): 20,
    ("rwkv6", "num_attention_heads"): 0,
    ("rwkv7", "max_position_embeddings"): 2**20,
    # Half of one pair of the six: the table says which pairs turn, and 1/6 gives the same.
    ("gemma4kv", "partial_rotary_factor"): pytest.approx(1 / 6),
}


def leaves(values: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        found |= leaves(value, (*path, key)) if isinstance(value, dict) else {(*path, key): value}
    return found


def test_the_config_says_what_the_original_said(path: Path) -> None:
    original = leaves(json.loads((path.parent / "config.json").read_text()))
    with open_gguf(path) as source:
        config = leaves(tomli.loads(source.info.config))
    # Architectures without a config of their own keep the exporter's name for themselves.
    raw = any(key[0] == "gguf" for key in config)
    for key, value in config.items():
        wanted = original.get(key)
        if wanted is None or key[-1] in UNSAID or (raw and key[0] == "model_type"):
            continue
        assert value == OTHERWISE.get((path.parent.name, key[-1]), wanted), key


def test_ids_need_the_header_only(path: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[: read_header(path).data_offset])
    found = contracts.transform_ids(cut)
    with open_gguf(path) as source:
        for output in source.plan.outputs:
            assert {found[name] for name in output.inputs} <= {output.transform}
    assert list(found) == [tensor.name for tensor in source.header.tensors]


def test_the_share_of_activations_that_gemma3n_cuts_off_is_recovered() -> None:
    path = next(path for path in MORE if path.parent.name == "gemma3n_eq")
    with open_gguf(path) as source:
        config = tomli.loads(source.info.config)
    assert config["activation_sparsity_pattern"] == [0.95, 0.95, 0.0, 0.0, 0.0]
