"""The Gemma family: sliding and full attention in turn, each with its own rotary base."""

from __future__ import annotations

from math import inf
from statistics import NormalDist
from typing import Any

from ._decoder import layer_types, standard
from ._meta import Meta, Values
from ._rope import base_of, by_layer_type, divisors, scaling_of

ACT = "gelu_pytorch_tanh"


def gemma(m: Meta) -> Values:
    config = _standard(m, "gemma", "GemmaForCausalLM")
    return config | _head(m)


def gemma2(m: Meta) -> Values:
    config = _standard(m, "gemma2", "Gemma2ForCausalLM")
    config["sliding_window"] = m.count("attention.sliding_window")
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        if m.present(name):
            config[name] = m.number(name)
    # Only the largest of the family scales queries by something else than its head width. The
    # file does not say so; every reader goes by the number of layers.
    config["query_pre_attn_scalar"] = _query_scalar(m, largest=46)
    return config


def gemma3(m: Meta) -> Values:
    config = _standard(m, "gemma3_text", "Gemma3ForCausalLM")
    config["query_pre_attn_scalar"] = _query_scalar(m, largest=62)
    if m.present("final_logit_softcapping"):
        config["final_logit_softcapping"] = m.number("final_logit_softcapping")
    _two_rates(m, config, period=6)
    return config


def gemma_embedding(m: Meta) -> Values:
    return gemma3(m) | {"architectures": ["Gemma3TextModel"], "use_bidirectional_attention": True}


def gemma3n(m: Meta) -> Values:
    config = _standard(m, "gemma3n_text", "Gemma3nForCausalLM")
    _two_rates(m, config, period=5)
    layers = m.layers
    config["intermediate_size"] = m.counts("feed_forward_length", layers)
    config["vocab_size_per_layer_input"] = m.tensors["per_layer_token_embd.weight"][0]
    config["hidden_size_per_layer_input"] = m.count("embedding_length_per_layer_input")
    config["altup_num_inputs"] = m.count("altup.num_inputs")
    config["altup_active_idx"] = m.count("altup.active_idx", 0, zero=True)
    config["num_kv_shared_layers"] = m.count("attention.shared_kv_layers", 0, zero=True)
    if pattern := _sparsity(m):
        config["activation_sparsity_pattern"] = pattern
    if dims := m.block_dims("laurel_l.weight"):
        config["laurel_rank"] = dims[0]
    if m.present("final_logit_softcapping"):
        config["final_logit_softcapping"] = m.number("final_logit_softcapping")
    return config


def _sparsity(m: Meta) -> list[float]:
    """The share of activations that each layer cuts off, from the cut in standard deviations."""
    cuts = m.raw("activation_sparsity_scale")
    if not isinstance(cuts, list) or not all(isinstance(cut, float) for cut in cuts):
        return []
    # Six digits are what an f32 keeps of a share near 1; minus infinity cuts nothing off.
    return [round(NormalDist().cdf(cut), 6) if cut > -inf else 0.0 for cut in cuts[: m.layers]]


def gemma4(m: Meta) -> Values:
    config = _standard(m, "gemma4_text", "Gemma4ForCausalLM")
    layers = m.layers
    full_dim = m.head_dim
    config["head_dim"] = m.count("attention.key_length_swa", full_dim)
    config["global_head_dim"] = full_dim
    sliding = m.flags("attention.sliding_window_pattern")
    if sliding is None or len(sliding) < layers:
        raise m.wrong("attention.sliding_window_pattern", sliding, f"{layers} bools")
    config["layer_types"] = layer_types(sliding[:layers])
    config["sliding_window"] = m.count("attention.sliding_window")
    config["num_kv_shared_layers"] = m.count("attention.shared_kv_layers", 0, zero=True)
    per_layer = m.count("embedding_length_per_layer_input", 0, zero=True)
    config["hidden_size_per_layer_input"] = per_layer
    if "per_layer_token_embd.weight" in m.tensors:
        config["vocab_size_per_layer_input"] = m.tensors["per_layer_token_embd.weight"][0]
    widths = m.counts("feed_forward_length", layers)
    config["intermediate_size"] = widths[0]
    config["use_double_wide_mlp"] = len(set(widths)) > 1
    _key_value_heads(m, config, sliding[:layers])
    if m.count("expert_count", 0, zero=True):
        config["enable_moe_block"] = True
        config["num_experts"] = m.count("expert_count")
        config["top_k_experts"] = m.count("expert_used_count")
        config["moe_intermediate_size"] = m.count("expert_feed_forward_length")
    else:
        config["enable_moe_block"] = False
    if m.present("final_logit_softcapping"):
        config["final_logit_softcapping"] = m.number("final_logit_softcapping")
    _proportional(m, config)
    return config


def _standard(m: Meta, model_type: str, architecture: str) -> Values:
    config = standard(m, model_type, architecture, act=ACT, act_key="hidden_activation")
    # Its first releases read the one key, later ones the other.
    config["hidden_act"] = ACT
    return config


def _head(m: Meta) -> Values:
    return {} if m.tied else {"tie_word_embeddings": False}


def _query_scalar(m: Meta, largest: int) -> int:
    width = m.count("embedding_length")
    return width // m.heads if m.layers == largest else m.head_dim


def _two_rates(m: Meta, config: Values, period: int) -> None:
    """Rates, window and layer types of a family in which every ``period``-th layer is full."""
    theta = config["rope_theta"]
    # Scaling is for the full layers, whose rate is that of the long contexts.
    full: dict[str, Any] = {"rope_type": "default"} | scaling_of(m, theta)
    full["rope_theta"] = theta
    local = base_of(m, "rope.freq_base_swa", 10000.0)
    config["rope_local_base_freq"] = local
    config["rope_parameters"] = by_layer_type(full, {"rope_type": "default", "rope_theta": local})
    if m.present("attention.sliding_window"):
        config["sliding_window"] = m.count("attention.sliding_window")
        sliding = m.flags("attention.sliding_window_pattern")
        if sliding is None:
            step = m.raw("attention.sliding_window_pattern")
            period = step if isinstance(step, int) and step > 0 else period
            sliding = [(i + 1) % period != 0 for i in range(m.layers)]
            if period != 1:
                config["sliding_window_pattern"] = period
        config["layer_types"] = layer_types(sliding[: m.layers])


def _key_value_heads(m: Meta, config: Values, sliding: list[bool]) -> None:
    heads = m.counts("attention.head_count_kv", m.layers, m.heads)
    narrow = [count for count, slides in zip(heads, sliding, strict=True) if slides]
    wide = [count for count, slides in zip(heads, sliding, strict=True) if not slides]
    config["num_key_value_heads"] = (narrow or heads)[0]
    if wide and wide[0] != config["num_key_value_heads"]:
        config["num_global_key_value_heads"] = wide[0]
    full = {index for index, slides in enumerate(sliding) if not slides}
    keys = m.blocks_with("attn_k.weight") & full
    # Full layers may take their values from the keys; then they have no matrix for them.
    config["attention_k_eq_v"] = bool(keys) and not (m.blocks_with("attn_v.weight") & keys)


def _proportional(m: Meta, config: Values) -> None:
    """Full layers turn the first pairs only; the divisors of the rest are out of reach."""
    config.pop("rope_scaling", None)
    m.notices[:] = [note for note in m.notices if "rope_freqs" not in note]
    theta = config["rope_theta"]
    full: Values = {"rope_type": "proportional", "rope_theta": theta}
    table = divisors(m, "rope_freqs.weight")
    if table is not None:
        turned = sum(1 for value in table if value == 1.0)
        full["partial_rotary_factor"] = turned / len(table)
    local = base_of(m, "rope.freq_base_swa", 10000.0)
    sliding: Values = {"rope_type": "default", "rope_theta": local}
    width = m.count("rope.dimension_count_swa", config["head_dim"])
    if width != config["head_dim"]:
        sliding["partial_rotary_factor"] = width / config["head_dim"]
    config["rope_parameters"] = by_layer_type(full, sliding)
