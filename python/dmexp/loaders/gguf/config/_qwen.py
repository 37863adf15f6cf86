"""The Qwen family, dense, mixtures and hybrids."""

from __future__ import annotations

from ._decoder import standard
from ._meta import Meta, Values


def qwen2(m: Meta) -> Values:
    # Its projections always have biases, so no key says so.
    return standard(m, "qwen2", "Qwen2ForCausalLM", bias=False)


def qwen2moe(m: Meta) -> Values:
    config = standard(m, "qwen2_moe", "Qwen2MoeForCausalLM", bias=False)
    return config | _experts(m, normalised=False)


def qwen3(m: Meta) -> Values:
    return standard(m, "qwen3", "Qwen3ForCausalLM")


def qwen3moe(m: Meta) -> Values:
    config = standard(m, "qwen3_moe", "Qwen3MoeForCausalLM")
    return config | _experts(m, normalised=True)


def qwen3next(m: Meta) -> Values:
    config = standard(m, "qwen3_next", "Qwen3NextForCausalLM", partial=True)
    return config | _delta_net(m) | _experts(m, normalised=True)


def qwen35(m: Meta) -> Values:
    config = standard(m, "qwen3_5_text", "Qwen3_5ForCausalLM", partial=True)
    return config | _delta_net(m) | _sections(m, config)


def qwen35moe(m: Meta) -> Values:
    config = standard(m, "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", partial=True)
    return config | _delta_net(m) | _experts(m, normalised=True) | _sections(m, config)


def qwen2vl(m: Meta) -> Values:
    # The file holds the language model alone; pictures have a file of their own.
    config = standard(m, "qwen2_vl_text", "Qwen2VLTextModel", bias=False)
    return config | _sections(m, config)


def qwen3vl(m: Meta) -> Values:
    config = standard(m, "qwen3_vl_text", "Qwen3VLTextModel")
    return config | _sections(m, config)


def qwen3vlmoe(m: Meta) -> Values:
    config = standard(m, "qwen3_vl_moe_text", "Qwen3VLMoeTextModel")
    return config | _experts(m, normalised=True) | _sections(m, config)


def _experts(m: Meta, *, normalised: bool) -> Values:
    keys: Values = {
        "num_experts": m.count("expert_count"),
        "num_experts_per_tok": m.count("expert_used_count"),
        "moe_intermediate_size": m.count("expert_feed_forward_length", 0, zero=True)
        or _expert_width(m),
        "decoder_sparse_step": 1,
        "mlp_only_layers": sorted(set(range(m.layers)) - m.blocks_with("ffn_gate_inp.weight")),
    }
    if dims := m.block_dims("ffn_up_shexp.weight"):
        keys["shared_expert_intermediate_size"] = m.count(
            "expert_shared_feed_forward_length", dims[0]
        )
    # The file seldom says whether the weights of the chosen experts are scaled to sum to one;
    # readers go by the architecture.
    keys["norm_topk_prob"] = m.flag("expert_weights_norm", normalised)
    if not m.present("expert_weights_norm"):
        m.notices.append(
            f"the file has no {m.key('expert_weights_norm')}; the config says norm_topk_prob = "
            f"{str(normalised).lower()}, which every reader of this architecture computes"
        )
    return keys


def _expert_width(m: Meta) -> int:
    dims = m.block_dims("ffn_down_exps.weight")
    if dims is None:
        raise m.missing("expert_feed_forward_length")
    return dims[-1]


def _delta_net(m: Meta) -> Values:
    layers = m.layers
    linear = m.blocks_with("ssm_a")
    value_heads = m.count("ssm.time_step_rank")
    inner = m.count("ssm.inner_size")
    if inner % value_heads:
        raise m.wrong("ssm.inner_size", inner, f"a multiple of {value_heads}, the value heads")
    keys: Values = {
        "layer_types": [
            "linear_attention" if index in linear else "full_attention" for index in range(layers)
        ],
        "linear_conv_kernel_dim": m.count("ssm.conv_kernel"),
        "linear_key_head_dim": m.count("ssm.state_size"),
        "linear_num_key_heads": m.count("ssm.group_count"),
        "linear_num_value_heads": value_heads,
        "linear_value_head_dim": inner // value_heads,
        "mtp_num_hidden_layers": m.predicting,
    }
    if m.predicting:
        keys["num_nextn_predict_layers"] = m.predicting
    return keys


def _sections(m: Meta, config: Values) -> Values:
    """How the pairs are shared out among time, height and width."""
    sections = m.raw("rope.dimension_sections")
    pairs = m.count("rope.dimension_count", m.head_dim) // 2
    # A checkpoint without them gets the exporter's usual three, whatever its width.
    if isinstance(sections, list) and len(sections) >= 3 and sum(sections[:3]) == pairs:
        config["rope_parameters"]["mrope_section"] = sections[:3]
        # From Qwen 3 on the three take turns; in Qwen 2 each has a range of its own.
        config["rope_parameters"]["mrope_interleaved"] = m.architecture != "qwen2vl"
    return {"rope_parameters": config["rope_parameters"]}
