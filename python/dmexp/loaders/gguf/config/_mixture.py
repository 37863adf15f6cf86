"""Mixtures of experts outside the Llama and Qwen lines."""

from __future__ import annotations

from ._decoder import standard
from ._meta import Meta, Values


def gpt_oss(m: Meta) -> Values:
    config = standard(m, "gpt_oss", "GptOssForCausalLM")
    config["intermediate_size"] = m.count(
        "expert_feed_forward_length", m.count("feed_forward_length")
    )
    config["num_local_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    config["sliding_window"] = m.count("attention.sliding_window")
    config["layer_types"] = [
        "sliding_attention" if index % 2 == 0 else "full_attention" for index in range(m.layers)
    ]
    # Constants of the architecture, which no file states.
    config["swiglu_limit"] = 7.0
    config["swiglu_alpha"] = 1.702
    for table in (config.get("rope_scaling"), config["rope_parameters"]):
        if table is not None and table["rope_type"] == "yarn":
            table["truncate"] = False
    return config


def ernie_moe(m: Meta) -> Values:
    config = standard(m, "ernie4_5_moe", "Ernie4_5_MoeForCausalLM", bias=False)
    return config | {
        "use_bias": m.has("attn_q.bias"),
        "moe_num_experts": m.count("expert_count"),
        "moe_k": m.count("expert_used_count"),
        "moe_intermediate_size": m.count("expert_feed_forward_length"),
        "moe_num_shared_experts": m.count("expert_shared_count", 0, zero=True),
        "moe_layer_start_index": m.count("leading_dense_block_count", 0, zero=True),
        "moe_layer_interval": m.count("interleave_moe_layer_step", 1),
    }


def olmoe(m: Meta) -> Values:
    config = standard(m, "olmoe", "OlmoeForCausalLM")
    config["num_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    config["norm_topk_prob"] = m.flag("expert_weights_norm", False)
    return config


def deepseek(m: Meta) -> Values:
    config = standard(m, "deepseek", "DeepseekForCausalLM")
    return config | deepseek_experts(m)


def deepseek2(m: Meta) -> Values:
    v3 = m.has("exp_probs_b.bias") or m.count("expert_gating_func", 1, zero=True) == 2
    config = (
        standard(m, "deepseek_v3", "DeepseekV3ForCausalLM")
        if v3
        else standard(m, "deepseek_v2", "DeepseekV2ForCausalLM")
    )
    return config | _latent(m, config) | deepseek_experts(m)


def _latent(m: Meta, config: Values) -> Values:
    """Attention through low-rank keys and values."""
    turned = m.count("rope.dimension_count")
    key = m.count("attention.key_length_mla", m.count("attention.key_length"))
    value = m.count("attention.value_length_mla", m.count("attention.value_length"))
    config.pop("head_dim", None)
    # The exporter calls the shared latent one key head; the checkpoint has one for each head.
    return {
        "num_key_value_heads": m.heads,
        "q_lora_rank": m.count("attention.q_lora_rank", 0, zero=True) or None,
        "kv_lora_rank": m.count("attention.kv_lora_rank"),
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": key - turned,
        "qk_head_dim": key,
        "v_head_dim": value,
    }


def deepseek_experts(m: Meta) -> Values:
    """Routed and shared experts, as DeepSeek and those that followed it name them."""
    if not m.count("expert_count", 0, zero=True):
        return {}
    keys: Values = {
        "n_routed_experts": m.count("expert_count"),
        "num_experts_per_tok": m.count("expert_used_count"),
        "n_shared_experts": m.count("expert_shared_count", 0, zero=True),
        "moe_intermediate_size": m.count("expert_feed_forward_length"),
        "first_k_dense_replace": m.count("leading_dense_block_count", 0, zero=True),
        "moe_layer_freq": 1,
        "routed_scaling_factor": m.number("expert_weights_scale", 1.0),
        "norm_topk_prob": m.flag("expert_weights_norm", False),
    }
    gating = m.count("expert_gating_func", 0, zero=True)
    if gating:
        keys["scoring_func"] = "sigmoid" if gating == 2 else "softmax"
    if m.present("expert_group_count"):
        keys["n_group"] = m.count("expert_group_count")
        keys["topk_group"] = m.count("expert_group_used_count", 1)
    return keys


def glm4moe(m: Meta) -> Values:
    config = standard(m, "glm4_moe", "Glm4MoeForCausalLM", partial=True)
    config["use_qk_norm"] = m.has("attn_q_norm.weight")
    if m.predicting:
        config["num_nextn_predict_layers"] = m.predicting
    config |= deepseek_experts(m)
    # A pair of keys that this family does not have.
    for key in ("moe_layer_freq", "scoring_func"):
        config.pop(key, None)
    return config


def minimax_m2(m: Meta) -> Values:
    config = standard(m, "minimax_m2", "MiniMaxM2ForCausalLM", bias=False)
    # Here the one width is that of the experts: the model has no other MLP.
    config["intermediate_size"] = m.count("expert_feed_forward_length")
    config["num_local_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    config["rotary_dim"] = m.count("rope.dimension_count", m.head_dim)
    config["use_qk_norm"] = m.has("attn_q_norm.weight")
    config["scoring_func"] = "sigmoid"
    return config


def phimoe(m: Meta) -> Values:
    config = standard(m, "phimoe", "PhimoeForCausalLM")
    config["num_local_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    config["lm_head_bias"] = "output.bias" in m.tensors
    return config


def llama4(m: Meta) -> Values:
    config = standard(m, "llama4_text", "Llama4ForCausalLM")
    config["intermediate_size_mlp"] = config["intermediate_size"]
    config["intermediate_size"] = m.count("expert_feed_forward_length")
    config["num_local_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    config["interleave_moe_layer_step"] = m.count("interleave_moe_layer_step", 1, zero=True)
    config["moe_layers"] = sorted(m.blocks_with("ffn_gate_inp.weight"))
    return config


def dbrx(m: Meta) -> Values:
    return {
        "architectures": ["DbrxForCausalLM"],
        "model_type": "dbrx",
        "vocab_size": m.vocab,
        "d_model": m.count("embedding_length"),
        "n_layers": m.layers,
        "n_heads": m.heads,
        "max_seq_len": m.count("context_length"),
        "tie_word_embeddings": m.tied,
        "attn_config": {
            "kv_n_heads": m.kv_heads,
            "clip_qkv": m.number("attention.clamp_kqv"),
            "rope_theta": m.number("rope.freq_base"),
        },
        "ffn_config": {
            "ffn_hidden_size": m.count("feed_forward_length"),
            "moe_num_experts": m.count("expert_count"),
            "moe_top_k": m.count("expert_used_count"),
        },
    }
