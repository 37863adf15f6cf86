"""State-space models, short convolutions, and hybrids of them with attention."""

from __future__ import annotations

from ._decoder import epsilon, named, scales, sizes, standard, tokens
from ._meta import Meta, Values
from ._rope import rope


def mamba(m: Meta) -> Values:
    hidden = m.count("embedding_length")
    inner = m.count("ssm.inner_size")
    # Falcon Mamba normalises B, C and the time step as well.
    normed = m.flag("ssm.dt_b_c_rms", False)
    model = ("falcon_mamba", "FalconMambaForCausalLM") if normed else ("mamba", "MambaForCausalLM")
    config = named(m, *model) | {
        "state_size": m.count("ssm.state_size"),
        "conv_kernel": m.count("ssm.conv_kernel"),
        "time_step_rank": m.count("ssm.time_step_rank"),
        "intermediate_size": inner,
        "expand": inner // hidden,
        "layer_norm_epsilon": epsilon(m),
        "hidden_act": "silu",
        "use_bias": m.has("ssm_in.bias"),
        "use_conv_bias": m.has("ssm_conv1d.bias"),
    }
    return config | tokens(m)


def mamba2(m: Meta) -> Values:
    hidden = m.count("embedding_length")
    inner = m.count("ssm.inner_size")
    heads = m.count("ssm.time_step_rank")
    config = named(m, "mamba2", "Mamba2ForCausalLM") | {
        "num_heads": heads,
        "head_dim": inner // heads,
        "n_groups": m.count("ssm.group_count"),
        "state_size": m.count("ssm.state_size"),
        "conv_kernel": m.count("ssm.conv_kernel"),
        "expand": inner // hidden,
        "layer_norm_epsilon": epsilon(m),
        "hidden_act": "silu",
        "use_bias": m.has("ssm_in.bias"),
        "use_conv_bias": m.has("ssm_conv1d.bias"),
    }
    return config | tokens(m)


def jamba(m: Meta) -> Values:
    inner = m.count("ssm.inner_size")
    config = named(m, "jamba", "JambaForCausalLM")
    config["intermediate_size"] = m.count("feed_forward_length")
    config |= sizes(m)
    config |= {
        "hidden_act": "silu",
        "rms_norm_eps": epsilon(m),
        "mamba_d_state": m.count("ssm.state_size"),
        "mamba_d_conv": m.count("ssm.conv_kernel"),
        "mamba_dt_rank": m.count("ssm.time_step_rank"),
        "mamba_expand": inner // config["hidden_size"],
        "mamba_conv_bias": m.has("ssm_conv1d.bias"),
        "mamba_proj_bias": m.has("ssm_in.bias"),
    }
    attended = sorted(m.blocks_with("attn_q.weight"))
    config |= _every("attn_layer", attended, m.layers)
    sparse = sorted(m.blocks_with("ffn_gate_inp.weight"))
    config |= _every("expert_layer", sparse, m.layers)
    config["num_experts"] = m.count("expert_count", 1, zero=True) or 1
    config["num_experts_per_tok"] = m.count("expert_used_count", 1, zero=True) or 1
    return config | tokens(m)


def _every(name: str, blocks: list[int], layers: int) -> Values:
    """Period and offset of layers that come at a regular distance."""
    period = blocks[1] - blocks[0] if len(blocks) > 1 else layers
    return {f"{name}_period": max(period, 1), f"{name}_offset": blocks[0] if blocks else 0}


def nemotron_h(m: Meta) -> Values:
    layers = m.layers
    pattern = "".join(_letter(m, index) for index in range(layers))
    inner = m.count("ssm.inner_size")
    heads = m.count("ssm.time_step_rank")
    config = named(m, "nemotron_h", "NemotronHForCausalLM")
    config["hybrid_override_pattern"] = pattern
    widths = m.counts("feed_forward_length", layers, 0)
    config["intermediate_size"] = max(widths, default=0) or config["hidden_size"]
    config |= {
        "num_attention_heads": m.heads,
        "num_key_value_heads": m.kv_heads,
        "head_dim": m.head_dim,
        "mamba_num_heads": heads,
        "mamba_head_dim": inner // heads,
        "n_groups": m.count("ssm.group_count"),
        "ssm_state_size": m.count("ssm.state_size"),
        "conv_kernel": m.count("ssm.conv_kernel"),
        "expand": max(1, inner // config["hidden_size"]),
        "layer_norm_epsilon": epsilon(m),
        "mamba_hidden_act": "silu",
        "mlp_hidden_act": "relu2",
        "attention_bias": m.has("attn_q.bias"),
        "mlp_bias": m.has("ffn_up.bias"),
        "use_bias": m.has("ssm_in.bias"),
        "use_conv_bias": m.has("ssm_conv1d.bias"),
    }
    if "E" in pattern:
        config |= _nemotron_experts(m)
    return config | tokens(m)


def _letter(m: Meta, index: int) -> str:
    """What a layer of Nemotron-H is, by the tensors that it has."""
    for suffix, letter in (
        ("ssm_in.weight", "M"),
        ("attn_q.weight", "*"),
        ("ffn_gate_inp.weight", "E"),
        ("ffn_up.weight", "-"),
    ):
        if index in m.blocks_with(suffix):
            return letter
    raise m.wrong("block_count", m.layers, f"layer {index} to hold a mixer")


def _nemotron_experts(m: Meta) -> Values:
    up = m.block_dims("ffn_up_exps.weight")
    shared = m.block_dims("ffn_up_shexp.weight")
    keys: Values = {
        "n_routed_experts": m.count("expert_count"),
        "num_experts_per_tok": m.count("expert_used_count"),
        "n_shared_experts": m.count("expert_shared_count", 1 if shared else 0, zero=True),
        "moe_intermediate_size": up[1] if up else m.count("expert_feed_forward_length"),
        "n_group": m.count("expert_group_count", 1),
        "topk_group": m.count("expert_group_used_count", 1),
        "norm_topk_prob": m.flag("expert_weights_norm", True),
        "routed_scaling_factor": m.number("expert_weights_scale", 1.0),
    }
    if shared:
        keys["moe_shared_expert_intermediate_size"] = shared[0]
    if m.present("moe_latent_size"):
        keys["moe_latent_size"] = m.count("moe_latent_size")
    return keys


def granitehybrid(m: Meta) -> Values:
    if m.flag("rope.scaling.finetuned", False):
        return _bamba(m)
    config = standard(m, "granitemoehybrid", "GraniteMoeHybridForCausalLM") | scales(m)
    inner = m.count("ssm.inner_size")
    heads = m.count("ssm.time_step_rank")
    mamba_blocks = m.blocks_with("ssm_in.weight")
    config |= {
        "layer_types": [
            "mamba" if index in mamba_blocks else "attention" for index in range(m.layers)
        ],
        "mamba_n_heads": heads,
        "mamba_d_head": inner // heads,
        "mamba_n_groups": m.count("ssm.group_count"),
        "mamba_d_state": m.count("ssm.state_size"),
        "mamba_d_conv": m.count("ssm.conv_kernel"),
        "mamba_expand": inner // config["hidden_size"],
        "mamba_conv_bias": m.has("ssm_conv1d.bias"),
        "mamba_proj_bias": m.has("ssm_in.bias"),
        "num_local_experts": m.count("expert_count", 0, zero=True),
        "num_experts_per_tok": m.count("expert_used_count", 0, zero=True),
        # Without rotary dims the model takes no notice of positions.
        "position_embedding_type": "rope"
        if m.count("rope.dimension_count", 0, zero=True)
        else "nope",
    }
    if (dims := m.block_dims("ffn_up_shexp.weight")) or (dims := m.block_dims("ffn_up.weight")):
        config["shared_intermediate_size"] = dims[0]
    return config


def _bamba(m: Meta) -> Values:
    config = standard(m, "bamba", "BambaForCausalLM", mlp_bias=True)
    inner = m.count("ssm.inner_size")
    heads = m.count("ssm.time_step_rank")
    return config | {
        "attn_layer_indices": sorted(m.blocks_with("attn_q.weight")),
        "mamba_n_heads": heads,
        "mamba_d_head": inner // heads,
        "mamba_n_groups": m.count("ssm.group_count"),
        "mamba_d_state": m.count("ssm.state_size"),
        "mamba_d_conv": m.count("ssm.conv_kernel"),
        "mamba_expand": inner // config["hidden_size"],
        "mamba_conv_bias": m.has("ssm_conv1d.bias"),
        "mamba_proj_bias": m.has("ssm_in.bias"),
    }


def lfm2(m: Meta) -> Values:
    config = _lfm2(m, "lfm2", "Lfm2ForCausalLM")
    # The width is the one that the tensors have; nothing is left to adjust.
    config["block_auto_adjust_ff_dim"] = False
    return config


def lfm2moe(m: Meta) -> Values:
    config = _lfm2(m, "lfm2_moe", "Lfm2MoeForCausalLM")
    return config | {
        "num_experts": m.count("expert_count"),
        "num_experts_per_tok": m.count("expert_used_count"),
        "moe_intermediate_size": m.count("expert_feed_forward_length"),
        "num_dense_layers": m.count("leading_dense_block_count", 0, zero=True),
        "use_expert_bias": m.has("exp_probs_b.bias"),
    }


def _lfm2(m: Meta, model_type: str, architecture: str) -> Values:
    config = named(m, model_type, architecture)
    config["intermediate_size"] = m.count("feed_forward_length")
    config |= sizes(m)
    attended = m.blocks_with("attn_q.weight")
    config |= {
        "layer_types": [
            "full_attention" if index in attended else "conv" for index in range(m.layers)
        ],
        "conv_L_cache": m.count("shortconv.l_cache"),
        "conv_bias": m.has("shortconv.conv.bias"),
        "norm_eps": epsilon(m),
    }
    return config | rope(m, partial=False) | tokens(m)
