"""GPT-2 and its line: fused query, key and value, and names of their own."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t

GPT2 = """
token_embd.weight       -> transformer.wte.weight
position_embd.weight    -> transformer.wpe.weight
output_norm.*           -> transformer.ln_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.ln_1.*
.ffn_norm.*             -> @.ln_2.*
.attn_qkv.*             -> @.attn.c_attn.*
.attn_output.*          -> @.attn.c_proj.*
.ffn_up.*               -> @.mlp.c_fc.*
.ffn_down.*             -> @.mlp.c_proj.*
"""

# Conv1D weights multiply from the other side than Linear ones.
CONV1D = """
.attn_qkv.weight        -> @.attn.c_attn.weight  : transpose
.attn_output.weight     -> @.attn.c_proj.weight  : transpose
.ffn_up.weight          -> @.mlp.c_fc.weight     : transpose
.ffn_down.weight        -> @.mlp.c_proj.weight   : transpose
"""

JAIS = """
token_embd.weight       -> transformer.wte.weight  : unscale-by-config
output.*                -> lm_head.*               : unscale-by-config
.ffn_gate.weight        -> @.mlp.c_fc2.weight      : transpose
.ffn_gate.bias          -> @.mlp.c_fc2.bias
!position_embd.weight
"""

REFACT = """
.attn_q.*           -> @.attn.q.*
.attn_k.weight + .attn_v.weight -> @.attn.kv.weight                 : merge-rows
.ffn_gate.weight + .ffn_up.weight -> @.mlp.gate_up_proj.weight      : gate-up
!.attn_qkv.*
!.ffn_up.bias
!position_embd.weight
"""

NEOX = """
token_embd.weight       -> gpt_neox.embed_in.weight
output_norm.*           -> gpt_neox.final_layer_norm.*
output.*                -> embed_out.*
.attn_norm.*            -> @.input_layernorm.*
.ffn_norm.*             -> @.post_attention_layernorm.*
.attn_qkv.*             -> @.attention.query_key_value.*  : qkv-heads
.attn_output.*          -> @.attention.dense.*
.ffn_up.*               -> @.mlp.dense_h_to_4h.*
.ffn_down.*             -> @.mlp.dense_4h_to_h.*
"""

BLOOM = """
token_embd.weight       -> transformer.word_embeddings.weight
token_embd_norm.*       -> transformer.word_embeddings_layernorm.*
output_norm.*           -> transformer.ln_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.input_layernorm.*
.ffn_norm.*             -> @.post_attention_layernorm.*
.attn_qkv.*             -> @.self_attention.query_key_value.*  : qkv-heads
.attn_output.*          -> @.self_attention.dense.*
.ffn_up.*               -> @.mlp.dense_h_to_4h.*
.ffn_down.*             -> @.mlp.dense_4h_to_h.*
"""

FALCON = """
token_embd.weight       -> transformer.word_embeddings.weight
output_norm.*           -> transformer.ln_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.input_layernorm.*
.attn_qkv.weight        -> @.self_attention.query_key_value.weight  : qkv-groups
.attn_qkv.bias          -> @.self_attention.query_key_value.bias
.attn_output.*          -> @.self_attention.dense.*
.ffn_up.*               -> @.mlp.dense_h_to_4h.*
.ffn_down.*             -> @.mlp.dense_4h_to_h.*
"""

# With two norms a layer, the one for the MLP is stored as attn_norm.
FALCON_TWO_NORMS = """
.attn_norm.*            -> @.ln_mlp.*
.attn_norm_2.*          -> @.ln_attn.*
"""

MPT = """
token_embd.weight       -> transformer.wte.weight
position_embd.weight    -> transformer.wpe.weight
output_norm.*           -> transformer.norm_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.norm_1.*
.ffn_norm.*             -> @.norm_2.*
.attn_qkv.*             -> @.attn.Wqkv.*
.attn_q_norm.*          -> @.attn.q_ln.*
.attn_k_norm.*          -> @.attn.k_ln.*
.attn_output.*          -> @.attn.out_proj.*
.ffn_up.*               -> @.ffn.up_proj.*
.ffn_down.*             -> @.ffn.down_proj.*
.ffn.act.scales         -> @.ffn.act.scales
"""

OPENELM = """
token_embd.weight       -> transformer.token_embeddings.weight
output_norm.*           -> transformer.norm.*
.attn_norm.*            -> @.attn_norm.*
.ffn_norm.*             -> @.ffn_norm.*
.attn_qkv.*             -> @.attn.qkv_proj.*
.attn_q_norm.*          -> @.attn.q_norm.*
.attn_k_norm.*          -> @.attn.k_norm.*
.attn_output.*          -> @.attn.out_proj.*
.ffn_gate.weight + .ffn_up.weight -> @.ffn.proj_1.weight  : gate-up
.ffn_down.*             -> @.ffn.proj_2.*
"""

EXAONE = """
token_embd.weight       -> transformer.wte.weight
output_norm.*           -> transformer.ln_f.*
output.*                -> lm_head.*
.attn_norm.*            -> @.ln_1.*
.ffn_norm.*             -> @.ln_2.*
.attn_q.*               -> @.attn.attention.q_proj.*
.attn_k.*               -> @.attn.attention.k_proj.*
.attn_v.*               -> @.attn.attention.v_proj.*
.attn_qkv.*             -> @.attn.attention.q_proj.* + @.attn.attention.k_proj.* + @.attn.attention.v_proj.* : split-qkv
.attn_output.*          -> @.attn.attention.out_proj.*
.ffn_gate.*             -> @.mlp.c_fc_0.*
.ffn_up.*               -> @.mlp.c_fc_1.*
.ffn_down.*             -> @.mlp.c_proj.*
"""

ROTARY_TABLES = {"*.rotary_emb.inv_freq": "computed from the config"}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "gpt2",
        "GPT2Model, RuGPT3XLModel",
        GPT2 + CONV1D,
        layer="transformer.h",
        lost={"lm_head.weight": "tied to the embedding", "*.attn.masked_bias": "a mask"},
        note="names of GPT2LMHeadModel; RuGPT3XL checkpoints share the string",
    ),
    declare("gptneox", "GPTNeoXModel", NEOX, layer="gpt_neox.layers", lost=ROTARY_TABLES),
    declare(
        "bloom",
        "BloomModel",
        BLOOM,
        layer="transformer.h",
        lost={"lm_head.weight": "tied to the embedding"},
    ),
    declare(
        "falcon",
        "FalconModel",
        FALCON,
        layer="transformer.h",
        variants={
            "blk.0.attn_norm_2.weight": declare(
                "falcon", "FalconModel", FALCON + FALCON_TWO_NORMS, layer="transformer.h"
            )
        },
        note="the two-norm form is told by attn_norm_2",
    ),
    declare("mpt", "MPTModel", MPT, layer="transformer.blocks"),
    declare("starcoder", "StarCoderModel", GPT2, layer="transformer.h"),
    declare("codeshell", "CodeShellModel", GPT2, layer="transformer.h", lost=ROTARY_TABLES),
    declare(
        "jais",
        "JaisModel",
        GPT2 + CONV1D + JAIS,
        layer="transformer.h",
        lost={"transformer.relative_pe.slopes": "kept as metadata"},
    ),
    declare("refact", "RefactModel", GPT2 + REFACT, layer="transformer.h"),
    declare("openelm", "OpenELMModel", OPENELM, layer="transformer.layers"),
    declare("exaone", "ExaoneModel", EXAONE + t.ROPE_DIVISORS, layer="transformer.h"),
    declare("gptj", "none", refused="no-exporter"),
)
