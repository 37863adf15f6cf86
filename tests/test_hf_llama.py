"""LIS's rules for a Llama config and for its tensors, row by row, each with its status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dmexp.errors import DmexpError
from dmexp.loaders.lis_checkpoint import lis_checkpoint
from dmexp.loaders.lis_config import LlamaConfig, parse_llama_config
from families_util import fixture
from safetensors_util import WIDTH_BYTES, pack

EIGHT_B = {
    "architectures": ["LlamaForCausalLM"],
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
QWEN = {
    **EIGHT_B,
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "use_sliding_window": False,
    "head_dim": 128,
    "num_attention_heads": 16,
    "hidden_size": 1024,
    "vocab_size": 151936,
}
ABSENT = object()


def changed(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    values = {**base, **changes}
    return {key: value for key, value in values.items() if value is not ABSENT}


def status(values: dict[str, Any], strict: bool = True, **options: Any) -> str:
    try:
        parse_llama_config(values, strict, **options)
    except DmexpError as error:
        return error.code
    return "OK"


# change to the 8B config: (LIS's status, ours outside its scope)
ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "the real 8B config": ({}, "OK", "OK"),
    "model_type llama3": ({"model_type": "llama3"}, "OK", "OK"),
    "no model_type": ({"model_type": ABSENT}, "FORMAT", "FORMAT"),
    "model_type of 32 bytes": ({"model_type": "l" * 32}, "FORMAT", "FORMAT"),
    **{
        f"model_type {kind}": (
            {"model_type": kind},
            "UNSUPPORTED_FORMAT",
            "UNSUPPORTED_FORMAT",
        )
        for kind in ("gpt2", "mistral", "qwen2", "qwen2_5", "qwen2_moe", "qwen2_vl")
    },
    "rope_scaling null": ({"rope_scaling": None}, "OK", "OK"),
    "rope_scaling absent": ({"rope_scaling": ABSENT}, "OK", "OK"),
    "rope_scaling {}": ({"rope_scaling": {}}, "UNSUPPORTED", "OK"),
    "rope_scaling linear": (
        {"rope_scaling": {"type": "linear", "factor": 2.0}},
        "UNSUPPORTED",
        "OK",
    ),
    "rope_scaling llama3": (
        {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
        "UNSUPPORTED",
        "OK",
    ),
    "rope_scaling of a kind that nobody knows": (
        {"rope_scaling": {"rope_type": "spiral"}},
        "UNSUPPORTED",
        "UNSUPPORTED",
    ),
    "rope_type llama3": ({"rope_type": "llama3"}, "UNSUPPORTED", "OK"),
    "rope_type default": ({"rope_type": "default"}, "OK", "OK"),
    **{
        f"no {key}": ({key: ABSENT}, "FORMAT", "FORMAT")
        for key in (
            "num_hidden_layers",
            "hidden_size",
            "intermediate_size",
            "num_attention_heads",
            "vocab_size",
            "rope_theta",
            "torch_dtype",
            "max_position_embeddings",
        )
    },
    **{
        f"null for {key}": ({key: None}, "FORMAT", "FORMAT")
        for key in ("vocab_size", "rope_theta", "torch_dtype", "model_type")
    },
    **{
        f"null for the optional {key}": ({key: None}, "FORMAT", "OK")
        for key in ("head_dim", "num_key_value_heads", "tie_word_embeddings", "rms_norm_eps")
    },
    **{
        f"no {key}": ({key: ABSENT}, "OK", "OK")
        for key in ("num_key_value_heads", "head_dim", "rms_norm_eps", "tie_word_embeddings")
    },
    "4096.5 is no count": ({"hidden_size": 4096.5}, "FORMAT", "FORMAT"),
    "a count in quotes": ({"vocab_size": "128256"}, "FORMAT", "FORMAT"),
    "a negative count": ({"vocab_size": -1}, "FORMAT", "FORMAT"),
    "true is no count": ({"num_hidden_layers": True}, "FORMAT", "FORMAT"),
    "a count beyond 64 bits": ({"vocab_size": 2**64}, "OVERFLOW", "OVERFLOW"),
    "a count of thousands of digits": ({"vocab_size": 10**5000}, "OVERFLOW", "OVERFLOW"),
    "heads 0 without head_dim": ({"num_attention_heads": 0}, "FORMAT", "FORMAT"),
    "heads that do not divide": ({"num_attention_heads": 48}, "FORMAT", "FORMAT"),
    **{
        f"zero {key}": ({key: 0}, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
        for key in (
            "num_hidden_layers",
            "hidden_size",
            "intermediate_size",
            "vocab_size",
            "rms_norm_eps",
            "max_position_embeddings",
            "head_dim",
            "num_key_value_heads",
        )
    },
    "zero rope_theta": ({"rope_theta": 0}, "INVALID_ARGUMENT", "FORMAT"),
    "negative rope_theta": ({"rope_theta": -1.0}, "INVALID_ARGUMENT", "FORMAT"),
    "negative rms_norm_eps": ({"rms_norm_eps": -1e-5}, "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    "kv heads above heads": (
        {"num_key_value_heads": 64},
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
    ),
    "heads no multiple of kv heads": (
        {"num_key_value_heads": 5},
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
    ),
    "heads wider than the model": ({"head_dim": 256}, "INVALID_ARGUMENT", "OK"),
    **{
        f"dtype {name}": ({"torch_dtype": name}, "OK", "OK")
        for name in ("float32", "f32", "float16", "f16", "bfloat16", "bf16")
    },
    "dtype int8": ({"torch_dtype": "int8"}, "UNSUPPORTED_DTYPE", "UNSUPPORTED_DTYPE"),
    "dtype float64": ({"torch_dtype": "float64"}, "UNSUPPORTED_DTYPE", "OK"),
    "a dtype that is no string": ({"torch_dtype": 16}, "FORMAT", "FORMAT"),
    "the newer dtype key": ({"torch_dtype": ABSENT, "dtype": "bfloat16"}, "FORMAT", "OK"),
    "the newer rope key": (
        {"rope_theta": ABSENT, "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
        "FORMAT",
        "OK",
    ),
    "eos absent": ({"eos_token_id": ABSENT}, "OK", "OK"),
    "eos list": ({"eos_token_id": [128001, 128009]}, "OK", "OK"),
    "eos list of 16": ({"eos_token_id": list(range(16))}, "OK", "OK"),
    "eos list of 17": ({"eos_token_id": list(range(17))}, "LIMIT_EXCEEDED", "OK"),
    "eos empty": ({"eos_token_id": []}, "FORMAT", "FORMAT"),
    "eos with a string": ({"eos_token_id": [1, "x"]}, "FORMAT", "FORMAT"),
    "eos beyond the vocabulary": (
        {"eos_token_id": 128256},
        "LIMIT_EXCEEDED",
        "LIMIT_EXCEEDED",
    ),
    "more than ten thousand million parameters": (
        {"num_hidden_layers": 80},
        "LIMIT_EXCEEDED",
        "OK",
    ),
    "a tie flag that is no flag": ({"tie_word_embeddings": 1}, "FORMAT", "FORMAT"),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_llama_fields_in_lis_scope(row: str) -> None:
    changes, expected, _ = ROWS[row]
    assert status(changed(EIGHT_B, **changes), strict=True) == expected


@pytest.mark.parametrize("row", ROWS)
def test_the_llama_fields_outside_lis_scope(row: str) -> None:
    changes, _, expected = ROWS[row]
    assert status(changed(EIGHT_B, **changes), strict=False) == expected


def test_the_real_8b_config_in_full() -> None:
    config = parse_llama_config(EIGHT_B, True)
    assert config == LlamaConfig(
        model_type="llama",
        num_hidden_layers=32,
        hidden_size=4096,
        intermediate_size=14336,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=128256,
        rope_theta=500000.0,
        rms_norm_eps=1e-5,
        weight_dtype="bf16",
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        eos_token_ids=(128001,),
    )
    assert config.num_params == 8_030_261_248


def test_defaults_are_derived_and_not_invented() -> None:
    config = parse_llama_config(
        changed(EIGHT_B, num_key_value_heads=ABSENT, rms_norm_eps=ABSENT, eos_token_id=[1, 2]), True
    )
    assert (config.num_key_value_heads, config.head_dim) == (32, 128)
    assert (config.rms_norm_eps, config.eos_token_ids) == (1e-5, (1, 2))


def test_a_scaled_rotary_embedding_is_carried_outside_lis_scope() -> None:
    values, _ = fixture("llama-tied-rope3")
    config = parse_llama_config(values)
    assert config.rope_scaling["factor"] == 8.0
    assert config.rope_theta == 500000.0
    assert config.weight_dtype == "bf16"


def test_a_nested_key_of_the_same_name_is_not_taken() -> None:
    values = changed(EIGHT_B, vocab_size=ABSENT, extra={"vocab_size": 5}, note='"vocab_size": 7')
    assert status(values) == "FORMAT"


def test_positions_beyond_the_trained_ones() -> None:
    assert status(EIGHT_B, context=8192) == "OK"
    assert status(EIGHT_B, context=8193) == "LIMIT_EXCEEDED"


QWEN_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "dense Qwen 3": ({}, "OK"),
    "another architecture": ({"architectures": ["Qwen3Model"]}, "UNSUPPORTED_FORMAT"),
    "two architectures": (
        {"architectures": ["Qwen3ForCausalLM", "Qwen3ForCausalLM"]},
        "UNSUPPORTED_FORMAT",
    ),
    "no architectures": ({"architectures": ABSENT}, "UNSUPPORTED_FORMAT"),
    "bias": ({"attention_bias": True}, "UNSUPPORTED"),
    "bias not stated": ({"attention_bias": ABSENT}, "UNSUPPORTED"),
    "sliding window": ({"use_sliding_window": True}, "UNSUPPORTED"),
    "sliding window not stated": ({"use_sliding_window": ABSENT}, "UNSUPPORTED"),
    "0 is not false": ({"attention_bias": 0}, "UNSUPPORTED"),
    "another activation": ({"hidden_act": "gelu"}, "UNSUPPORTED"),
    "no kv heads": ({"num_key_value_heads": ABSENT}, "FORMAT"),
    "no head_dim": ({"head_dim": ABSENT}, "FORMAT"),
    "no rms_norm_eps": ({"rms_norm_eps": ABSENT}, "FORMAT"),
    "f16": ({"torch_dtype": "float16"}, "UNSUPPORTED_DTYPE"),
    "f32": ({"torch_dtype": "float32"}, "UNSUPPORTED_DTYPE"),
}


@pytest.mark.parametrize("row", QWEN_ROWS)
def test_the_fields_of_a_dense_qwen3_in_lis_scope(row: str) -> None:
    changes, expected = QWEN_ROWS[row]
    assert status(changed(QWEN, **changes)) == expected


# --- import of a directory ---------------------------------------------------------------------

SMALL = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "max_position_embeddings": 64,
}
SMALL_QWEN = {
    **SMALL,
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "use_sliding_window": False,
    "hidden_act": "silu",
    "head_dim": 8,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
}

Shapes = dict[str, tuple[int, ...]]


def small_tensors(head: bool = True, head_dim: int = 4, norms: bool = False) -> Shapes:
    tensors: Shapes = {"model.embed_tokens.weight": (32, 16), "model.norm.weight": (16,)}
    if head:
        tensors["lm_head.weight"] = (32, 16)
    for layer in range(2):
        at = f"model.layers.{layer}."
        tensors[at + "input_layernorm.weight"] = (16,)
        tensors[at + "post_attention_layernorm.weight"] = (16,)
        tensors[at + "self_attn.q_proj.weight"] = (4 * head_dim, 16)
        tensors[at + "self_attn.k_proj.weight"] = (2 * head_dim, 16)
        tensors[at + "self_attn.v_proj.weight"] = (2 * head_dim, 16)
        tensors[at + "self_attn.o_proj.weight"] = (16, 4 * head_dim)
        if norms:
            tensors[at + "self_attn.q_norm.weight"] = (head_dim,)
            tensors[at + "self_attn.k_norm.weight"] = (head_dim,)
        tensors[at + "mlp.gate_proj.weight"] = (24, 16)
        tensors[at + "mlp.up_proj.weight"] = (24, 16)
        tensors[at + "mlp.down_proj.weight"] = (16, 24)
    return tensors


def directory(
    tmp_path: Path,
    tensors: Shapes | None,
    config: Any = SMALL,
    dtype: str = "F32",
    dtypes: dict[str, str] | None = None,
    name: str = "model.safetensors",
) -> Path:
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text, "utf-8")
    if tensors is not None:
        header: dict[str, Any] = {}
        end = 0
        for tensor, shape in tensors.items():
            kind = (dtypes or {}).get(tensor, dtype)
            size = WIDTH_BYTES[kind]
            for dim in shape:
                size *= dim
            header[tensor] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        (tmp_path / name).write_bytes(pack(header, bytes(end)))
    return tmp_path


def without(tensors: Shapes, *names: str) -> Shapes:
    return {name: dims for name, dims in tensors.items() if name not in names}


Q = "model.layers.0.self_attn.q_proj.weight"
TIED = {**SMALL, "tie_word_embeddings": True}
ALL = small_tensors()
QWEN_ALL = small_tensors(head_dim=8, norms=True)

IMPORTS: dict[str, tuple[Shapes, dict[str, Any], str]] = {
    "a whole checkpoint": (ALL, {}, "OK"),
    "a missing tensor": (without(ALL, Q), {}, "FORMAT"),
    "tied without a head": (small_tensors(head=False), {"config": TIED}, "OK"),
    "untied without a head": (small_tensors(head=False), {}, "FORMAT"),
    "a head clears the tie": (ALL, {"config": TIED}, "OK"),
    "a head of the wrong shape clears it too": (
        {**ALL, "lm_head.weight": (16, 32)},
        {"config": TIED},
        "SHAPE_MISMATCH",
    ),
    "a transposed embedding": (
        {**ALL, "model.embed_tokens.weight": (16, 32)},
        {},
        "SHAPE_MISMATCH",
    ),
    "an embedding of rank 1": (
        {**ALL, "model.embed_tokens.weight": (512,)},
        {},
        "UNSUPPORTED_SHAPE",
    ),
    "I32 weights": (ALL, {"dtype": "I32"}, "UNSUPPORTED_DTYPE"),
    "one I32 tensor of the wrong rank": (
        {**ALL, Q: (256,)},
        {"dtypes": {Q: "I32"}},
        "UNSUPPORTED_DTYPE",
    ),
    "a layer beyond the last": ({**ALL, Q.replace(".0.", ".2."): (16, 16)}, {}, "FORMAT"),
    "a layer number in other digits": ({**ALL, Q.replace(".0.", ".00."): (16, 16)}, {}, "FORMAT"),
    "fused q/k/v": (
        {**ALL, "model.layers.0.self_attn.qkv_proj.weight": (32, 16)},
        {},
        "FORMAT",
    ),
    "a bias": ({**ALL, "model.layers.0.self_attn.q_proj.bias": (16,)}, {}, "FORMAT"),
    "rotary tables": (
        {**ALL, "model.layers.0.self_attn.rotary_emb.inv_freq": (2,)},
        {},
        "FORMAT",
    ),
    "an internal name": ({**ALL, "lis.token_embeddings": (32, 16)}, {}, "FORMAT"),
    "all F16": (ALL, {"dtype": "F16", "config": {**SMALL, "torch_dtype": "float16"}}, "OK"),
    "all BF16": (ALL, {"dtype": "BF16", "config": {**SMALL, "torch_dtype": "bfloat16"}}, "OK"),
    "one F32 among F16": (
        ALL,
        {
            "dtype": "F16",
            "config": {**SMALL, "torch_dtype": "float16"},
            "dtypes": {"model.norm.weight": "F32"},
        },
        "UNSUPPORTED_DTYPE",
    ),
    "uniform, but not what the config says": (ALL, {"dtype": "F16"}, "UNSUPPORTED_DTYPE"),
    "dense Qwen 3": (QWEN_ALL, {"dtype": "BF16", "config": SMALL_QWEN}, "OK"),
    "Qwen 3 with o_proj as if its heads made the hidden size": (
        {**QWEN_ALL, "model.layers.0.self_attn.o_proj.weight": (16, 16)},
        {"dtype": "BF16", "config": SMALL_QWEN},
        "SHAPE_MISMATCH",
    ),
    "Qwen 3 without a q_norm": (
        without(QWEN_ALL, "model.layers.1.self_attn.q_norm.weight"),
        {"dtype": "BF16", "config": SMALL_QWEN},
        "FORMAT",
    ),
    "a malformed config": (ALL, {"config": '{"model_type": '}, "FORMAT"),
}


@pytest.mark.parametrize("row", IMPORTS)
def test_what_lis_says_of_a_directory(tmp_path: Path, row: str) -> None:
    tensors, options, expected = IMPORTS[row]
    report = lis_checkpoint(directory(tmp_path, tensors, **options))
    assert report.status == expected, report.reason


def test_lis_needs_config_and_weights(tmp_path: Path) -> None:
    assert lis_checkpoint(directory(tmp_path, ALL, None)).status == "UNSUPPORTED_FORMAT"
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        lis_checkpoint(directory(tmp_path, None))


def test_lis_ignores_an_index_beside_a_merged_file_and_takes_no_index_alone(
    tmp_path: Path,
) -> None:
    folder = directory(tmp_path, ALL)
    (folder / "model.safetensors.index.json").write_text("this is no JSON", "utf-8")
    assert lis_checkpoint(folder).status == "OK"
    (folder / "model.safetensors").unlink()
    assert lis_checkpoint(folder).status == "UNSUPPORTED_FORMAT"


def test_every_fault_of_a_directory_is_listed_and_not_the_first_only(tmp_path: Path) -> None:
    tensors = {**without(ALL, Q), "extra": (1,), "model.norm.weight": (17,)}
    report = lis_checkpoint(directory(tmp_path, tensors))
    faults = {t.name: t.status for t in report.tensors if t.status != "OK"}
    assert faults == {"extra": "FORMAT", "model.norm.weight": "SHAPE_MISMATCH", Q: "FORMAT"}


def test_addresses_and_other_kinds_of_file_are_no_directories() -> None:
    for name in ("https://example.org/m", "m.gguf", "m.pt", "m.pth", "m.bin"):
        assert lis_checkpoint(name).status == "UNSUPPORTED_FORMAT"
