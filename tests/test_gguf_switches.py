"""Files that the exporter writes under other switches, or states less of: the config still fits."""

from __future__ import annotations

from typing import Any

import pytest

from dmexp.errors import FormatError
from dmexp.families import describe
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


def test_blocks_that_predict_further_tokens_are_no_model_by_themselves() -> None:
    block = {"nextn.eh_proj.weight": (HIDDEN, 2 * HIDDEN), **MLP}
    metadata = {f"qwen35.{key}": value for key, value in SIZES.items()}
    metadata |= {"qwen35.nextn_predict_layers": 1}
    tensors = {"token_embd.weight": (VOCAB, HIDDEN)}
    tensors |= {f"blk.1.{name}": dims for name, dims in block.items()}
    found, notices = build_config("qwen35", metadata, tensors)
    # The export then says that the config was not checked, instead of refusing the tensors.
    assert describe(found, []).status == "not checked"
    assert len(notices) == 1


def test_a_head_that_no_key_states_is_as_wide_as_its_rows() -> None:
    block = MLP | {"attn_q.weight": (HEADS * 8, HIDDEN), "attn_k.weight": (KV * 8, HIDDEN)}
    assert config("chatglm", block, block)["head_dim"] == 8
    assert config("llama", block, block)["head_dim"] == 8
    assert config("llama", MLP, MLP)["head_dim"] == HEAD


MIXTURE = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 24}
MIXTURE |= {"expert_shared_count": 1, "leading_dense_block_count": 1}


@pytest.mark.parametrize(
    ("architecture", "keys", "expected"),
    [
        (
            "dots1",
            MIXTURE | {"expert_weights_norm": True},
            {"model_type": "dots1", "n_routed_experts": 4, "first_k_dense_replace": 1},
        ),
        (
            "exaone-moe",
            MIXTURE,
            {"model_type": "exaone_moe", "num_experts": 4, "mlp_layer_types": ["dense", "sparse"]},
        ),
        (
            "hunyuan-moe",
            MIXTURE,
            {"model_type": "hunyuan_v1_moe", "moe_topk": [2, 2], "num_shared_expert": [1, 1]},
        ),
        ("jais2", {}, {"model_type": "jais2", "hidden_act": "relu2"}),
        (
            "gemma-embedding",
            {"attention__sliding_window": 8, "rope__freq_base_swa": 1e4},
            {"model_type": "gemma3_text", "use_bidirectional_attention": True},
        ),
        (
            "modern-bert",
            {"attention__sliding_window": 8, "rope__freq_base_swa": 1e4},
            {
                "model_type": "modernbert",
                "local_attention": 8,
                "layer_types": ["full_attention", "sliding_attention"],
            },
        ),
        ("starcoder", {}, {"model_type": "gpt_bigcode", "n_inner": INNER, "multi_query": False}),
        (
            "t5encoder",
            {"attention__key_length": 6, "attention__relative_buckets_count": 32},
            {"model_type": "t5", "architectures": ["T5EncoderModel"], "d_kv": 6},
        ),
    ],
)
def test_rarer_families_get_their_own_keys(
    architecture: str, keys: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert config(architecture, MLP, MLP, **keys).items() >= expected.items()
