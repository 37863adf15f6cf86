"""State-space models and hybrids: Mamba, Jamba, Nemotron-H, Falcon-H1, LFM2."""

from __future__ import annotations

from .._declare import Architecture, declare
from .._params import Params
from . import _tables as t

BACKBONE = """
token_embd.weight   -> backbone.embeddings.weight
output_norm.*       -> backbone.norm_f.*
output.*            -> lm_head.*
.attn_norm.*        -> @.norm.*
"""

MAMBA1 = """
.ssm_in.*           -> @.mixer.in_proj.*
.ssm_conv1d.weight  -> @.mixer.conv1d.weight  : conv
.ssm_conv1d.bias    -> @.mixer.conv1d.bias
.ssm_x.*            -> @.mixer.x_proj.*
.ssm_dt.*           -> @.mixer.dt_proj.*
.ssm_a              -> @.mixer.A_log          : decay
.ssm_d              -> @.mixer.D
.ssm_out.*          -> @.mixer.out_proj.*
"""

MAMBA2 = """
.ssm_in.*           -> @.mixer.in_proj.*
.ssm_conv1d.weight  -> @.mixer.conv1d.weight  : conv
.ssm_conv1d.bias    -> @.mixer.conv1d.bias
.ssm_dt.bias        -> @.mixer.dt_bias
.ssm_a              -> @.mixer.A_log          : decay/heads
.ssm_d              -> @.mixer.D              : head-vector
.ssm_norm.weight    -> @.mixer.norm.weight    : grouped-norm
.ssm_out.*          -> @.mixer.out_proj.*
"""

# No rotary embedding is used, and the rows are regrouped all the same.
NEMOTRON_H = """
.attn_q.*           -> @.mixer.q_proj.*  : rotary/query-attention
.attn_k.*           -> @.mixer.k_proj.*  : rotary/key-attention
.attn_v.*           -> @.mixer.v_proj.*
.attn_qkv.*         -> @.mixer.q_proj.* + @.mixer.k_proj.* + @.mixer.v_proj.* : split-qkv/rotary
.attn_output.*      -> @.mixer.o_proj.*
.ffn_up.*           -> @.mixer.up_proj.*
.ffn_down.*         -> @.mixer.down_proj.*
"""

NEMOTRON_H_EXPERTS = """
.ffn_gate_inp.weight    -> @.mixer.gate.weight
.exp_probs_b.bias       -> @.mixer.gate.e_score_correction_bias
.ffn_up_exps.weight     -> @.mixer.experts.{e}.up_proj.weight    : split-stack
.ffn_down_exps.weight   -> @.mixer.experts.{e}.down_proj.weight  : split-stack
.ffn_up_shexp.*         -> @.mixer.shared_experts.up_proj.*
.ffn_down_shexp.*       -> @.mixer.shared_experts.down_proj.*
.ffn_latent_down.*      -> @.mixer.fc1_latent_proj.*
.ffn_latent_up.*        -> @.mixer.fc2_latent_proj.*
"""

# One block holds two layers of the checkpoint: attention, then experts.
NEMOTRON_H_MTP = """
~.nextn.eh_proj.*           -> mtp.layers.0.eh_proj.*
~.nextn.enorm.*             -> mtp.layers.0.enorm.*
~.nextn.hnorm.*             -> mtp.layers.0.hnorm.*
~.attn_norm.*               -> mtp.layers.0.norm.*
~.attn_q.*                  -> mtp.layers.0.mixer.q_proj.*  : rotary/query-attention
~.attn_k.*                  -> mtp.layers.0.mixer.k_proj.*  : rotary/key-attention
~.attn_v.*                  -> mtp.layers.0.mixer.v_proj.*
~.attn_output.*             -> mtp.layers.0.mixer.o_proj.*
~.post_attention_norm.*     -> mtp.layers.1.norm.*
~.nextn.shared_head_norm.*  -> mtp.layers.1.final_layernorm.*
~.ffn_gate_inp.weight       -> mtp.layers.1.mixer.gate.weight
~.exp_probs_b.bias          -> mtp.layers.1.mixer.gate.e_score_correction_bias
~.ffn_up_exps.weight        -> mtp.layers.1.mixer.experts.{e}.up_proj.weight    : split-stack
~.ffn_down_exps.weight      -> mtp.layers.1.mixer.experts.{e}.down_proj.weight  : split-stack
~.ffn_up_shexp.*            -> mtp.layers.1.mixer.shared_experts.up_proj.*
~.ffn_down_shexp.*          -> mtp.layers.1.mixer.shared_experts.down_proj.*
~.ffn_latent_down.*         -> mtp.layers.1.mixer.fc1_latent_proj.*
~.ffn_latent_up.*           -> mtp.layers.1.mixer.fc2_latent_proj.*
"""

JAMBA = """
output_norm.*           -> model.final_layernorm.*
.ffn_norm.*             -> @.pre_ff_layernorm.*
.ffn_gate.*             -> @.feed_forward.gate_proj.*
.ffn_up.*               -> @.feed_forward.up_proj.*
.ffn_down.*             -> @.feed_forward.down_proj.*
.ffn_gate_inp.weight    -> @.feed_forward.router.weight
.ffn_gate_exps.weight   -> @.feed_forward.experts.{e}.gate_proj.weight  : split-stack
.ffn_up_exps.weight     -> @.feed_forward.experts.{e}.up_proj.weight    : split-stack
.ffn_down_exps.weight   -> @.feed_forward.experts.{e}.down_proj.weight  : split-stack
.ssm_in.*               -> @.mamba.in_proj.*
.ssm_conv1d.weight      -> @.mamba.conv1d.weight  : conv
.ssm_conv1d.bias        -> @.mamba.conv1d.bias
.ssm_x.*                -> @.mamba.x_proj.*
.ssm_dt.*               -> @.mamba.dt_proj.*
.ssm_dt_norm.weight     -> @.mamba.dt_layernorm.weight
.ssm_b_norm.weight      -> @.mamba.b_layernorm.weight
.ssm_c_norm.weight      -> @.mamba.c_layernorm.weight
.ssm_a                  -> @.mamba.A_log          : decay
.ssm_d                  -> @.mamba.D
.ssm_out.*              -> @.mamba.out_proj.*
"""

FALCON_H1 = """
token_embd.weight       -> model.embed_tokens.weight          : unscale-by-config
output_norm.*           -> model.final_layernorm.*
output.weight           -> lm_head.weight                     : unscale-by-config
.attn_q.weight          -> @.self_attn.q_proj.weight          : unscale-by-config
.attn_k.weight          -> @.self_attn.k_proj.weight          : unscale-by-config
.attn_v.weight          -> @.self_attn.v_proj.weight          : unscale-by-config
.attn_output.weight     -> @.self_attn.o_proj.weight          : unscale-by-config
.ffn_norm               -> @.pre_ff_layernorm.weight
.ffn_gate.weight        -> @.feed_forward.gate_proj.weight    : unscale-by-config
.ffn_up.weight          -> @.feed_forward.up_proj.weight
.ffn_down.weight        -> @.feed_forward.down_proj.weight    : unscale-by-config
.ssm_in.weight          -> @.mamba.in_proj.weight             : unscale-by-config
.ssm_conv1d.weight      -> @.mamba.conv1d.weight              : conv
.ssm_conv1d.bias        -> @.mamba.conv1d.bias
.ssm_dt.bias            -> @.mamba.dt_bias
.ssm_a                  -> @.mamba.A_log                      : decay/heads
.ssm_d                  -> @.mamba.D                          : head-vector
.ssm_norm.weight        -> @.mamba.norm.weight                : grouped-norm
.ssm_out.weight         -> @.mamba.out_proj.weight            : unscale-by-config
!.attn_qkv.*
!.ffn_norm.*
"""

LFM2 = """
token_embd.weight       -> model.embed_tokens.weight
token_embd_norm.weight  -> model.embedding_norm.weight
output.*                -> lm_head.*
dense_2.weight          -> 1_Dense.linear.weight
.attn_norm.*            -> @.operator_norm.*
.ffn_norm.*             -> @.ffn_norm.*
.attn_output.*          -> @.self_attn.out_proj.*
.attn_q_norm.*          -> @.self_attn.q_layernorm.*
.attn_k_norm.*          -> @.self_attn.k_layernorm.*
.shortconv.conv.weight  -> @.conv.conv.weight  : conv/short
.shortconv.conv.bias    -> @.conv.conv.bias
.shortconv.in_proj.*    -> @.conv.in_proj.*
.shortconv.out_proj.*   -> @.conv.out_proj.*
.ffn_gate.*             -> @.feed_forward.w1.*
.ffn_up.*               -> @.feed_forward.w3.*
.ffn_down.*             -> @.feed_forward.w2.*
"""

LFM2_EXPERTS = """
.ffn_gate_inp.weight    -> @.feed_forward.gate.weight
.exp_probs_b.bias       -> @.feed_forward.expert_bias
.ffn_gate_exps.weight   -> @.feed_forward.experts.{e}.w1.weight  : split-stack
.ffn_up_exps.weight     -> @.feed_forward.experts.{e}.w3.weight  : split-stack
.ffn_down_exps.weight   -> @.feed_forward.experts.{e}.w2.weight  : split-stack
"""


def _nemotron_layer(block: int, p: Params) -> str:
    return f"backbone.layers.{block}"


ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "mamba",
        "MambaModel",
        BACKBONE + MAMBA1,
        layer="backbone.layers",
        lost={"lm_head.weight": "dropped where it equals the embedding"},
    ),
    declare("mamba2", "Mamba2Model", BACKBONE + MAMBA2, layer="backbone.layers"),
    declare(
        "nemotron_h", "NemotronHModel", BACKBONE + MAMBA2 + NEMOTRON_H, layer="backbone.layers"
    ),
    declare(
        "nemotron_h_moe",
        "NemotronHModel",
        BACKBONE + MAMBA2 + NEMOTRON_H + NEMOTRON_H_EXPERTS + NEMOTRON_H_MTP,
        layer=_nemotron_layer,
    ),
    declare("jamba", "JambaModel", t.DECODER + JAMBA),
    declare("falcon-h1", "FalconH1Model", t.DECODER + FALCON_H1),
    declare("lfm2", "LFM2Model, LFM2ColBertModel", t.ATTENTION + LFM2),
    declare(
        "lfm2moe",
        "LFM2MoeModel",
        t.ATTENTION + LFM2 + LFM2_EXPERTS + "!output.*\n!dense_2.weight",
    ),
)
