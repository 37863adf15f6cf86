"""Llama and the decoders that its converter handles: rotary rows in adjacent pairs."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t
from .latent import DEEPSEEK4

ROTARY_DECODER = t.DECODER + t.ROTARY

LLAMA4_MOE = """
.ffn_gate.*             -> @.feed_forward.gate_proj.*
.ffn_up.*               -> @.feed_forward.up_proj.*
.ffn_down.*             -> @.feed_forward.down_proj.*
.ffn_gate_inp.*         -> @.feed_forward.router.*
.ffn_gate_exps.weight + .ffn_up_exps.weight -> @.feed_forward.experts.gate_up_proj : gate-up/columns
.ffn_down_exps.weight   -> @.feed_forward.experts.down_proj  : transpose
.ffn_gate_shexp.*       -> @.feed_forward.shared_expert.gate_proj.*
.ffn_up_shexp.*         -> @.feed_forward.shared_expert.up_proj.*
.ffn_down_shexp.*       -> @.feed_forward.shared_expert.down_proj.*
"""

APERTUS = """
.attn_norm.*        -> @.attention_layernorm.*
.ffn_norm.*         -> @.feedforward_layernorm.*
=xielu.alpha_n      -> @.mlp.act_fn.alpha_n  : xielu.alpha_n
=xielu.alpha_p      -> @.mlp.act_fn.alpha_p  : xielu.alpha_p
=xielu.beta         -> @.mlp.act_fn.beta     : xielu.beta
=xielu.eps          -> @.mlp.act_fn.eps      : xielu.eps
"""

# The draft model of EAGLE-3 has one layer, and norms for its two inputs.
EAGLE3 = """
token_embd.weight   -> embed_tokens.weight
output_norm.*       -> norm.*
output.*            -> lm_head.*
fc.weight           -> fc.weight
enc.output_norm.weight -> input_norm.weight
.attn_norm_2.weight -> @.hidden_norm.weight
d2t                 -> d2t  : minus-row-index
"""

LLADA = """
token_embd.weight   -> model.transformer.wte.weight
output_norm.*       -> model.transformer.ln_f.*
output.*            -> model.transformer.ff_out.*
.attn_norm.*        -> @.attn_norm.*
.ffn_norm.*         -> @.ff_norm.*
.attn_q.*           -> @.q_proj.*  : rotary/query
.attn_k.*           -> @.k_proj.*  : rotary/key
.attn_v.*           -> @.v_proj.*
.attn_qkv.*         -> @.q_proj.* + @.k_proj.* + @.v_proj.* : split-qkv/rotary
.attn_output.*      -> @.attn_out.*
.ffn_gate.*         -> @.ff_proj.*
.ffn_up.*           -> @.up_proj.*
.ffn_down.*         -> @.ff_out.*
"""

CHAMELEON = """
.attn_q_norm.*      -> @.self_attn.q_norm.*  : restore-head-gains
.attn_k_norm.*      -> @.self_attn.k_norm.*  : restore-head-gains
"""

COGVLM = """
.attn_qkv.*         -> @.self_attn.language_expert_query_key_value.*
.attn_output.*      -> @.self_attn.language_expert_dense.*
.ffn_gate.*         -> @.mlp.language_mlp.gate_proj.*
.ffn_up.*           -> @.mlp.language_mlp.up_proj.*
.ffn_down.*         -> @.mlp.language_mlp.down_proj.*
.vis_attn_qkv.*     -> @.self_attn.vision_expert_query_key_value.*
.vis_attn_output.*  -> @.self_attn.vision_expert_dense.*
.vis_gate.*         -> @.mlp.vision_mlp.gate_proj.*
.vis_up.*           -> @.mlp.vision_mlp.up_proj.*
.vis_down.*         -> @.mlp.vision_mlp.down_proj.*
"""

# Draft models that read hidden states of a larger one.
DFLASH = """
enc.output_norm.weight  -> model.hidden_norm.weight
fc.weight               -> model.fc.weight
token_embd.weight       -> model.embed_tokens.weight
output.*                -> model.lm_head.*
rope_freqs.weight       -> -  : unrotated-divisors
d2t                     -> d2t  : minus-row-index
.attn_sinks.weight      -> @.self_attn.sinks
markov_w1.weight        -> model.markov_head.markov_w1.weight
markov_w2.weight        -> model.markov_head.markov_w2.weight
conf_proj.*             -> model.confidence_head.proj.*
.attn_conv_base.weight  -> @.attention_conv.base_kernel.weight
.attn_conv_proj.weight  -> @.attention_conv.kernel_projection.weight
.ffn_conv_base.weight   -> @.mlp_conv.base_kernel.weight
.ffn_conv_proj.weight   -> @.mlp_conv.kernel_projection.weight
selector_predecessor.weight -> model.candidate_selector.predecessor_codebook
selector_successor.weight   -> model.candidate_selector.successor_codebook
selector_hidden.weight      -> model.candidate_selector.hidden_projection.weight
"""

# Drafts of Gemma 4 have its four norms a layer.
DFLASH_GEMMA = (
    t.SANDWICH
    + """
.layer_output_scale.weight -> @.layer_scalar
"""
)

# Stage 0 holds the inputs, the last stage the outputs; the file does not say which is last, and
# published drafts have one.
DSPARK = """
fc.weight               -> mtp.0.main_proj.weight
enc.output_norm.weight  -> mtp.0.main_norm.weight
output_norm.weight      -> mtp.0.norm.weight
output_hc_fn.weight     -> mtp.0.hc_head_fn
output_hc_base.weight   -> mtp.0.hc_head_base
output_hc_scale.weight  -> mtp.0.hc_head_scale
markov_w1.weight        -> mtp.0.markov_head.markov_w1.weight
markov_w2.weight        -> mtp.0.markov_head.markov_w2.weight
conf_proj.*             -> mtp.0.confidence_head.proj.*
!token_embd.weight
!output.weight
!.exp_probs_b_vl.bias
!.ffn_gate_tid2eid.weight
!.attn_compressor_ape.weight
!.attn_compressor_kv.weight
!.attn_compressor_gate.weight
!.attn_compressor_norm.weight
!.indexer.attn_q_b.weight
!.indexer.proj.weight
!.indexer_compressor_ape.weight
!.indexer_compressor_kv.weight
!.indexer_compressor_gate.weight
!.indexer_compressor_norm.weight
!.nextn.eh_proj.weight
!.nextn.enorm.weight
!.nextn.hnorm.weight
!.nextn.shared_head_norm.weight
!.nextn.embed_tokens.weight
!.nextn.shared_head_head.weight
"""

MUSE_GLIMMER = """
.attn_gate.*        -> @.self_attn.gate_proj.*
.attn_q_norm.weight -> -  : invented-gain
.attn_k_norm.weight -> -  : invented-gain
"""

# Blocks whose attention was replaced by one matrix have no key heads.
DECI_LINEAR = """
.attn_output.weight -> @.self_attn.linear_attn.weight ? no key heads
"""

ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "llama",
        "LlamaModel, InternLM3Model",
        ROTARY_DECODER + t.ROPE_DIVISORS + t.MIXTRAL_EXPERTS,
        note="Mixtral's experts are named w1, w2, w3; files made from Mistral's own consolidated "
        "checkpoints come back under Hugging Face names and in Hugging Face row order",
    ),
    declare(
        "llama-embed",
        "LlamaEmbedNemotronModel",
        (ROTARY_DECODER + t.ROPE_DIVISORS).replace("model.", ""),
        layer="layers",
    ),
    declare("arcee", "ArceeModel", ROTARY_DECODER + t.ROPE_DIVISORS + "!.ffn_gate.*"),
    declare("smollm3", "SmolLM3Model", ROTARY_DECODER + t.ROPE_DIVISORS),
    declare("nanbeige", "NanbeigeModel", ROTARY_DECODER + t.ROPE_DIVISORS + "!.attn_qkv.*"),
    declare(
        "mistral3",
        "Mistral3Model.Ministral3Model, MistralModel",
        ROTARY_DECODER + t.ROPE_DIVISORS + t.MIXTRAL_EXPERTS,
        note="files made from Mistral's own consolidated checkpoints come back under Hugging Face "
        "names and in Hugging Face row order",
    ),
    declare(
        "deci",
        "DeciModel",
        ROTARY_DECODER + t.ROPE_DIVISORS + DECI_LINEAR,
    ),
    declare(
        "deepseek",
        "DeepseekModel",
        ROTARY_DECODER + t.EXPERTS + t.SHARED_EXPERTS,
    ),
    declare("llada", "LLaDAModel", LLADA, layer="model.transformer.blocks"),
    declare("chameleon", "ChameleonModel", ROTARY_DECODER + CHAMELEON),
    declare(
        "eagle3",
        "LlamaModel with a draft vocabulary",
        ROTARY_DECODER + t.ROPE_DIVISORS + EAGLE3 + "!.attn_qkv.*",
        layer=lambda block, p: "midlayer",
        lost={"t2d": "not used at run time"},
        note="the layer is named midlayer, as in the published drafts",
    ),
    declare(
        "dflash",
        "DFlashModel, DSparkModel, Gemma4DSparkModel, MuseGlimmerAssistantModel",
        t.DECODER + t.QK_NORM + DFLASH + "!.attn_qkv.*",
        variants={
            "blk.0.post_attention_norm.weight": declare(
                "dflash",
                "Gemma4DSparkModel",
                t.DECODER + t.QK_NORM + DFLASH + DFLASH_GEMMA + "!.attn_qkv.*",
            ),
            "blk.0.attn_q_a.weight": declare(
                "dflash", "DeepseekV4DSparkModel", DEEPSEEK4 + DSPARK, layer="mtp"
            ),
        },
        lost={"t2d": "not used at run time"},
        note="rows of q and k come back in two halves, which is what rope_is_neox_style true says; "
        "drafts of DeepSeek V4 have names of their own and are told by attn_q_a",
    ),
    declare(
        "muse-glimmer",
        "MuseGlimmerModel",
        t.WHOLE + t.ATTENTION + t.ROTARY + t.MLP + t.OFFSET_SANDWICH + MUSE_GLIMMER,
    ),
    declare(
        "llama4",
        "Llama4Model",
        t.DECODER + t.ROPE_DIVISORS + LLAMA4_MOE,
    ),
    declare(
        "apertus",
        "ApertusModel",
        t.DECODER + t.QK_NORM + t.ROPE_DIVISORS + APERTUS,
    ),
    declare("cogvlm", "CogVLMModel", t.WHOLE + t.NORMS + COGVLM),
)
