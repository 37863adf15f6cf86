"""Dense decoders under the names of Hugging Face, most of them plain renames."""

from __future__ import annotations

from .._declare import Architecture, declare, layers
from . import _tables as t

PHI2 = """
output_norm.*       -> model.final_layernorm.*
.attn_output.*      -> @.self_attn.dense.*
.ffn_up.*           -> @.mlp.fc1.*
.ffn_down.*         -> @.mlp.fc2.*
!.ffn_norm.*
!.ffn_gate.*
"""

# The name says up; the tensor holds gate above up, as the checkpoint does.
FUSED_UP = """
.ffn_up.*           -> @.mlp.gate_up_proj.*
.attn_qkv.*         -> @.self_attn.qkv_proj.*
!.ffn_gate.*
!.attn_q.*
!.attn_k.*
!.attn_v.*
"""

STARCODER2 = """
.ffn_up.*           -> @.mlp.c_fc.*
.ffn_down.*         -> @.mlp.c_proj.*
!.ffn_gate.*
"""

STABLELM = """
.attn_q_norm.weight -> @.self_attn.q_layernorm.norms.{e}.weight  : split-stack
.attn_k_norm.weight -> @.self_attn.k_layernorm.norms.{e}.weight  : split-stack
"""

NEMOTRON = """
output_norm.weight  -> model.norm.weight                  : gain-minus-one
.attn_norm.weight   -> @.input_layernorm.weight           : gain-minus-one
.ffn_norm.weight    -> @.post_attention_layernorm.weight  : gain-minus-one
!.ffn_gate.*
"""

BITNET = """
.attn_q.weight      -> @.self_attn.q_proj.weight  : unquantize-ternary
.attn_k.weight      -> @.self_attn.k_proj.weight  : unquantize-ternary
.attn_v.weight      -> @.self_attn.v_proj.weight  : unquantize-ternary
.attn_output.weight -> @.self_attn.o_proj.weight  : unquantize-ternary
.ffn_gate.weight    -> @.mlp.gate_proj.weight     : unquantize-ternary
.ffn_up.weight      -> @.mlp.up_proj.weight       : unquantize-ternary
.ffn_down.weight    -> @.mlp.down_proj.weight     : unquantize-ternary
.attn_sub_norm.*    -> @.self_attn.inner_attn_ln.*
.ffn_sub_norm.*     -> @.mlp.ffn_layernorm.*
!.attn_qkv.*
!output.*
"""

BAICHUAN = """
.attn_q.weight + .attn_k.weight + .attn_v.weight -> @.self_attn.W_pack.weight : merge-qkv/rotary-divided
!.attn_qkv.*
"""

INTERNLM2 = """
token_embd.weight   -> model.tok_embeddings.weight
output_norm.*       -> model.norm.*
output.*            -> output.*
.attn_norm.*        -> @.attention_norm.*
.ffn_norm.*         -> @.ffn_norm.*
.attn_q.weight + .attn_k.weight + .attn_v.weight -> @.attention.wqkv.weight : merge-qkv/groups
.attn_output.*      -> @.attention.wo.*
.ffn_gate.*         -> @.feed_forward.w1.*
.ffn_up.*           -> @.feed_forward.w3.*
.ffn_down.*         -> @.feed_forward.w2.*
"""

XVERSE = """
.attn_q.weight      -> @.self_attn.q_proj.weight  : rotary/query
.attn_k.weight      -> @.self_attn.k_proj.weight  : rotary/key-divided
.attn_qkv.weight    -> @.self_attn.q_proj.weight + @.self_attn.k_proj.weight + @.self_attn.v_proj.weight : split-qkv/rotary-divided
"""

PLAMO1 = """
.attn_norm.*        -> @.norm.*
.attn_q.weight      -> @.self_attn.q_proj.weight  : shuffled-rows
.attn_output.weight -> @.self_attn.o_proj.weight  : shuffled-columns
!.ffn_norm.*
!.attn_qkv.*
"""

# The gains of PLaMo are moved by constants of their own; two names have no suffix.
PLAMO_NORMS = """
output_norm.weight      -> model.norm.weight             : gain-minus-one
.attn_norm.weight       -> @.pre_mixer_norm.weight       : gain-minus-one
.post_attention_norm    -> @.post_mixer_norm.weight      : gain-minus-one-fifth
.ffn_norm.weight        -> @.pre_mlp_norm.weight         : gain-minus-one
.post_ffw_norm          -> @.post_mlp_norm.weight        : gain-minus-fifth-to-three-halves
"""

PLAMO_MIXER = """
.attn_qkv.*             -> @.mixer.qkv_proj.*
.attn_output.*          -> @.mixer.o_proj.*
.ffn_up.*               -> @.mlp.gate_up_proj.*
.ffn_down.*             -> @.mlp.down_proj.*
"""

PLAMO3 = """
.attn_q_norm.weight     -> @.mixer.q_norm.weight  : gain-minus-one
.attn_k_norm.weight     -> @.mixer.k_norm.weight  : gain-minus-one
"""

PLAMO2 = """
.attn_q_norm.weight     -> @.mixer.q_weight
.attn_k_norm.weight     -> @.mixer.k_weight
.ssm_in.*               -> @.mixer.in_proj.*
.ssm_conv1d.weight      -> @.mixer.conv1d.weight  : conv
.ssm_conv1d.bias        -> @.mixer.conv1d.bias
.ssm_x.*                -> @.mixer.bcdt_proj.*
.ssm_dt.weight          -> @.mixer.dt_proj.weight
.ssm_dt.bias            -> @.mixer.dt_bias
.ssm_a                  -> @.mixer.A_log          : decay
.ssm_d                  -> @.mixer.D
.ssm_dt_norm            -> @.mixer.dt_norm_weight
.ssm_b_norm             -> @.mixer.B_norm_weight
.ssm_c_norm             -> @.mixer.C_norm_weight
.ssm_out.*              -> @.mixer.out_proj.*
"""

GLM4 = """
!.attn_qkv.*
.attn_q.*               -> @.self_attn.q_proj.*  : rotary/partial-query
.attn_k.*               -> @.self_attn.k_proj.*  : rotary/partial-key
.post_attention_norm.*  -> @.post_self_attn_layernorm.*
.post_ffw_norm.*        -> @.post_mlp_layernorm.*
.ffn_up.*               -> @.mlp.gate_up_proj.*
.attn_qkv.*             -> @.self_attn.q_proj.* + @.self_attn.k_proj.* + @.self_attn.v_proj.* : split-qkv ? no sections
!.ffn_gate.*
"""

CHATGLM = """
token_embd.weight       -> transformer.embedding.word_embeddings.weight
output_norm.*           -> transformer.encoder.final_layernorm.*
output.*                -> transformer.output_layer.*
.attn_norm.*            -> @.input_layernorm.*
.ffn_norm.*             -> @.post_attention_layernorm.*
.attn_qkv.*             -> @.self_attention.query_key_value.*
.attn_output.*          -> @.self_attention.dense.*
.ffn_up.*               -> @.mlp.dense_h_to_4h.*
.ffn_down.*             -> @.mlp.dense_4h_to_h.*
"""

GLM = (
    t.DECODER
    + """
.ffn_up.*               -> @.mlp.gate_up_proj.*
!.ffn_gate.*
!.attn_qkv.*
"""
)

# Norms behind attention and MLP only.
POST_NORMS = """
.post_attention_norm.*  -> @.post_attention_layernorm.*
.post_ffw_norm.*        -> @.post_feedforward_layernorm.*
!.attn_norm.*
!.ffn_norm.*
"""

SEED_OSS = """
.post_attention_norm.*  -> @.post_attention_layernorm.*
!.ffn_norm.*
"""

HUNYUAN_QK_NORM = """
.attn_q_norm.*          -> @.self_attn.query_layernorm.*
.attn_k_norm.*          -> @.self_attn.key_layernorm.*
"""

SPARK = """
.attn_qkv.weight        -> @.self_attn.q_k_v_proj.weight
.attn_gate.*            -> @.self_attn.g_proj.*
!.attn_qkv.bias
!.attn_q.*
!.attn_k.*
!.attn_v.*
"""

# Gains are scalars, the second half of q and k is negated, and there is one norm.
TALKIE = """
token_embd.weight       -> model.embed.weight
output.weight           -> lm_head.weight
.attn_q.weight          -> @.attn.attn_query.weight     : negate-second-half
.attn_k.weight          -> @.attn.attn_key.weight       : negate-second-half
.attn_v.weight          -> @.attn.attn_value.weight
.attn_output.weight     -> @.attn.attn_resid.weight
.attn_q_norm.weight     -> @.attn.head_gain.head_g      : head-vector
.ffn_gate.weight        -> @.mlp.mlp_gate.weight
.ffn_up.weight          -> @.mlp.mlp_linear.weight
.ffn_down.weight        -> @.mlp.mlp_resid.weight
.layer_output_scale.weight -> @.embed_skip.a_g
.attn_output.scale      -> @.attn_gain.a_g
.ffn_down.scale         -> @.mlp_gain.a_g
=logit_scale            -> lm_head_gain.w_g             : logit_scale
"""

# Two stacks of layers, L below H.
HRM = """
token_embd.weight       -> model.embed_tokens.weight
output.weight           -> lm_head.weight
hrm.z_l_init            -> model.z_L_init
.attn_gate.weight + .attn_q.weight + .attn_k.weight + .attn_v.weight -> @.attn.gqkv_proj.weight : merge-four-rows
.attn_output.weight     -> @.attn.o_proj.weight
.ffn_gate.weight + .ffn_up.weight -> @.mlp.gate_up_proj.weight  : gate-up
.ffn_down.weight        -> @.mlp.down_proj.weight
"""


def _hrm_layer(block: int, p: object) -> str:
    stack = p.positive("hrm.layers_per_stack")  # type: ignore[attr-defined]
    name, index = ("H", block - stack) if block >= stack else ("L", block)
    return f"model.{name}_module.layers.{index}"


TIED = {"lm_head.weight": "dropped where the config ties it to the embedding"}
ZERO_BIASES = {"*.bias": "all zero, which the exporter checks"}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare("phi2", "Phi2Model", t.DECODER + PHI2, note="names of PhiForCausalLM"),
    declare("phi3", "Phi3MiniModel", t.DECODER + FUSED_UP + t.ROPE_FACTORS),
    declare("starcoder2", "StarCoder2Model", t.DECODER + STARCODER2 + t.ROPE_DIVISORS),
    declare("stablelm", "StableLMModel", t.DECODER + STABLELM),
    declare("nemotron", "NemotronModel", t.DECODER + NEMOTRON + t.ROPE_DIVISORS),
    declare("bitnet", "BitnetModel", t.DECODER + BITNET),
    declare("baichuan", "BaichuanModel", t.DECODER + BAICHUAN),
    declare("internlm2", "InternLM2Model", INTERNLM2),
    declare("xverse", "XverseModel", t.DECODER + XVERSE),
    declare("orion", "OrionModel", t.DECODER),
    declare("plamo", "PlamoModel", t.DECODER + PLAMO1, layer="model.layers.layers"),
    declare(
        "plamo2",
        "Plamo2Model",
        t.WHOLE + PLAMO_NORMS + PLAMO_MIXER + PLAMO2,
        layer="model.layers.layers",
    ),
    declare(
        "plamo3",
        "Plamo3Model",
        t.WHOLE + PLAMO_NORMS + PLAMO_MIXER + PLAMO3,
        layer="model.layers.layers",
    ),
    declare(
        "minicpm",
        "MiniCPMModel",
        t.DECODER + t.ROTARY_WEIGHTS + t.ROPE_FACTORS,
    ),
    declare(
        "command-r",
        "CommandR2Model",
        t.DECODER + t.QK_NORM + "!.ffn_norm.*\n!output.*",
        lost=TIED,
    ),
    declare(
        "cohere2", "Cohere2Model", t.DECODER + "!.ffn_norm.*\n!output.*", lost=TIED | ZERO_BIASES
    ),
    declare(
        "olmo",
        "OlmoModel",
        t.DECODER + t.ROTARY_WEIGHTS + "!output_norm.*\n!.attn_norm.*\n!.ffn_norm.*",
    ),
    declare("olmo2", "Olmo2Model", t.DECODER + t.QK_NORM + POST_NORMS),
    declare("seed_oss", "SeedOssModel", t.DECODER + SEED_OSS),
    declare(
        "exaone4",
        "Exaone4Model, Exaone4_5_TextModel",
        t.DECODER + t.QK_NORM + POST_NORMS + t.ROPE_DIVISORS,
        """
.nextn.eh_proj.*            -> mtp.fc.*
.nextn.enorm.*              -> mtp.pre_fc_norm_embedding.*
.nextn.hnorm.*              -> mtp.pre_fc_norm_hidden.*
.nextn.shared_head_norm.*   -> mtp.norm.*
""",
        layer=layers("model.layers", "mtp.layers"),
    ),
    declare("dream", "DreamModel", t.DECODER),
    declare("jais2", "Jais2Model", t.DECODER + "!.ffn_gate.*"),
    declare("maincoder", "MaincoderModel", t.DECODER + t.QK_NORM),
    declare(
        "ernie4_5",
        "Ernie4_5Model",
        t.DECODER,
        note="names of the transformers library: nothing fused",
    ),
    declare("paddleocr", "PaddleOCRModel", t.DECODER, note="text part only; nothing fused"),
    declare("hunyuan-dense", "HunYuanModel", t.DECODER + HUNYUAN_QK_NORM, lost=TIED),
    declare("hunyuan_vl", "HunyuanVLTextModel", t.DECODER + HUNYUAN_QK_NORM, lost=TIED),
    declare("pangu-embedded", "PanguEmbeddedModel", t.DECODER, lost=TIED),
    declare("glm4", "Glm4Model", t.DECODER + GLM4 + t.NEXTN, note="text part only"),
    declare(
        "chatglm",
        "ChatGLMModel",
        CHATGLM,
        layer="transformer.encoder.layers",
        variants={"blk.0.attn_q.weight": declare("chatglm", "ChatGLMModel", GLM)},
        note="ChatGLM names where q, k and v are fused, GlmForCausalLM names where they are not",
    ),
    declare("spark2_5", "Spark2_5Model", t.DECODER + SPARK),
    declare("talkie", "TalkieModel", TALKIE, layer="model.blocks"),
    declare("hrm_text", "HrmTextModel", HRM, layer=_hrm_layer),
    declare(
        "plm",
        "PLMModel",
        t.WHOLE + t.NORMS + t.LATENT_QUERY + t.LATENT_ATTENTION + t.LATENT_JOINED + t.MLP,
        "!.attn_q_a.*\n!.attn_q_a_norm.*\n!.attn_q_b.*\n!.attn_k_b.weight\n!.ffn_gate.*",
    ),
    declare(
        "minicpm3",
        "MiniCPM3Model",
        t.WHOLE + t.NORMS + t.LATENT_ATTENTION + t.LATENT_JOINED + t.MLP + t.ROPE_FACTORS,
        "!.attn_k_b.weight",
    ),
)
