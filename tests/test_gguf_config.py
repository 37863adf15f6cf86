"""GGUF metadata as a Hugging Face config, held against the configs the files were made from."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from dmexp.errors import FormatError
from dmexp.families import describe
from dmexp.loaders.gguf import read_header
from dmexp.loaders.gguf._data import TensorData
from dmexp.loaders.gguf.config import BUILDERS, build_config
from dmexp.loaders.gguf.config._meta import shortest
from dmexp.loaders.gguf.config._rope import llama3_divisors

CORPUS = Path(__file__).parent / "corpus" / "gguf"
FILES = sorted(CORPUS.glob("*/*.gguf"))

# Keys of training, of saving and of speed: nothing in the result depends on them.
IRRELEVANT = frozenset(
    [
        "transformers_version",
        "dtype",
        "use_cache",
        "initializer_range",
        "attention_dropout",
        "pretraining_tp",
        "hidden_dropout",
        "output_router_logits",
        "router_aux_loss_coef",
        "classifier_dropout",
        "is_decoder",
        "router_jitter_noise",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "add_cross_attention",
        "use_associative_scan",
        "use_mambapy",
        "use_mamba_kernels",
        "mamba_ssm_cache_dtype",
        "chunk_size",
        "num_logits_to_keep",
        "rescale_prenorm_residual",
        "residual_in_fp32",
        "time_step_floor",
        "time_step_init_scheme",
        "time_step_max",
        "time_step_min",
        "time_step_scale",
        "time_step_limit",
        "block_ffn_dim_multiplier",
        "block_multiple_of",
        "max_window_layers",
    ]
)

# Keys whose value here is the one that their absence means, or another spelling of a key that
# is there.
IMPLIED = {
    ("bert", "tie_word_embeddings"): True,
    ("gemma3", "_sliding_window_pattern"): 6,
    ("gemma3", "use_bidirectional_attention"): False,
    ("gemma4", "per_layer_config"): {"1": {"head_dim": 32}},
    ("nemotron_h", "mamba_proj_bias"): False,
    ("qwen3", "layer_types"): ["full_attention"] * 2,
    ("qwen3", "use_sliding_window"): False,
    ("qwen3moe", "num_local_experts"): 4,
    ("qwen3moe", "use_sliding_window"): False,
    ("smollm3", "layer_types"): ["full_attention"] * 2,
    ("smollm3", "use_sliding_window"): False,
}

# What the exporter does not write down: readers go by the architecture, and so does the config,
# with a notice in the first case.
LOST = {("qwen3moe", "norm_topk_prob"), ("nemotron_h", "max_position_embeddings")}


def built(path: Path) -> tuple[dict[str, Any], list[str]]:
    header = read_header(path, check_extent=True)
    tensors = {tensor.name: tensor for tensor in header.tensors}
    data = TensorData([path])
    return build_config(
        header.architecture,
        header.metadata,
        {name: tensor.dims for name, tensor in tensors.items()},
        lambda name: data.read(tensors[name]),
    )


def original(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((path.parent / "config.json").read_text())
    return config


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_config_says_what_the_original_said(path: Path) -> None:
    config, _ = built(path)
    model = path.parent.name
    for key, value in original(path).items():
        if value is None or key in IRRELEVANT or (model, key) in LOST:
            continue
        if (model, key) in IMPLIED:
            assert IMPLIED[model, key] == value
            assert key not in config
        else:
            assert config.get(key) == value, key


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_config_describes_the_checkpoint(path: Path) -> None:
    config, _ = built(path)
    with safetensors.safe_open(path.parent / "model.safetensors", "numpy") as file:
        tensors = [(name, tuple(file.get_slice(name).get_shape())) for name in file.keys()]  # noqa: SIM118
    verdict = describe(config, tensors)
    assert verdict.status == "yes", [str(conflict) for conflict in verdict.conflicts]


def test_what_the_file_does_not_say_is_said() -> None:
    _, notices = built(CORPUS / "gptneox" / "gptneox.f32.gguf")
    assert ["gptneox.rope.freq_base" in notice for notice in notices] == [True]
    _, notices = built(CORPUS / "qwen3moe" / "qwen3moe.f32.gguf")
    assert ["norm_topk_prob = true" in notice for notice in notices] == [True]
    for model in ("llama-gqa", "gemma3", "gpt_oss"):
        assert built(CORPUS / model / f"{model}.f32.gguf")[1] == []


def test_architectures_are_listed_in_order() -> None:
    assert list(BUILDERS) == sorted(BUILDERS)


# --- one architecture, many details -----------------------------------------------------------

DIMS: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (96, 32),
    "output.weight": (96, 32),
    "blk.0.attn_q.weight": (32, 32),
    "blk.0.ffn_up.weight": (48, 32),
}
METADATA: dict[str, Any] = {
    "block_count": 1,
    "context_length": 128,
    "embedding_length": 32,
    "feed_forward_length": 48,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": float(np.float32(1e-6)),
    "rope.freq_base": 10000.0,
}


def llama(
    more: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Any] | None = None,
    arch: str = "llama",
    tensors: Mapping[str, tuple[int, ...]] = DIMS,
) -> tuple[dict[str, Any], list[str]]:
    keys = {**METADATA, **(more or {})}
    metadata = {f"{arch}.{key}": value for key, value in keys.items() if value is not None}
    values = {name: np.float32(array) for name, array in (arrays or {}).items()}
    dims = {**tensors, **{name: array.shape for name, array in values.items()}}
    return build_config(arch, metadata, dims, values.__getitem__)


def test_floats_have_the_fewest_digits_that_give_the_stored_f32() -> None:
    assert shortest(float(np.float32(1e-6))) == 1e-6
    assert shortest(float(np.float32(0.22))) == 0.22
    assert llama()[0]["rms_norm_eps"] == 1e-6


def test_vocab_and_tie_are_read_off_the_tensors() -> None:
    assert llama()[0]["tie_word_embeddings"] is False
    tensors = {name: dims for name, dims in DIMS.items() if name != "output.weight"}
    config, _ = llama({"vocab_size": 90}, tensors=tensors)
    assert config["tie_word_embeddings"] is True
    assert config["vocab_size"] == 96


def test_biases_are_read_off_the_tensors() -> None:
    assert llama()[0]["attention_bias"] is False
    biases = {"blk.0.attn_q.bias": np.zeros(32), "blk.0.attn_output.bias": np.zeros(32)}
    config, _ = llama(arrays=biases)
    assert (config["model_type"], config["attention_bias"]) == ("llama", True)
    # Llama has them on all four projections or on none.
    config, _ = llama(arrays={"blk.0.attn_q.bias": np.zeros(32)})
    assert (config["model_type"], config["qkv_bias"]) == ("internlm3", True)


def test_the_number_of_experts_makes_llama_mixtral() -> None:
    config, _ = llama({"expert_count": 8, "expert_used_count": 2})
    assert (config["model_type"], config["num_local_experts"]) == ("mixtral", 8)
    assert llama({"expert_count": 0})[0]["model_type"] == "llama"


def test_scaling_of_positions_is_carried_over() -> None:
    linear, _ = llama({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0})
    assert linear["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    assert linear["rope_parameters"] == {
        "rope_theta": 10000.0,
        "rope_type": "linear",
        "factor": 4.0,
    }
    old, _ = llama({"rope.scale_linear": 2.0})
    assert old["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    plain, _ = llama({"rope.scaling.type": "none", "rope.scaling.factor": 1.0})
    assert "rope_scaling" not in plain
    yarn, _ = llama(
        {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 32768,
            "rope.scaling.yarn_log_multiplier": float(np.float32(0.0707)),
        }
    )
    assert yarn["rope_scaling"] == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "mscale_all_dim": 0.707,
        "mscale": 0.707,
    }
    with pytest.raises(FormatError, match=r"llama\.rope\.scaling\.type"):
        llama({"rope.scaling.type": "spiral"})


def test_long_and_short_factors_come_out_of_their_tensors() -> None:
    arrays = {
        "rope_factors_long.weight": [1.0, 1.5, 2.75, 8.1],
        "rope_factors_short.weight": [1.0, 1.0, 1.1, 1.2],
    }
    config, _ = llama(
        {
            "rope.scaling.original_context_length": 4096,
            "rope.scaling.attn_factor": 1.25,
            "attention.sliding_window": 2047,
        },
        arrays,
        arch="phi3",
    )
    assert config["rope_scaling"] == {
        "rope_type": "longrope",
        "long_factor": [1.0, 1.5, 2.75, 8.1],
        "short_factor": [1.0, 1.0, 1.1, 1.2],
        "original_max_position_embeddings": 4096,
        "attention_factor": 1.25,
    }
    assert config["sliding_window"] == 2047


@settings(max_examples=60, deadline=None)
@given(
    factor=st.sampled_from([2.0, 8.0, 16.0, 32.0]),
    high=st.sampled_from([2.0, 4.0, 8.0]),
    original=st.sampled_from([64, 500, 2048, 8192, 10_000, 131_072]),
    theta=st.sampled_from([10_000.0, 500_000.0]),
    pairs=st.sampled_from([6, 16, 64]),
)
def test_llama3_scaling_is_recovered_from_its_divisors(
    factor: float, high: float, original: int, theta: float, pairs: int
) -> None:
    waves = [2 * math.pi * theta ** (i / pairs) for i in range(pairs)]
    table = llama3_divisors(waves, factor, 1.0, high, original)
    config, notices = llama(
        {"rope.freq_base": theta, "attention.key_length": 2 * pairs},
        {"rope_freqs.weight": table},
    )
    found = config.get("rope_scaling")
    if found is None:
        assert set(table) == {1.0}
        return
    if found["rope_type"] == "linear":
        assert set(table) == {found["factor"]}
        return
    if found["rope_type"] == "divisors":
        # Only where no frequency is slow enough to be divided by the whole factor.
        assert factor not in table
        assert len(notices) == 1
        assert found["divisors"] == [shortest(float(np.float32(value))) for value in table]
        return
    again = llama3_divisors(
        waves,
        found["factor"],
        found["low_freq_factor"],
        found["high_freq_factor"],
        found["original_max_position_embeddings"],
    )
    np.testing.assert_allclose(again, table, rtol=1e-5)


def test_divisors_that_no_scaling_gives_are_kept_and_said() -> None:
    table = [1.0, 3.0, 1.0, 7.0]
    config, notices = llama(arrays={"rope_freqs.weight": table})
    assert config["rope_scaling"] == {"rope_type": "divisors", "divisors": table}
    assert "as they are" in notices[0]
    assert "rope_scaling" not in llama(arrays={"rope_freqs.weight": np.ones(4)})[0]


@pytest.mark.parametrize(
    "table",
    [[1.0, np.nan], [np.inf, 1.0], [0.0, 1.0], [-1.0, 2.0], [2.0, 1.0], [1e30, 1.0, 1e30], []],
)
@pytest.mark.parametrize("theta", [10000.0, 1.0, 0.5])
def test_divisors_and_bases_of_any_kind_give_a_config(table: list[float], theta: float) -> None:
    config, _ = llama({"rope.freq_base": float(theta)}, {"rope_freqs.weight": table})
    assert "rope_parameters" in config


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", None),
        ("block_count", 0),
        ("block_count", -1),
        ("block_count", True),
        ("block_count", 2**41),
        ("block_count", 70_000),
        ("embedding_length", "32"),
        ("attention.head_count", []),
        ("attention.layer_norm_rms_epsilon", None),
        ("rope.freq_base", "10000"),
        ("rope.freq_base", 0.0),
        ("rope.freq_base", -5.0),
        ("rope.freq_base", float("inf")),
        ("rope.freq_base", float("nan")),
        ("nextn_predict_layers", 1),
    ],
)
def test_a_key_that_is_missing_or_wrong_is_named(key: str, value: Any) -> None:
    with pytest.raises(FormatError) as caught:
        llama({key: value})
    assert caught.value.key == f"llama.{key}"


def test_an_architecture_without_an_entry_keeps_its_own_keys() -> None:
    config, notices = llama({"odd.thing": 2**63, "list": [1.5, 2]}, arch="nobody")
    assert config["model_type"] == "nobody"
    assert config["hidden_size"] == 32
    assert config["gguf"]["odd.thing"] == str(2**63)
    assert config["gguf"]["list"] == [1.5, 2]
    assert "architecture 'nobody'" in notices[0]
    assert describe(config, [("x", (1,))]).status == "not checked"


@pytest.mark.parametrize("arch", sorted(BUILDERS))
def test_metadata_of_any_kind_gives_a_config_or_a_format_error(arch: str) -> None:
    for value in (0, -1, True, "x", [], [1, "x"], [0] * 3, 2**70, float("nan"), None):
        metadata = {f"{arch}.{key}": value for key in METADATA}
        with contextlib.suppress(FormatError):
            build_config(arch, metadata, DIMS)
