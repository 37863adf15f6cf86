"""Bamba and Granite's hybrids share one architecture string; the header tells them apart."""

from __future__ import annotations

from typing import Any

import pytest

from dmexp import contracts
from dmexp.loaders.gguf.config import build_config

METADATA = {
    "block_count": 1,
    "context_length": 64,
    "embedding_length": 12,
    "feed_forward_length": 5,
    "attention.head_count": 2,
    "attention.head_count_kv": [0],
    "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 1e4,
    "ssm.conv_kernel": 4,
    "ssm.state_size": 8,
    "ssm.group_count": 1,
    "ssm.inner_size": 24,
    "ssm.time_step_rank": 4,
}
TENSORS: dict[str, tuple[int, ...]] = {
    "token_embd.weight": (20, 12),
    "output_norm.weight": (12,),
    "blk.0.ffn_norm.weight": (12,),
    "blk.0.ffn_gate.weight": (5, 12),
    "blk.0.ffn_up.weight": (5, 12),
    "blk.0.attn_k.weight": (6, 12),
}
GRANITE = ("model.norm.weight", "model.layers.0.shared_mlp.input_linear.weight")
BAMBA = ("model.final_layernorm.weight", "model.layers.0.feed_forward.gate_proj.weight")


@pytest.mark.parametrize(
    ("keys", "names", "model_type"),
    [
        ({}, GRANITE, "granitemoehybrid"),
        ({"rope.scaling.finetuned": False}, GRANITE, "granitemoehybrid"),
        ({"rope.scaling.finetuned": True}, BAMBA, "bamba"),
    ],
)
def test_rotary_embedding_means_bamba(
    keys: dict[str, Any], names: tuple[str, ...], model_type: str
) -> None:
    metadata = {f"granitehybrid.{key}": value for key, value in (METADATA | keys).items()}
    found = {output.name for output in contracts.plan("granitehybrid", metadata, TENSORS).outputs}
    assert set(names) <= found
    assert build_config("granitehybrid", metadata, TENSORS)[0]["model_type"] == model_type
