"""Decoders whose Hugging Face configs share most keys: Llama and those that followed it."""

from __future__ import annotations

from ._meta import Meta, Values
from ._rope import rope

RMS = "rms_norm_eps"


def named(m: Meta, model_type: str, architecture: str) -> Values:
    """What every config begins with."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "vocab_size": m.vocab,
        "hidden_size": m.count("embedding_length"),
        "num_hidden_layers": m.layers,
    }


def epsilon(m: Meta) -> float:
    """The norms' epsilon, under whichever of the two keys the exporter wrote."""
    for name in ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"):
        if m.present(name):
            return m.number(name)
    raise m.missing("attention.layer_norm_rms_epsilon")


def tokens(m: Meta) -> Values:
    """Special tokens and the tie, which end every config."""
    keys: Values = {"tie_word_embeddings": m.tied}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("padding", "pad")):
        value = m.token(name)
        if value is not None:
            keys[f"{key}_token_id"] = value
    return keys


def sizes(m: Meta) -> Values:
    """Heads and widths."""
    keys: Values = {
        "num_attention_heads": m.heads,
        "num_key_value_heads": m.kv_heads,
        "head_dim": m.head_dim,
        "max_position_embeddings": m.count("context_length"),
    }
    return keys


def standard(
    m: Meta,
    model_type: str,
    architecture: str,
    *,
    act: str = "silu",
    act_key: str = "hidden_act",
    eps: str = RMS,
    partial: bool = False,
    bias: bool = True,
    mlp_bias: bool = False,
    width: int | None = None,
) -> Values:
    """The config of a decoder with grouped-query attention, an MLP and rotary embedding.

    Parameters
    ----------
    act, act_key
        The activation, which no GGUF file states: it follows from the architecture.
    eps
        What the family calls its norms' epsilon.
    partial
        Whether the family can turn a part of each head only.
    bias
        Whether the family has ``attention_bias``. Its value is read off the tensors.
    mlp_bias
        The same for ``mlp_bias``.
    width
        The width of the MLP, where the exporter does not state the model's own.
    """
    config = named(m, model_type, architecture)
    config["intermediate_size"] = width or m.count("feed_forward_length")
    config |= sizes(m)
    config[act_key] = act
    config[eps] = epsilon(m)
    if bias:
        config["attention_bias"] = m.has("attn_q.bias")
    if mlp_bias:
        config["mlp_bias"] = m.has("ffn_up.bias")
    config |= rope(m, partial=partial)
    return config | tokens(m)


def llama(m: Meta) -> Values:
    """Llama, Mistral, Mixtral: one architecture string; the number of experts tells them apart.

    A Mistral file says nothing that a Llama file does not, and computes the same.
    """
    if m.count("expert_count", 0, zero=True):
        config = standard(m, "mixtral", "MixtralForCausalLM", bias=False)
        return config | {
            "num_local_experts": m.count("expert_count"),
            "num_experts_per_tok": m.count("expert_used_count"),
        }
    if m.has("attn_q.bias") and not m.has("attn_output.bias"):
        # Llama has biases on all four projections or on none; InternLM 3 on the first three.
        config = standard(m, "internlm3", "InternLM3ForCausalLM", bias=False)
        return config | {"qkv_bias": True, "bias": False}
    return standard(m, "llama", "LlamaForCausalLM", mlp_bias=True)


def smollm3(m: Meta) -> Values:
    config = standard(m, "smollm3", "SmolLM3ForCausalLM", mlp_bias=True)
    # Every fourth layer goes without rotary embedding. The file does not say so; the
    # architecture does, in every reader.
    interval = 4
    config["no_rope_layer_interval"] = interval
    config["no_rope_layers"] = [int((i + 1) % interval != 0) for i in range(m.layers)]
    return config


def baichuan(m: Meta) -> Values:
    return standard(m, "baichuan", "BaichuanForCausalLM", bias=False)


def scales(m: Meta) -> Values:
    """The factors of the Granite family, which stay out of the tensors."""
    keys: Values = {}
    for name, key in (
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ):
        if m.present(name):
            keys[key] = m.number(name)
    return keys


def granite(m: Meta) -> Values:
    return standard(m, "granite", "GraniteForCausalLM", mlp_bias=True) | scales(m)


def granitemoe(m: Meta) -> Values:
    shared = m.has("ffn_up_shexp.weight")
    config = (
        standard(m, "granitemoeshared", "GraniteMoeSharedForCausalLM")
        if shared
        else standard(m, "granitemoe", "GraniteMoeForCausalLM")
    )
    config |= scales(m)
    config["num_local_experts"] = m.count("expert_count")
    config["num_experts_per_tok"] = m.count("expert_used_count")
    if shared:
        config["shared_intermediate_size"] = m.count("expert_shared_feed_forward_length")
    return config


def nemotron(m: Meta) -> Values:
    return standard(
        m,
        "nemotron",
        "NemotronForCausalLM",
        act="relu2",
        eps="norm_eps",
        partial=True,
        mlp_bias=True,
    )


def olmo(m: Meta) -> Values:
    config = standard(m, "olmo", "OlmoForCausalLM")
    # Its norms have no gain, so the config has no epsilon for them.
    del config[RMS]
    if m.present("attention.clamp_kqv"):
        config["clip_qkv"] = m.number("attention.clamp_kqv")
    return config


def olmo2(m: Meta) -> Values:
    if m.present("attention.sliding_window"):
        config = standard(m, "olmo3", "Olmo3ForCausalLM")
        config["sliding_window"] = m.count("attention.sliding_window")
        return config
    return standard(m, "olmo2", "Olmo2ForCausalLM")


def arcee(m: Meta) -> Values:
    return standard(m, "arcee", "ArceeForCausalLM", act="relu2", mlp_bias=True)


def apertus(m: Meta) -> Values:
    return standard(m, "apertus", "ApertusForCausalLM", act="xielu")


def seed_oss(m: Meta) -> Values:
    config = standard(m, "seed_oss", "SeedOssForCausalLM", mlp_bias=True)
    config["attention_out_bias"] = m.has("attn_output.bias")
    return config


def hunyuan(m: Meta) -> Values:
    return standard(m, "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM")


def ernie(m: Meta) -> Values:
    config = standard(m, "ernie4_5", "Ernie4_5ForCausalLM", bias=False)
    config["use_bias"] = m.has("attn_q.bias")
    return config


def exaone4(m: Meta) -> Values:
    config = standard(m, "exaone4", "Exaone4ForCausalLM", bias=False)
    if m.present("attention.sliding_window"):
        config["sliding_window"] = m.count("attention.sliding_window")
        pattern = m.flags("attention.sliding_window_pattern")
        config["sliding_window_pattern"] = 4
        if pattern is not None:
            config["layer_types"] = layer_types(pattern[: m.layers])
    return config


def exaone(m: Meta) -> Values:
    return named(m, "exaone", "ExaoneForCausalLM") | {
        "num_layers": m.layers,
        "intermediate_size": m.count("feed_forward_length"),
        **sizes(m),
        "activation_function": "silu",
        "layer_norm_epsilon": epsilon(m),
        **rope(m, partial=False),
        **tokens(m),
    }


def layer_types(sliding: list[bool]) -> list[str]:
    return ["sliding_attention" if slides else "full_attention" for slides in sliding]


def minicpm(m: Meta) -> Values:
    config = standard(m, "minicpm", "MiniCPMForCausalLM")
    hidden = m.count("embedding_length")
    if m.present("embedding_scale"):
        config["scale_emb"] = m.number("embedding_scale")
    if m.present("residual_scale"):
        config["scale_depth"] = round(m.number("residual_scale") * m.layers**0.5, 6)
    if m.present("logit_scale"):
        scale = m.number("logit_scale")
        if not scale > 0:
            raise m.wrong("logit_scale", scale, "a positive number")
        config["dim_model_base"] = round(hidden / scale)
    return config


def internlm2(m: Meta) -> Values:
    config = standard(m, "internlm2", "InternLM2ForCausalLM", bias=False)
    config["bias"] = m.has("attn_q.bias")
    return config


def mistral3(m: Meta) -> Values:
    if not m.present("attention.temperature_scale"):
        return standard(m, "mistral", "MistralForCausalLM", bias=False)
    config = standard(m, "ministral3", "Ministral3ForCausalLM", bias=False)
    config["rope_parameters"]["llama_4_scaling_beta"] = m.number("attention.temperature_scale")
    return config


def phi3(m: Meta) -> Values:
    config = standard(m, "phi3", "Phi3ForCausalLM", partial=True)
    if m.present("attention.sliding_window"):
        config["sliding_window"] = m.count("attention.sliding_window", zero=True) or None
    if m.present("rope.scaling.original_context_length"):
        config["original_max_position_embeddings"] = m.count("rope.scaling.original_context_length")
    return {key: value for key, value in config.items() if value is not None}


def glm4(m: Meta) -> Values:
    return standard(m, "glm4", "Glm4ForCausalLM", partial=True)


def cohere(m: Meta) -> Values:
    config = standard(m, "cohere", "CohereForCausalLM", eps="layer_norm_eps")
    config["logit_scale"] = m.number("logit_scale")
    config["use_qk_norm"] = m.has("attn_q_norm.weight")
    return config


def cohere2(m: Meta) -> Values:
    config = standard(m, "cohere2", "Cohere2ForCausalLM", eps="layer_norm_eps")
    config["logit_scale"] = m.number("logit_scale")
    config["sliding_window"] = m.count("attention.sliding_window")
    # Three sliding layers, then a full one: part of the architecture, not of the file.
    config["sliding_window_pattern"] = 4
    return config
