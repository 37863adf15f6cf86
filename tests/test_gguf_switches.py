"""Files that the exporter writes under other switches, or states less of: the config still fits."""

from __future__ import annotations

from typing import Any

import pytest

from dmexp.errors import FormatError
from dmexp.loaders.gguf.config import build_config

Dims = tuple[int, ...]
HIDDEN, HEADS, KV, HEAD, INNER, VOCAB = 36, 6, 2, 6, 40, 96
SIZES: dict[str, Any] = {
    "block_count": 2,
    "context_length": 128,
    "embedding_length": HIDDEN,
    "feed_forward_length": 4 * HIDDEN,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV,
    "attention.layer_norm_epsilon": 1e-5,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10000.0,
}
FUSED = {
    "attn_qkv.weight": ((HEADS + 2 * KV) * HEAD, HIDDEN),
    "attn_qkv.bias": ((HEADS + 2 * KV) * HEAD,),
}
MLP = {"ffn_up.weight": (INNER, HIDDEN), "ffn_down.weight": (HIDDEN, INNER)}


def config(architecture: str, *blocks: dict[str, Dims], **keys: Any) -> dict[str, Any]:
    metadata = {f"{architecture}.{key}": value for key, value in SIZES.items()}
    metadata |= {f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    tensors: dict[str, Dims] = {"token_embd.weight": (VOCAB, HIDDEN)}
    for index, block in enumerate(blocks):
        tensors |= {f"blk.{index}.{name}": dims for name, dims in block.items()}
    return build_config(architecture, metadata, tensors)[0]


@pytest.mark.parametrize(
    ("architecture", "key"),
    [
        ("llama", "qkv_bias"),
        ("ernie4_5", "use_bias"),
        ("qwen3", "attention_bias"),
        ("stablelm", "use_qkv_bias"),
        ("starcoder2", "use_bias"),
        ("internlm2", "bias"),
    ],
)
def test_a_bias_of_fused_attention_is_a_bias(architecture: str, key: str) -> None:
    fused = MLP | FUSED
    assert config(architecture, fused, fused)[key] is True
    bare = {name: dims for name, dims in fused.items() if name != "attn_qkv.bias"}
    assert not config(architecture, bare, bare).get(key)


def test_layers_with_fused_attention_are_attention_layers() -> None:
    convolution = {"shortconv.conv.weight": (HIDDEN, 3)}
    found = config("lfm2", convolution, FUSED, shortconv__l_cache=3)
    assert found["layer_types"] == ["conv", "full_attention"]
    recurrent = {"ssm_in.weight": (10, HIDDEN)}
    keys = {"ssm__inner_size": 72, "ssm__time_step_rank": 9, "ssm__group_count": 3}
    keys |= {"ssm__state_size": 8, "ssm__conv_kernel": 4}
    found = config("nemotron_h", recurrent, FUSED, **keys)
    assert found["hybrid_override_pattern"] == "M*"


@pytest.mark.parametrize(
    ("architecture", "key", "value"),
    [
        ("phi2", "intermediate_size", INNER),
        ("gpt2", "n_inner", INNER),
        ("falcon", "ffn_hidden_size", INNER),
    ],
)
def test_a_width_that_the_exporter_does_not_ask_for_is_read_off_the_tensors(
    architecture: str, key: str, value: int
) -> None:
    assert config(architecture, MLP, MLP)[key] == value


def test_key_heads_are_read_off_the_tensors_where_no_layer_is_taken_for_attention() -> None:
    recurrent = {"ssm_in.weight": (10, HIDDEN)}
    attention = {"attn_q.weight": (HEADS * HEAD, HIDDEN), "attn_k.weight": (KV * HEAD, HIDDEN)}
    keys = {"ssm__inner_size": 72, "ssm__time_step_rank": 9, "ssm__group_count": 3}
    keys |= {"ssm__state_size": 8, "ssm__conv_kernel": 4, "attention__head_count_kv": [0, 0]}
    found = config("granitehybrid", recurrent, attention, **keys)
    assert found["num_key_value_heads"] == KV
    assert found["layer_types"] == ["mamba", "attention"]
    with pytest.raises(FormatError, match="head_count_kv"):
        config("granitehybrid", recurrent, recurrent, **keys)
