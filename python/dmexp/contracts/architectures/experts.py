"""Mixture-of-experts decoders with attention of the usual kind."""

from __future__ import annotations

from .._declare import Architecture, declare, layers
from . import _tables as t

GPT_OSS = """
.post_attention_norm.*  -> @.post_attention_layernorm.*
.attn_sinks.weight      -> @.self_attn.sinks
.ffn_gate_inp.*         -> @.mlp.router.*
.ffn_gate_exps.weight + .ffn_up_exps.weight -> @.mlp.experts.gate_up_proj : gate-up/alternate
.ffn_gate_exps.bias + .ffn_up_exps.bias -> @.mlp.experts.gate_up_proj_bias : gate-up/alternate-bias
.ffn_down_exps.weight   -> @.mlp.experts.down_proj  : transpose
.ffn_down_exps.bias     -> @.mlp.experts.down_proj_bias
!.ffn_norm.*
"""

DBRX = """
token_embd.weight       -> transformer.wte.weight
output_norm.*           -> transformer.norm_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.norm_attn_norm.norm_1.*
.attn_output_norm.*     -> @.norm_attn_norm.norm_2.*
.attn_qkv.*             -> @.norm_attn_norm.attn.Wqkv.*
.attn_output.*          -> @.norm_attn_norm.attn.out_proj.*
.ffn_gate_inp.*         -> @.ffn.router.layer.*
.ffn_gate_exps.weight   -> @.ffn.experts.mlp.w1  : expert-rows
.ffn_up_exps.weight     -> @.ffn.experts.mlp.v1  : expert-rows
.ffn_down_exps.weight   -> @.ffn.experts.mlp.w2  : expert-columns
"""

GROK2 = """
.attn_norm.*            -> @.pre_attn_norm.*
.attn_output_norm.*     -> @.post_attn_norm.*
.ffn_norm.*             -> @.pre_moe_norm.*
.post_ffw_norm.*        -> @.post_moe_norm.*
!.attn_qkv.*
"""

GROK1 = """
token_embd.weight       -> transformer.in_out_embed.weight
output_norm.*           -> transformer.rms_norm.*
output.*                -> lm_head.*
.attn_norm.*            -> @.rms_norm.*
.attn_output_norm.*     -> @.rms_norm_1.*
.ffn_norm.*             -> @.rms_norm_2.*
.layer_output_norm.*    -> @.rms_norm_3.*
.attn_q.*               -> @.multi_head_attention.query.*
.attn_k.*               -> @.multi_head_attention.key.*
.attn_v.*               -> @.multi_head_attention.value.*
.attn_output.*          -> @.multi_head_attention.linear.*
.ffn_gate_inp.*         -> @.router.*
.ffn_gate_exps.weight   -> @.moe.{e}.linear.weight    : split-stack
.ffn_up_exps.weight     -> @.moe.{e}.linear_v.weight  : split-stack
.ffn_down_exps.weight   -> @.moe.{e}.linear_1.weight  : split-stack
"""

ARCTIC = """
.ffn_norm.*             -> @.residual_layernorm.*
.ffn_norm_exps.*        -> @.post_attention_layernorm.*
.ffn_gate.*             -> @.residual_mlp.w1.*
.ffn_up.*               -> @.residual_mlp.w3.*
.ffn_down.*             -> @.residual_mlp.w2.*
"""

BAILING = """
token_embd.weight       -> model.word_embeddings.weight
.attn_output.*          -> @.attention.dense.*
!.attn_q.*
!.attn_k.*
!.attn_v.*
"""

BAILING1 = """
output.weight           -> lm_head.weight  : guard-normalized
.attn_q.weight + .attn_k.weight + .attn_v.weight -> @.attention.query_key_value.weight : merge-qkv/rotary
!.attn_qkv.*
"""

BAILING2 = """
.attn_qkv.*             -> @.attention.query_key_value.*
.attn_q_norm.*          -> @.attention.query_layernorm.*
.attn_k_norm.*          -> @.attention.key_layernorm.*
.layer_output_norm.*    -> @.final_layernorm.*
.exp_probs_b.bias       -> @.mlp.gate.expert_bias  : guard-centred
"""

AFMOE = """
.post_attention_norm.*  -> @.post_attention_layernorm.*
.ffn_norm.*             -> @.pre_mlp_layernorm.*
.post_ffw_norm.*        -> @.post_mlp_layernorm.*
.attn_gate.*            -> @.self_attn.gate_proj.*
.ffn_gate_inp.*         -> @.mlp.router.gate.*
.exp_probs_b.bias       -> @.mlp.expert_bias
"""

LAGUNA = """
.ffn_gate_shexp.*       -> @.mlp.shared_expert.gate_proj.*
.ffn_up_shexp.*         -> @.mlp.shared_expert.up_proj.*
.ffn_down_shexp.*       -> @.mlp.shared_expert.down_proj.*
.attn_gate.*            -> @.self_attn.g_proj.*
.exp_probs_b.bias       -> @.mlp.experts.e_score_correction_bias
!.attn_qkv.*
"""

ERNIE_MOE = """
.exp_probs_b.bias       -> @.mlp.moe_statics.e_score_correction_bias  : unit-row
"""

EXAONE_MOE = """
.exp_probs_b.bias       -> @.mlp.e_score_correction_bias
.nextn.eh_proj.*            -> mtp.fc.*
.nextn.enorm.*              -> mtp.pre_fc_norm_embedding.*
.nextn.hnorm.*              -> mtp.pre_fc_norm_hidden.*
.nextn.shared_head_norm.*   -> mtp.norm.*
"""

GLM4_MOE = """
.post_attention_norm.*  -> @.post_attention_layernorm.*
!.ffn_norm.*
"""

HUNYUAN_MOE = """
.attn_q_norm.*          -> @.self_attn.query_layernorm.*
.attn_k_norm.*          -> @.self_attn.key_layernorm.*
.ffn_gate_inp.*         -> @.mlp.gate.wg.*
.ffn_gate_shexp.*       -> @.mlp.shared_mlp.gate_proj.*
.ffn_up_shexp.*         -> @.mlp.shared_mlp.up_proj.*
.ffn_down_shexp.*       -> @.mlp.shared_mlp.down_proj.*
"""

# Published checkpoints name the routing bias without a suffix, saved ones with it.
HY_V3 = """
.ffn_gate_inp.*         -> @.mlp.router.gate.*
.exp_probs_b            -> @.mlp.expert_bias
.exp_probs_b.bias       -> @.mlp.e_score_correction_bias
.ffn_gate_shexp.*       -> @.mlp.shared_mlp.gate_proj.*
.ffn_up_shexp.*         -> @.mlp.shared_mlp.up_proj.*
.ffn_down_shexp.*       -> @.mlp.shared_mlp.down_proj.*
.nextn.shared_head_norm.* -> @.final_layernorm.*
!.attn_qkv.*
"""

# Blocks with linear attention have a gate, and another name for the output.
MINIMAX01 = """
.attn_norm_2.*          -> @.self_attn.norm.*
.attn_qkv.*             -> @.self_attn.qkv_proj.*
.attn_gate.*            -> @.self_attn.output_gate.*
.attn_output.*          -> @.self_attn.out_proj.* ? gated
"""

MINIMAX_M2 = """
.exp_probs_b.bias       -> @.block_sparse_moe.e_score_correction_bias
"""

MINIMAX_M3 = """
.attn_norm.weight       -> @.input_layernorm.weight           : gain-minus-one
.ffn_norm.weight        -> @.post_attention_layernorm.weight  : gain-minus-one
output_norm.weight      -> model.norm.weight                  : gain-minus-one
.indexer.q_proj.*       -> @.self_attn.index_q_proj.*
.indexer.k_proj.*       -> @.self_attn.index_k_proj.*
.indexer.q_norm.weight  -> @.self_attn.index_q_norm.weight    : gain-minus-one
.indexer.k_norm.weight  -> @.self_attn.index_k_norm.weight    : gain-minus-one
.ffn_gate_shexp.*       -> @.block_sparse_moe.shared_experts.gate_proj.*
.ffn_up_shexp.*         -> @.block_sparse_moe.shared_experts.up_proj.*
.ffn_down_shexp.*       -> @.block_sparse_moe.shared_experts.down_proj.*
!.attn_qkv.*
"""

STEP35 = """
.attn_norm.weight       -> @.input_layernorm.weight           : gain-minus-one
.ffn_norm.weight        -> @.post_attention_layernorm.weight  : gain-minus-one
output_norm.weight      -> model.norm.weight                  : gain-minus-one
.attn_gate.*            -> @.self_attn.g_proj.*
.ffn_gate_inp.weight    -> @.moe.gate.weight
.ffn_gate_exps.weight   -> @.moe.gate_proj.weight
.ffn_up_exps.weight     -> @.moe.up_proj.weight
.ffn_down_exps.weight   -> @.moe.down_proj.weight
.exp_probs_b.bias       -> @.moe.router_bias
.ffn_gate_shexp.*       -> @.share_expert.gate_proj.*
.ffn_up_shexp.*         -> @.share_expert.up_proj.*
.ffn_down_shexp.*       -> @.share_expert.down_proj.*
"""

STEP35_MTP = """
.nextn.eh_proj.*            -> @.eh_proj.*
.nextn.embed_tokens.weight  -> @.embed_tokens.weight
.nextn.enorm.weight         -> @.enorm.weight                         : gain-minus-one
.nextn.hnorm.weight         -> @.hnorm.weight                         : gain-minus-one
.nextn.shared_head_norm.weight -> @.transformer.shared_head.norm.weight  : gain-minus-one
.nextn.shared_head_head.*   -> @.transformer.shared_head.output.*
"""

# Fused rows, kept as they are; the sink is a bias of the attention.
MIMO2 = """
.attn_qkv.*             -> @.self_attn.qkv_proj.*
.attn_sinks.weight      -> @.self_attn.attention_sink_bias
.layer_output_norm.*    -> @.final_layernorm.*
"""

GROVE = """
.ffn_gate_chexps.weight -> @.mlp.chunk_experts.{e}.gate_proj.weight  : split-stack
.ffn_up_chexps.weight   -> @.mlp.chunk_experts.{e}.up_proj.weight    : split-stack
.ffn_down_chexps.weight -> @.mlp.chunk_experts.{e}.down_proj.weight  : split-stack
"""

SMALLTHINKER = """
!.ffn_gate.*
.ffn_up.*               -> @.block_sparse_moe.up.*
.ffn_down.*             -> @.block_sparse_moe.down.*
.ffn_gate_inp.*         -> @.block_sparse_moe.primary_router.*
.ffn_gate_exps.weight   -> @.block_sparse_moe.experts.{e}.gate.weight  : split-stack
.ffn_up_exps.weight     -> @.block_sparse_moe.experts.{e}.up.weight    : split-stack
.ffn_down_exps.weight   -> @.block_sparse_moe.experts.{e}.down.weight  : split-stack
"""

MTP_LAYERS = layers("model.layers", "mtp.layers")

ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "gpt-oss",
        "GptOssModel",
        t.NO_MLP + GPT_OSS,
        note="experts come back as floats, also where the file holds them in MXFP4",
    ),
    declare("dbrx", "DbrxModel", DBRX, layer="transformer.blocks"),
    declare(
        "grok",
        "GrokModel",
        t.DECODER + t.MIXTRAL_EXPERTS + GROK2,
        variants={
            "blk.0.layer_output_norm.weight": declare(
                "grok", "GrokModel", GROK1, layer="transformer.decoder_layer"
            )
        },
        note="Grok-2 names unless there is a layer_output_norm, which Grok-1 has; shards come back joined",
    ),
    declare("arctic", "ArcticModel", t.DECODER + t.ROTARY_WEIGHTS + t.MIXTRAL_EXPERTS + ARCTIC),
    declare("phimoe", "PhiMoeModel", t.NO_MLP + t.MIXTRAL_EXPERTS + t.ROPE_FACTORS),
    declare("olmoe", "OlmoeModel", t.NO_MLP + t.QK_NORM + t.EXPERTS),
    declare("llada-moe", "LLaDAMoEModel", t.NO_MLP + t.QK_NORM + t.EXPERTS),
    declare("maple", "MapleModel", t.NO_MLP + t.QK_NORM + t.EXPERTS + "!.attn_qkv.*"),
    declare("mellum", "MellumModel", t.NO_MLP + t.QK_NORM + t.EXPERTS + "!.attn_qkv.*"),
    declare(
        "bailingmoe",
        "BailingMoeModel",
        t.NO_MLP + t.EXPERTS + t.SHARED_EXPERTS + BAILING + BAILING1,
    ),
    declare(
        "bailingmoe2",
        "BailingMoeV2Model, SarvamMoEModel",
        t.DECODER + t.EXPERTS + t.SHARED_EXPERTS + t.NEXTN + BAILING + BAILING2,
    ),
    declare(
        "afmoe",
        "AfmoeModel",
        t.DECODER + t.QK_NORM + t.EXPERTS + t.SHARED_EXPERTS + t.ROPE_DIVISORS + AFMOE,
    ),
    declare("laguna", "LagunaModel", t.DECODER + t.QK_NORM + t.EXPERTS + t.SHARED_EXPERTS + LAGUNA),
    declare(
        "ernie4_5-moe",
        "Ernie4_5MoeModel",
        t.DECODER + t.EXPERTS + t.SHARED_EXPERTS + ERNIE_MOE,
        lost={"model.mtp_*": "not exported"},
    ),
    declare(
        "exaone-moe",
        "ExaoneMoEModel",
        t.DECODER + t.QK_NORM + t.EXPERTS + t.SHARED_EXPERTS + t.ROPE_DIVISORS + EXAONE_MOE,
        layer=MTP_LAYERS,
    ),
    declare(
        "glm4moe",
        "Glm4MoeModel",
        t.DECODER + t.QK_NORM + t.EXPERTS + t.SHARED_EXPERTS + t.CORRECTION_BIAS,
        t.NEXTN + GLM4_MOE,
    ),
    declare(
        "cohere2moe",
        "Cohere2MoeModel",
        t.DECODER + t.EXPERTS + t.FUSED_EXPERTS + t.SHARED_EXPERTS + t.NEXTN,
        "!.ffn_norm.*\n!.attn_qkv.*",
        lost={"*.bias": "all zero, which the exporter checks"},
    ),
    declare(
        "hunyuan-moe",
        "HunYuanMoEModel",
        t.NO_MLP + t.EXPERTS + HUNYUAN_MOE,
        lost={"lm_head.weight": "dropped where the config ties it to the embedding"},
    ),
    declare("hy_v3", "HYV3Model", t.DECODER + t.QK_NORM + t.EXPERTS + t.NEXTN + HY_V3),
    declare(
        "minimax-01",
        "MiniMaxText01Model",
        t.NO_MLP + t.MIXTRAL_EXPERTS + MINIMAX01,
        note="names of MiniMaxText01ForCausalLM",
    ),
    declare("minimax-m2", "MiniMaxM2Model", t.NO_MLP + t.QK_NORM + t.MIXTRAL_EXPERTS + MINIMAX_M2),
    declare(
        "minimax-m3",
        "MiniMaxM3Model",
        t.DECODER + t.OFFSET_QK_NORM + t.MIXTRAL_EXPERTS + MINIMAX_M2 + MINIMAX_M3,
    ),
    declare(
        "step35",
        "Step35Model",
        t.DECODER + t.OFFSET_QK_NORM + t.ROPE_DIVISORS + STEP35 + STEP35_MTP,
    ),
    declare(
        "mimo2",
        "MimoV2Model",
        t.DECODER + t.EXPERTS + t.CORRECTION_BIAS + t.NEXTN + MIMO2,
        layer=layers("model.layers", "model.mtp.layers"),
    ),
    declare(
        "grovemoe",
        "GroveMoeModel",
        t.NO_MLP + t.QK_NORM + t.EXPERTS + GROVE,
        lost={"model.layers.*.mlp.expert_bias": "not exported"},
    ),
    declare("smallthinker", "SmallThinkerModel", t.DECODER + SMALLTHINKER),
)
