"""Qwen: two-halves rotary throughout, and gated delta nets in the later models."""

from __future__ import annotations

from .._declare import Architecture, declare, layers
from . import _tables as t

QWEN1 = """
token_embd.weight   -> transformer.wte.weight
output_norm.*       -> transformer.ln_f.*
output.*            -> lm_head.*
.attn_norm.*        -> @.ln_1.*
.attn_qkv.*         -> @.attn.c_attn.*
.attn_output.*      -> @.attn.c_proj.*
.ffn_norm.*         -> @.ln_2.*
.ffn_up.*           -> @.mlp.w1.*
.ffn_gate.*         -> @.mlp.w2.*
.ffn_down.*         -> @.mlp.c_proj.*
"""

SHARED_EXPERT = """
.ffn_gate_inp_shexp.weight -> @.mlp.shared_expert_gate.weight  : unit-row
.ffn_gate_shexp.*       -> @.mlp.shared_expert.gate_proj.*
.ffn_up_shexp.*         -> @.mlp.shared_expert.up_proj.*
.ffn_down_shexp.*       -> @.mlp.shared_expert.down_proj.*
"""

RERANKER = """
cls.output.weight       -> -  : selected-rows
"""

# Every norm but the one inside the delta net is moved by 1, those of the MTP block included.
NEXT_NORMS = """
output_norm.weight          -> model.norm.weight                  : gain-minus-one
.attn_norm.weight           -> @.input_layernorm.weight           : gain-minus-one
.post_attention_norm.weight -> @.post_attention_layernorm.weight  : gain-minus-one
.ssm_norm.weight            -> @.linear_attn.norm.weight
"""

MTP = """
.nextn.eh_proj.*                -> mtp.fc.*
.nextn.enorm.weight             -> mtp.pre_fc_norm_embedding.weight  : gain-minus-one
.nextn.hnorm.weight             -> mtp.pre_fc_norm_hidden.weight     : gain-minus-one
.nextn.shared_head_norm.weight  -> mtp.norm.weight                   : gain-minus-one
"""

# Query and gate rows alternate by head, in the file as in the checkpoint.
NEXT_ATTENTION = (
    t.ATTENTION
    + """
!.attn_qkv.*
.attn_qkv.weight    -> @.self_attn.q_proj.weight + @.self_attn.k_proj.weight + @.self_attn.v_proj.weight : split-qkv/gated ? no delta net
"""
)

# Value heads stay grouped. Files of late 2025 keep the packed projection as ssm_in.
PACKED_DELTA = """
.attn_qkv.weight + .attn_gate.weight -> @.linear_attn.in_proj_qkvz.weight : pack-qkvz
.ssm_in.weight      -> @.linear_attn.in_proj_qkvz.weight
.ssm_ba.weight      -> @.linear_attn.in_proj_ba.weight
.ssm_conv1d.weight  -> @.linear_attn.conv1d.weight  : conv
.ssm_a              -> @.linear_attn.A_log          : decay
.ssm_dt.bias        -> @.linear_attn.dt_bias
.ssm_out.weight     -> @.linear_attn.out_proj.weight
"""

# Value heads are tiled wherever there are more of them than key heads.
TILED_DELTA = """
.attn_qkv.weight    -> @.linear_attn.in_proj_qkv.weight  : value-heads/qkv
.attn_gate.weight   -> @.linear_attn.in_proj_z.weight    : value-heads
.ssm_alpha.weight   -> @.linear_attn.in_proj_a.weight    : value-heads
.ssm_beta.weight    -> @.linear_attn.in_proj_b.weight    : value-heads
.ssm_conv1d.weight  -> @.linear_attn.conv1d.weight       : value-heads/conv
.ssm_a              -> @.linear_attn.A_log               : value-heads/decay
.ssm_dt.bias        -> @.linear_attn.dt_bias             : value-heads
.ssm_out.weight     -> @.linear_attn.out_proj.weight     : value-heads/columns
"""

TRANSPOSED_EXPERTS = """
.ffn_gate_exps.weight + .ffn_up_exps.weight -> @.mlp.experts.gate_up_proj : gate-up/columns
.ffn_down_exps.weight   -> @.mlp.experts.down_proj  : transpose
"""

# Residual streams are mixed by low-rank maps; the per-layer table of n-grams is one tensor.
QWEN4EXP = """
token_embd.weight       -> model.embed_tokens.weight
output.*                -> lm_head.*
output_hc_norm.weight   -> model.hyper_connection_mixer.hc_norm.weight  : gain-minus-one
output_hc_down.weight   -> model.hyper_connection_mixer.input_mix_weight_down.weight
output_hc_up.weight     -> model.hyper_connection_mixer.input_mix_weight_up.weight
per_layer_token_embd.weight -> model.ple_embedding.ngram_embedding.shard_0.weight
.hc_attn_norm.weight    -> @.attn_hyper_connection.hc_norm.weight  : gain-minus-one
.hc_attn_down.weight    -> @.attn_hyper_connection.input_mix_weight_down.weight
.hc_attn_up.weight      -> @.attn_hyper_connection.input_mix_weight_up.weight
.hc_attn_inject.weight  -> @.attn_hyper_connection.block_inject_weight.weight
.hc_ffn_norm.weight     -> @.mlp_hyper_connection.hc_norm.weight   : gain-minus-one
.hc_ffn_down.weight     -> @.mlp_hyper_connection.input_mix_weight_down.weight
.hc_ffn_up.weight       -> @.mlp_hyper_connection.input_mix_weight_up.weight
.hc_ffn_inject.weight   -> @.mlp_hyper_connection.block_inject_weight.weight
.ssm_norm.weight        -> @.linear_attn.norm.weight
.indexer.q_proj.weight + .indexer.k_proj.weight -> @.self_attn.indexer.index_qk_proj.weight : merge-rows
.indexer.q_norm.weight  -> @.self_attn.indexer.q_layernorm.weight  : gain-minus-one
.indexer.k_norm.weight  -> @.self_attn.indexer.k_layernorm.weight  : gain-minus-one
.ple_key.weight         -> @.ple.key_proj.weight
.ple_value.weight       -> @.ple.value_proj.weight
.ple_norm_key.weight    -> @.ple.norm_key.weight    : gain-minus-one
.ple_norm_query.weight  -> @.ple.norm_query.weight  : gain-minus-one
.ple_norm_conv.weight   -> @.ple.norm_conv.weight   : gain-minus-one
.ple_conv1d.weight      -> @.ple.conv1d.weight      : conv/ple
"""

EXPERTS = t.EXPERTS + t.FUSED_EXPERTS
QWEN_LAYERS = layers("model.layers", "mtp.layers")
PER_EXPERT = "experts come back one by one, as published checkpoints have them"

ARCHITECTURES: tuple[Architecture, ...] = (
    declare("qwen", "QwenModel", QWEN1, layer="transformer.h"),
    declare("qwen2", "Qwen2Model", t.DECODER + t.ROPE_DIVISORS),
    declare("qwen2moe", "Qwen2MoeModel", t.NO_MLP + t.EXPERTS + SHARED_EXPERT, note=PER_EXPERT),
    declare("qwen2vl", "Qwen2VLModel", t.DECODER, note="text part only"),
    declare(
        "qwen3",
        "Qwen3Model",
        t.DECODER + t.QK_NORM + RERANKER,
        lost={"score.weight": "rerankers keep two rows of the head"},
    ),
    declare("qwen3moe", "Qwen3MoeModel", t.NO_MLP + t.QK_NORM + t.EXPERTS, note=PER_EXPERT),
    declare("qwen3vl", "Qwen3VLTextModel", t.DECODER + t.QK_NORM, note="text part only"),
    declare(
        "qwen3vlmoe",
        "Qwen3VLMoeTextModel",
        t.NO_MLP + t.QK_NORM + t.EXPERTS + TRANSPOSED_EXPERTS,
        note="text part only; experts come back packed, (experts, hidden, 2 x ffn)",
    ),
    declare("rnd1", "RND1Model", t.NO_MLP + t.QK_NORM + t.EXPERTS, note=PER_EXPERT),
    declare(
        "dots1",
        "Dots1Model",
        t.DECODER + t.QK_NORM + t.EXPERTS + t.SHARED_EXPERTS + t.CORRECTION_BIAS,
        note=PER_EXPERT,
    ),
    declare(
        "qwen3next",
        "Qwen3NextModel",
        t.WHOLE + NEXT_NORMS + NEXT_ATTENTION + t.OFFSET_QK_NORM + EXPERTS + SHARED_EXPERT,
        MTP + PACKED_DELTA,
        layer=QWEN_LAYERS,
        note=PER_EXPERT,
    ),
    declare(
        "qwen35",
        "Qwen3_5TextModel, _LinearAttentionVReorderBase, Qwen3NextModel",
        t.WHOLE + NEXT_NORMS + NEXT_ATTENTION + t.OFFSET_QK_NORM + t.MLP,
        MTP + TILED_DELTA,
        layer=QWEN_LAYERS,
    ),
    declare(
        "qwen35moe",
        "Qwen3_5MoeTextModel, _LinearAttentionVReorderBase, Qwen3NextModel",
        t.WHOLE + NEXT_NORMS + NEXT_ATTENTION + t.OFFSET_QK_NORM + EXPERTS + SHARED_EXPERT,
        MTP + TILED_DELTA,
        layer=QWEN_LAYERS,
        note=PER_EXPERT,
    ),
    declare(
        "qwen4exp",
        "Qwen4ExpTextModel, _LinearAttentionVReorderBase, Qwen3NextModel",
        NEXT_ATTENTION + t.OFFSET_QK_NORM + EXPERTS + SHARED_EXPERT + TILED_DELTA + QWEN4EXP,
        lost={
            "mtp.*": "not exported",
            "model.ple_embedding.layer_multipliers": "kept as metadata",
            "model.ple_embedding.ngram_heads_offsets": "kept as metadata",
            "model.ple_embedding.ngram_heads_vocab_sizes": "kept as metadata",
        },
        note=PER_EXPERT + "; the shards of the n-gram table come back as one, shard_0",
    ),
)
