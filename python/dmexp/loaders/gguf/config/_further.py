"""Families that are rarer, each a variation of one that has a module."""

from __future__ import annotations

from ._decoder import layer_types, standard, tokens
from ._meta import Meta, Values
from ._mixture import deepseek_experts
from ._older import encoder_padding, t5
from ._rope import base_of


def glm(m: Meta) -> Values:
    """GLM 4 under its Hugging Face names; ChatGLM's own shares the architecture string."""
    return standard(m, "glm", "GlmForCausalLM", partial=True)


def jais2(m: Meta) -> Values:
    return standard(
        m, "jais2", "Jais2ForCausalLM", act="relu2", eps="layer_norm_eps", mlp_bias=True
    )


def dots1(m: Meta) -> Values:
    config = standard(m, "dots1", "Dots1ForCausalLM") | deepseek_experts(m)
    del config["moe_layer_freq"]
    return config


def exaone_moe(m: Meta) -> Values:
    config = standard(m, "exaone_moe", "ExaoneMoeForCausalLM", bias=False)
    experts = deepseek_experts(m)
    dense = experts["first_k_dense_replace"]
    sliding = m.flags("attention.sliding_window_pattern")
    if sliding is not None:
        config["sliding_window"] = m.count("attention.sliding_window")
        config["layer_types"] = layer_types(sliding[: m.layers])
    return config | {
        "num_experts": experts["n_routed_experts"],
        "num_experts_per_tok": experts["num_experts_per_tok"],
        "num_shared_experts": experts["n_shared_experts"],
        "moe_intermediate_size": experts["moe_intermediate_size"],
        "first_k_dense_replace": dense,
        "mlp_layer_types": ["dense" if index < dense else "sparse" for index in range(m.layers)],
        "n_group": experts.get("n_group", 1),
        "topk_group": experts.get("topk_group", 1),
        "norm_topk_prob": experts["norm_topk_prob"],
        "routed_scaling_factor": experts["routed_scaling_factor"],
        **({"num_nextn_predict_layers": m.predicting} if m.predicting else {}),
    }


def hunyuan_moe(m: Meta) -> Values:
    config = standard(m, "hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM")
    layers = m.layers
    return config | {
        "num_experts": m.count("expert_count"),
        "moe_topk": [m.count("expert_used_count")] * layers,
        "moe_intermediate_size": [m.count("expert_feed_forward_length")] * layers,
        "num_shared_expert": [m.count("expert_shared_count", 1, zero=True)] * layers,
    }


def starcoder(m: Meta) -> Values:
    config: Values = {
        "architectures": ["GPTBigCodeForCausalLM"],
        "model_type": "gpt_bigcode",
        "vocab_size": m.vocab,
        "n_embd": m.count("embedding_length"),
        "n_layer": m.layers,
        "n_head": m.heads,
        "n_positions": m.tensors.get("position_embd.weight", (m.count("context_length"),))[0],
        "n_inner": m.feed_forward,
        "activation_function": "gelu_pytorch_tanh",
        "layer_norm_epsilon": m.number("attention.layer_norm_epsilon"),
        "multi_query": m.kv_heads == 1,
    }
    return config | tokens(m)


def t5_encoder(m: Meta) -> Values:
    config = t5(m) | {"architectures": ["T5EncoderModel"], "is_encoder_decoder": False}
    for key in ("num_decoder_layers", "tie_word_embeddings"):
        del config[key]
    return config


def modern_bert(m: Meta) -> Values:
    full = {"rope_theta": base_of(m, "rope.freq_base"), "rope_type": "default"}
    sliding = {"rope_theta": base_of(m, "rope.freq_base_swa"), "rope_type": "default"}
    labelled = "cls.output.weight" in m.tensors
    name = "ModernBertForSequenceClassification" if labelled else "ModernBertModel"
    config: Values = {
        "architectures": [name],
        "model_type": "modernbert",
        "vocab_size": m.vocab,
        "hidden_size": m.count("embedding_length"),
        "num_hidden_layers": m.layers,
        "num_attention_heads": m.heads,
        "intermediate_size": m.count("feed_forward_length"),
        "max_position_embeddings": m.count("context_length"),
        "hidden_activation": m.text("hidden_activation") or "gelu",
        "norm_eps": m.number(
            "attention.layer_norm_epsilon", m.number("attention.layer_norm_rms_epsilon", 1e-5)
        ),
        "norm_bias": "output_norm.bias" in m.tensors,
        "attention_bias": m.has("attn_qkv.bias"),
        "mlp_bias": m.has("ffn_up.bias"),
        # Every third layer sees everything, from the first on: part of the architecture.
        "layer_types": layer_types([index % 3 != 0 for index in range(m.layers)]),
        "local_attention": m.count("attention.sliding_window"),
        "rope_parameters": {"full_attention": full, "sliding_attention": sliding},
    }
    return config | encoder_padding(m)
