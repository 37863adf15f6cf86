"""Make the reference values in this directory with PyTorch and transformers.

    python make.py

Run by hand, in an environment that has both (the versions used are in each .json). The weights
are not stored: `runtime_weights.weights` draws them again from the seed, with a generator whose
stream NumPy has frozen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from runtime_weights import weights  # noqa: E402

SHARED = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "llama-llama3": ("llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}},
    ),
    "mistral": ("mistral", {"sliding_window": 7, "head_dim": 16}),
    "qwen2": ("qwen2", {"use_sliding_window": False, "tie_word_embeddings": True}),
    "qwen2-sliding": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma": ("gemma", {"head_dim": 16}),
    "gemma2": (
        "gemma2",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "sliding_window": 7,
            "attn_logit_softcapping": 5.0,
            "final_logit_softcapping": 5.0,
        },
    ),
    "gemma3": (
        "gemma3_text",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "sliding_window": 7,
            "num_hidden_layers": 4,
            "layer_types": [
                "sliding_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
            ],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
}


def plain(value: Any) -> Any:
    """The config as a header carries it: no nulls, no private keys of the library's making."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return value


def main() -> None:
    torch.set_num_threads(1)
    for seed, (name, (kind, changes)) in enumerate(CASES.items(), start=100):
        config = transformers.AutoConfig.for_model(
            kind, **(SHARED | changes), attn_implementation="eager"
        )
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        # A tied head is no parameter of its own here.
        dims = {key: tuple(value.shape) for key, value in model.named_parameters()}
        drawn = weights(dims, seed, kind)
        if config.tie_word_embeddings:
            drawn["lm_head.weight"] = drawn["model.embed_tokens.weight"]
        model.load_state_dict({key: torch.from_numpy(value) for key, value in drawn.items()})
        tokens = np.random.RandomState(seed).randint(3, 96, size=40)
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
            ids = tokens[:9].tolist()
            for _ in range(40):
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        described = {
            "made_with": f"torch {torch.__version__}, transformers {transformers.__version__}",
            "seed": seed,
            "dims": dims,
            "config": plain(config.to_dict()),
            "tokens": tokens.tolist(),
            "greedy": ids[9:],
        }
        (HERE / f"{name}.json").write_text(json.dumps(described) + "\n")
        np.savez_compressed(HERE / f"{name}.npz", logits=logits)
        print(name, float(np.abs(logits).max()), ids[9:20])


if __name__ == "__main__":
    main()
