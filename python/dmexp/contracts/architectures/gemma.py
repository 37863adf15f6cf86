"""Gemma: gains stored as the distance from 1 up to Gemma 3, and four norms a layer from Gemma 2."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t

GEMMA1 = t.WHOLE + t.ATTENTION + t.MLP + t.OFFSET_NORMS + "!output.*"

OFFSET_OUTPUT = """
output_norm.weight  -> model.norm.weight  : gain-minus-one
"""

GEMMA2 = t.WHOLE + t.ATTENTION + t.MLP + t.OFFSET_SANDWICH + OFFSET_OUTPUT

EMBEDDING_HEADS = """
dense_2.weight      -> 2_Dense.linear.weight
dense_3.weight      -> 3_Dense.linear.weight
"""

PER_LAYER_INPUTS = """
per_layer_token_embd.weight -> model.embed_tokens_per_layer.weight
per_layer_model_proj.weight -> model.per_layer_model_projection.weight
per_layer_proj_norm.weight  -> model.per_layer_projection_norm.weight
.inp_gate.weight            -> @.per_layer_input_gate.weight
.proj.weight                -> @.per_layer_projection.weight
.post_norm.weight           -> @.post_per_layer_input_norm.weight
"""

ALTERNATING_UPDATES = """
altup_proj.weight           -> model.altup_projections.{e}.weight          : split-stack
altup_unembd_proj.weight    -> model.altup_unembed_projections.{e}.weight  : split-stack
.altup_correct_coef.weight  -> @.altup.correction_coefs.weight
.altup_correct_scale.weight -> @.altup.correct_output_scale
.altup_predict_coef.weight  -> @.altup.prediction_coefs.weight
.altup_router.weight        -> @.altup.modality_router.weight
.altup_router_norm.weight   -> @.altup.router_norm.weight
.laurel_l.weight            -> @.laurel.linear_left.weight
.laurel_r.weight            -> @.laurel.linear_right.weight
.laurel_post_norm.weight    -> @.laurel.post_laurel_norm.weight
"""

GEMMA4 = """
rope_freqs.weight           -> -  : unrotated-divisors
.layer_output_scale.weight  -> @.layer_scalar
.ffn_gate_inp.weight        -> @.router.proj.weight
.ffn_gate_inp.scale         -> @.router.scale
.ffn_down_exps.scale        -> @.router.per_expert_scale
.ffn_gate_up_exps.weight    -> @.experts.gate_up_proj
.ffn_down_exps.weight       -> @.experts.down_proj
.pre_ffw_norm_2.weight      -> @.pre_feedforward_layernorm_2.weight
.post_ffw_norm_1.weight     -> @.post_feedforward_layernorm_1.weight
.post_ffw_norm_2.weight     -> @.post_feedforward_layernorm_2.weight
"""

ASSISTANT = """
rope_freqs.weight           -> -  : unrotated-divisors
nextn.pre_projection.weight  -> pre_projection.weight
nextn.post_projection.weight -> post_projection.weight
.layer_output_scale.weight  -> @.layer_scalar
!output.*
!.attn_k.*
!.attn_k_norm.*
!.attn_v.*
!.attn_qkv.*
"""

TIED = {"lm_head.weight": "tied to the embedding"}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare("gemma", "GemmaModel", GEMMA1, lost=TIED),
    declare("gemma2", "Gemma2Model", GEMMA2 + "!output.*", lost=TIED),
    declare("gemma3", "Gemma3Model", GEMMA2 + t.OFFSET_QK_NORM, note="text part only"),
    declare(
        "gemma-embedding",
        "EmbeddingGemma",
        (GEMMA2 + t.OFFSET_QK_NORM).replace("model.", "") + EMBEDDING_HEADS,
        layer="layers",
        note="the dense layers come from files of their own, and are named after them",
    ),
    declare(
        "gemma3n",
        "Gemma3NModel",
        t.WHOLE + t.ATTENTION + t.MLP + t.SANDWICH + t.QK_NORM,
        PER_LAYER_INPUTS + ALTERNATING_UPDATES,
        note="text part only",
    ),
    declare(
        "gemma4",
        "Gemma4Model",
        t.WHOLE + t.ATTENTION + t.MLP + t.SANDWICH + t.QK_NORM + PER_LAYER_INPUTS + GEMMA4,
        note="text part only",
    ),
    declare(
        "gemma4-assistant",
        "Gemma4AssistantModel",
        t.WHOLE + t.ATTENTION + t.MLP + t.SANDWICH + t.QK_NORM + ASSISTANT,
        lost={"masked_embedding.*": "not used at run time"},
    ),
)
