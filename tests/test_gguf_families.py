"""Families that the corpus lacks: canonical names, config and shape check fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmexp.contracts import plan
from dmexp.families import describe
from dmexp.loaders.gguf.config import build_config

Dims = tuple[int, ...]
HIDDEN, HEADS, KV, HEAD, INNER, VOCAB, LAYERS = 32, 4, 2, 8, 48, 96, 2


def blocks(tensors: dict[str, Dims]) -> dict[str, Dims]:
    return {
        f"blk.{index}.{name}": dims for index in range(LAYERS) for name, dims in tensors.items()
    }


def decoder(block: dict[str, Dims], *, head: bool = True, **more: Dims) -> dict[str, Dims]:
    tensors: dict[str, Dims] = {
        "token_embd.weight": (VOCAB, HIDDEN),
        "output_norm.weight": (HIDDEN,),
    }
    if head:
        tensors["output.weight"] = (VOCAB, HIDDEN)
    return tensors | more | blocks(block)


ATTENTION: dict[str, Dims] = {
    "attn_norm.weight": (HIDDEN,),
    "attn_q.weight": (HEADS * HEAD, HIDDEN),
    "attn_k.weight": (KV * HEAD, HIDDEN),
    "attn_v.weight": (KV * HEAD, HIDDEN),
    "attn_output.weight": (HIDDEN, HEADS * HEAD),
}
BIASES: dict[str, Dims] = {
    "attn_q.bias": (HEADS * HEAD,),
    "attn_k.bias": (KV * HEAD,),
    "attn_v.bias": (KV * HEAD,),
}
MLP: dict[str, Dims] = {
    "ffn_norm.weight": (HIDDEN,),
    "ffn_gate.weight": (INNER, HIDDEN),
    "ffn_up.weight": (INNER, HIDDEN),
    "ffn_down.weight": (HIDDEN, INNER),
}
EXPERTS: dict[str, Dims] = {
    "ffn_norm.weight": (HIDDEN,),
    "ffn_gate_inp.weight": (4, HIDDEN),
    "ffn_gate_exps.weight": (4, 24, HIDDEN),
    "ffn_up_exps.weight": (4, 24, HIDDEN),
    "ffn_down_exps.weight": (4, HIDDEN, 24),
}
SHARED: dict[str, Dims] = {
    "ffn_gate_inp_shexp.weight": (HIDDEN,),
    "ffn_gate_shexp.weight": (40, HIDDEN),
    "ffn_up_shexp.weight": (40, HIDDEN),
    "ffn_down_shexp.weight": (HIDDEN, 40),
}
POST_NORMS: dict[str, Dims] = {
    "post_attention_norm.weight": (HIDDEN,),
    "post_ffw_norm.weight": (HIDDEN,),
}
ROTARY_FACTORS: dict[str, Dims] = {
    "rope_factors_long.weight": (HEAD // 2,),
    "rope_factors_short.weight": (HEAD // 2,),
}
GPT2: dict[str, Dims] = {
    "attn_norm.weight": (HIDDEN,),
    "attn_norm.bias": (HIDDEN,),
    "attn_qkv.weight": (3 * HIDDEN, HIDDEN),
    "attn_qkv.bias": (3 * HIDDEN,),
    "attn_output.weight": (HIDDEN, HIDDEN),
    "attn_output.bias": (HIDDEN,),
    "ffn_norm.weight": (HIDDEN,),
    "ffn_norm.bias": (HIDDEN,),
    "ffn_up.weight": (INNER, HIDDEN),
    "ffn_up.bias": (INNER,),
    "ffn_down.weight": (HIDDEN, INNER),
    "ffn_down.bias": (HIDDEN,),
}

CASES: dict[str, tuple[str, dict[str, Dims], dict[str, Any]]] = {
    "qwen2": ("qwen2", decoder(ATTENTION | BIASES | MLP, head=False), {}),
    "qwen2moe": (
        "qwen2_moe",
        decoder(ATTENTION | BIASES | EXPERTS | SHARED),
        {
            "expert_count": 4,
            "expert_used_count": 2,
            "expert_feed_forward_length": 24,
            "expert_shared_feed_forward_length": 40,
        },
    ),
    "gemma": (
        "gemma",
        decoder(ATTENTION | MLP, head=False),
        {"attention.key_length": HEAD, "attention.value_length": HEAD},
    ),
    "gemma2": (
        "gemma2",
        decoder(ATTENTION | MLP | POST_NORMS, head=False),
        {
            "attention.key_length": HEAD,
            "attention.sliding_window": 16,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
    ),
    "phi3": (
        "phi3",
        decoder(
            {
                "attn_norm.weight": (HIDDEN,),
                "attn_qkv.weight": ((HEADS + 2 * KV) * HEAD, HIDDEN),
                "attn_output.weight": (HIDDEN, HEADS * HEAD),
                "ffn_norm.weight": (HIDDEN,),
                "ffn_up.weight": (2 * INNER, HIDDEN),
                "ffn_down.weight": (HIDDEN, INNER),
            },
        )
        | ROTARY_FACTORS,
        {"rope.scaling.original_context_length": 64, "rope.dimension_count": HEAD},
    ),
    "gpt2": (
        "gpt2",
        decoder(GPT2, head=False)
        | {"position_embd.weight": (128, HIDDEN), "output_norm.bias": (HIDDEN,)},
        {"attention.layer_norm_epsilon": 1e-5, "attention.head_count_kv": None},
    ),
    "granite": (
        "granite",
        decoder(ATTENTION | MLP),
        {
            "attention.scale": 0.0156,
            "embedding_scale": 12.0,
            "residual_scale": 0.22,
            "logit_scale": 6.0,
        },
    ),
    "mistral3": ("mistral", decoder(ATTENTION | MLP), {}),
}


@pytest.mark.parametrize("arch", CASES)
def test_config_and_canonical_names_fit_together(arch: str) -> None:
    model_type, tensors, more = CASES[arch]
    keys: dict[str, Any] = {
        "block_count": LAYERS,
        "context_length": 128,
        "embedding_length": HIDDEN,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        **more,
    }
    metadata = {f"{arch}.{key}": value for key, value in keys.items() if value is not None}
    metadata["general.architecture"] = arch
    planned = plan(arch, metadata, tensors)
    config, _ = build_config(
        arch, metadata, tensors, lambda name: np.linspace(1, 2, tensors[name][0], dtype=np.float32)
    )
    assert config["model_type"] == model_type
    verdict = describe(config, [(output.name, output.dims) for output in planned.outputs])
    assert verdict.status == "yes", [str(conflict) for conflict in verdict.conflicts]
