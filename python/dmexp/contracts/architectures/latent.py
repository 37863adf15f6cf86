"""Decoders with multi-head latent attention, and the linear-attention hybrids built on it."""

from __future__ import annotations

from .._declare import Architecture, declare, layers
from . import _tables as t

DEEPSEEK2 = (
    t.WHOLE
    + t.NORMS
    + t.LATENT_QUERY
    + t.LATENT_ATTENTION
    + t.MLP
    + t.EXPERTS
    + t.SHARED_EXPERTS
    + t.CORRECTION_BIAS
)

STACKED_EXPERTS = """
.ffn_gate_up_exps.weight -> @.mlp.experts.gate_up_proj
.ffn_down_exps.weight    -> @.mlp.experts.down_proj
.ffn_gate_exps.weight + .ffn_up_exps.weight -> @.mlp.experts.gate_up_proj : gate-up
"""

DOTS3 = """
.attn_q_a_norm.*        -> @.self_attn.q_a_layernorm.*   : unscale-latent-gain
.attn_kv_a_norm.*       -> @.self_attn.kv_a_layernorm.*  : unscale-latent-gain
.attn_k_norm.*          -> @.self_attn.k_rope_only_layernorm.*
.attn_gate.*            -> @.self_attn.g_proj.*
.nextn.embed_tokens.weight -> model.mtp.embed_tokens.weight
"""

HY_V4 = """
output_hc_fn.weight     -> model.hc_head.hc_head_fn
output_hc_base.weight   -> model.hc_head.hc_head_base
output_hc_scale.weight  -> model.hc_head.hc_head_scale
.attn_sinks.weight      -> @.self_attn.learnable_sink_param
.attn_gate.*            -> @.self_attn.linear_gate.*
.hc_attn_fn.weight      -> @.hc_attn_layer.hc_pre.hc_fn
.hc_attn_base.weight    -> @.hc_attn_layer.hc_pre.hc_base
.hc_attn_scale.weight   -> @.hc_attn_layer.hc_pre.hc_scale
.hc_ffn_fn.weight       -> @.hc_mlp_layer.hc_pre.hc_fn
.hc_ffn_base.weight     -> @.hc_mlp_layer.hc_pre.hc_base
.hc_ffn_scale.weight    -> @.hc_mlp_layer.hc_pre.hc_scale
"""

KIMI_LINEAR = """
.attn_k.*               -> @.self_attn.k_proj.*
.attn_v.*               -> @.self_attn.v_proj.*
.ssm_conv1d_q.weight    -> @.self_attn.q_conv1d.weight  : conv/split
.ssm_conv1d_k.weight    -> @.self_attn.k_conv1d.weight  : conv/split
.ssm_conv1d_v.weight    -> @.self_attn.v_conv1d.weight  : conv/split
.ssm_f_a.weight         -> @.self_attn.f_a_proj.weight
.ssm_f_b.weight         -> @.self_attn.f_b_proj.weight
.ssm_g_a.weight         -> @.self_attn.g_a_proj.weight
.ssm_g_b.weight         -> @.self_attn.g_b_proj.weight
.ssm_beta.*             -> @.self_attn.b_proj.*
.ssm_a                  -> @.self_attn.A_log            : decay/four-axes
.ssm_dt.bias            -> @.self_attn.dt_bias
.ssm_norm.weight        -> @.self_attn.o_norm.weight
"""

KIMI_EXPERTS = """
.exp_probs_b.bias       -> @.block_sparse_moe.gate.e_score_correction_bias
.ffn_gate_shexp.*       -> @.block_sparse_moe.shared_experts.gate_proj.*
.ffn_up_shexp.*         -> @.block_sparse_moe.shared_experts.up_proj.*
.ffn_down_shexp.*       -> @.block_sparse_moe.shared_experts.down_proj.*
"""

KIMI_K3 = """
output_res_score.weight -> model.output_attn_res_proj.weight        : unmultiply-gain
.attn_res_score.weight  -> @.self_attention_res_proj.weight         : unmultiply-gain
.ffn_res_score.weight   -> @.mlp_res_proj.weight                    : unmultiply-gain
.attn_gate.weight       -> @.self_attn.g_proj.weight
.ssm_g.weight           -> @.self_attn.g_proj.weight
.ssm_a                  -> @.self_attn.A_log            : decay
!.ssm_g_a.weight
!.ssm_g_b.weight
.ffn_routed_down.weight -> @.block_sparse_moe.routed_expert_down_proj.weight
.ffn_routed_up.weight   -> @.block_sparse_moe.routed_expert_up_proj.weight
.ffn_routed_norm.weight -> @.block_sparse_moe.routed_expert_norm.weight
"""

GLM5_NEXT = """
.ssm_a                  -> @.self_attn.A_log            : decay
.hc_attn_fn.weight      -> @.hc_attn_fn
.hc_attn_base.weight    -> @.hc_attn_base
.hc_attn_scale.weight   -> @.hc_attn_scale
.hc_ffn_fn.weight       -> @.hc_ffn_fn
.hc_ffn_base.weight     -> @.hc_ffn_base
.hc_ffn_scale.weight    -> @.hc_ffn_scale
.indexer_compressor_gate.weight -> @.self_attn.indexer.index_kpool_compress_gate
.indexer_compressor_ape.weight  -> @.self_attn.indexer.index_kpool_compress_ape
"""

# The decay is stored with a positive sign, against every other family.
BAILING3 = """
token_embd.weight       -> model.word_embeddings.weight
output_norm.*           -> model.norm.*
output.*                -> lm_head.*
.attn_norm.*            -> @.input_layernorm.*
.ffn_norm.*             -> @.post_attention_layernorm.*
.attn_q.*               -> @.attention.q_proj.*
.attn_k.*               -> @.attention.k_proj.*
.attn_v.*               -> @.attention.v_proj.*
.attn_output.*          -> @.attention.dense.*
.attn_q_a.*             -> @.attention.q_a_proj.*
.attn_q_a_norm.*        -> @.attention.q_a_layernorm.*
.attn_q_b.*             -> @.attention.q_b_proj.*
.attn_kv_a_mqa.*        -> @.attention.kv_a_proj_with_mqa.*
.attn_kv_a_norm.*       -> @.attention.kv_a_layernorm.*
.attn_kv_b.*            -> @.attention.kv_b_proj.*
.attn_k_b.weight + .attn_v_b.weight -> @.attention.kv_b_proj.weight : merge-kv-b
.attn_gate.*            -> @.attention.g_proj.*
.ssm_g_a.weight         -> @.attention.g_proj.weight
.ssm_f_a.weight         -> @.attention.f_proj.weight
.ssm_beta.*             -> @.attention.b_proj.*
.ssm_conv1d_q.weight    -> @.attention.q_conv1d.weight  : conv/split
.ssm_conv1d_k.weight    -> @.attention.k_conv1d.weight  : conv/split
.ssm_conv1d_v.weight    -> @.attention.v_conv1d.weight  : conv/split
.ssm_a                  -> @.attention.A_log            : decay/positive-heads
.ssm_dt.bias            -> @.attention.dt_bias
.ssm_norm.weight        -> @.attention.o_norm.weight
.exp_probs_b.bias       -> @.mlp.gate.expert_bias
.layer_output_norm.*    -> @.final_layernorm.*
.nextn.eh_proj.*        -> @.eh_proj.*
.nextn.enorm.*          -> @.enorm.*
.nextn.hnorm.*          -> @.hnorm.*
"""

# Linear-attention blocks have their output under another name than latent ones.
BAILING3_LINEAR = """
.attn_output.*          -> @.attention.o_proj.* ? delta net
"""

DEEPSEEK4 = """
token_embd.weight       -> embed.weight
output_norm.weight      -> norm.weight
output.weight           -> head.weight
output_hc_fn.weight     -> hc_head_fn
output_hc_base.weight   -> hc_head_base
output_hc_scale.weight  -> hc_head_scale
.attn_norm.weight       -> @.attn_norm.weight
.ffn_norm.weight        -> @.ffn_norm.weight
.attn_sinks.weight      -> @.attn.attn_sink
.attn_q_a.weight        -> @.attn.wq_a.weight
.attn_q_b.weight        -> @.attn.wq_b.weight
.attn_q_a_norm.weight   -> @.attn.q_norm.weight
.attn_kv.weight         -> @.attn.wkv.weight
.attn_kv_a_norm.weight  -> @.attn.kv_norm.weight
.attn_output_a.weight   -> @.attn.wo_a.weight
.attn_output_b.weight   -> @.attn.wo_b.weight
.attn_compressor_ape.weight  -> @.attn.compressor.ape
.attn_compressor_kv.weight   -> @.attn.compressor.wkv.weight
.attn_compressor_gate.weight -> @.attn.compressor.wgate.weight
.attn_compressor_norm.weight -> @.attn.compressor.norm.weight
.indexer.attn_q_b.weight     -> @.attn.indexer.wq_b.weight
.indexer.proj.weight         -> @.attn.indexer.weights_proj.weight
.indexer_compressor_ape.weight  -> @.attn.indexer.compressor.ape
.indexer_compressor_kv.weight   -> @.attn.indexer.compressor.wkv.weight
.indexer_compressor_gate.weight -> @.attn.indexer.compressor.wgate.weight
.indexer_compressor_norm.weight -> @.attn.indexer.compressor.norm.weight
.hc_attn_fn.weight      -> @.hc_attn_fn
.hc_attn_base.weight    -> @.hc_attn_base
.hc_attn_scale.weight   -> @.hc_attn_scale
.hc_ffn_fn.weight       -> @.hc_ffn_fn
.hc_ffn_base.weight     -> @.hc_ffn_base
.hc_ffn_scale.weight    -> @.hc_ffn_scale
.ffn_gate_inp.weight    -> @.ffn.gate.weight
.exp_probs_b.bias       -> @.ffn.gate.bias
.exp_probs_b_vl.bias    -> @.ffn.gate.bias_vl
.ffn_gate_tid2eid.weight -> @.ffn.gate.tid2eid
.ffn_gate_shexp.weight  -> @.ffn.shared_experts.w1.weight
.ffn_down_shexp.weight  -> @.ffn.shared_experts.w2.weight
.ffn_up_shexp.weight    -> @.ffn.shared_experts.w3.weight
.ffn_gate_exps.weight   -> @.ffn.experts.{e}.w1.weight  : split-stack
.ffn_down_exps.weight   -> @.ffn.experts.{e}.w2.weight  : split-stack
.ffn_up_exps.weight     -> @.ffn.experts.{e}.w3.weight  : split-stack
.nextn.eh_proj.weight   -> @.e_proj.weight + @.h_proj.weight : split-columns
.nextn.enorm.weight     -> @.enorm.weight
.nextn.hnorm.weight     -> @.hnorm.weight
.nextn.shared_head_norm.weight -> @.norm.weight
.nextn.embed_tokens.weight     -> @.nextn.embed_tokens.weight
.nextn.shared_head_head.weight -> @.nextn.shared_head_head.weight
"""

TIED = {"lm_head.weight": "dropped where the config ties it to the embedding"}
NO_MTP = {"model.layers.*": "blocks from num_hidden_layers on are not exported"}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "deepseek2",
        "DeepseekV2Model, Glm4MoeLiteModel",
        DEEPSEEK2 + t.LATENT_JOINED + t.NEXTN,
        lost=TIED | NO_MTP,
        note="files of early 2025 have one attn_kv_b, later ones attn_k_b and attn_v_b",
    ),
    declare(
        "deepseek2-ocr",
        "DeepseekV2Model",
        t.DECODER + t.LATENT_ATTENTION + t.LATENT_JOINED + t.EXPERTS + t.FUSED_EXPERTS,
        t.SHARED_EXPERTS + t.CORRECTION_BIAS,
        lost=TIED,
        note="text part only",
    ),
    declare("deepseek32", "DeepseekV32Model", DEEPSEEK2 + t.INDEXER + t.NEXTN, lost=TIED),
    declare(
        "glm-dsa", "GlmMoeDsaModel", DEEPSEEK2 + t.LATENT_JOINED + t.INDEXER + t.NEXTN, lost=TIED
    ),
    declare(
        "mistral4",
        "Mistral3Model.Mistral4Model",
        DEEPSEEK2 + t.LATENT_JOINED + STACKED_EXPERTS,
        lost=TIED,
        note="text part only; experts come back packed",
    ),
    declare(
        "dots3note",
        "Dots3NoteModel",
        DEEPSEEK2 + t.INDEXER + t.NEXTN + DOTS3 + "!.attn_q.*\n!.nextn.shared_head_head.*",
        lost=TIED,
    ),
    declare(
        "hy_v4",
        "HYV4Model",
        DEEPSEEK2 + t.INDEXER + STACKED_EXPERTS + HY_V4 + "!.attn_q.*\n!.ffn_gate_up_exps.weight",
        lost=TIED | {"model.mtp_layers.*": "not exported"},
    ),
    declare(
        "kimi-linear",
        "KimiLinearModel",
        DEEPSEEK2 + t.LATENT_JOINED + t.MIXTRAL_EXPERTS + KIMI_LINEAR + KIMI_EXPERTS,
    ),
    declare(
        "kimi-k3",
        "KimiK3Model",
        DEEPSEEK2 + t.LATENT_JOINED + t.MIXTRAL_EXPERTS + KIMI_LINEAR + KIMI_EXPERTS + KIMI_K3,
        lost={"*.A_log": "entries beyond the number of heads are cut"},
    ),
    declare(
        "glm5-next",
        "Glm5NextModel",
        DEEPSEEK2 + t.LATENT_JOINED + t.INDEXER + t.NEXTN + KIMI_LINEAR + GLM5_NEXT,
        lost=TIED | {"*.A_log": "entries beyond the number of heads are cut"},
    ),
    declare(
        "bailingmoe3",
        "BailingMoeV3Model",
        t.MLP + t.EXPERTS + t.SHARED_EXPERTS + BAILING3 + BAILING3_LINEAR,
    ),
    declare(
        "deepseek4",
        "DeepseekV4Model",
        DEEPSEEK4,
        layer=layers("layers", "mtp"),
        lost={"*.ffn.gate.bias": "not exported for hash layers"},
        note="experts come back as floats, although the file holds them in MXFP4",
    ),
)
