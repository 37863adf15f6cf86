"""RWKV 6 and 7, and the decoders that borrow their attention."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t

RWKV6 = """
token_embd.weight       -> rwkv.embeddings.weight
token_embd_norm.*       -> rwkv.blocks.0.pre_ln.*
output_norm.*           -> rwkv.ln_out.*
output.*                -> head.*
.attn_norm.*            -> @.ln1.*
.attn_norm_2.*          -> @.ln2.*
.time_mix_key.*         -> @.attention.key.*
.time_mix_value.*       -> @.attention.value.*
.time_mix_receptance.*  -> @.attention.receptance.*
.time_mix_gate.*        -> @.attention.gate.*
.time_mix_ln.*          -> @.attention.ln_x.*
.time_mix_output.weight -> @.attention.output.weight             : rescale
.time_mix_first.weight  -> @.attention.time_faaaa
.time_mix_decay.weight  -> @.attention.time_decay                : layer-vector
.time_mix_decay_w1.weight -> @.attention.time_decay_w1           : transpose
.time_mix_decay_w2.weight -> @.attention.time_decay_w2           : transpose
.time_mix_w1.weight     -> @.attention.time_maa_w1               : transpose
.time_mix_w2.weight     -> @.attention.time_maa_w2               : transpose
.time_mix_lerp_x.weight -> @.attention.time_maa_x                : layer-vector
.time_mix_lerp_fused.weight -> @.attention.time_maa_w + @.attention.time_maa_k + @.attention.time_maa_v + @.attention.time_maa_r + @.attention.time_maa_g : split-lerp
.channel_mix_lerp_k.weight  -> @.feed_forward.time_maa_k         : layer-vector
.channel_mix_lerp_r.weight  -> @.feed_forward.time_maa_r         : layer-vector
.channel_mix_key.*      -> @.feed_forward.key.*
.channel_mix_receptance.* -> @.feed_forward.receptance.*
.channel_mix_value.weight -> @.feed_forward.value.weight         : rescale
"""

RWKV6_QWEN2 = """
.time_mix_key.*         -> @.self_attn.k_proj.*
.time_mix_value.*       -> @.self_attn.v_proj.*
.time_mix_receptance.*  -> @.self_attn.q_proj.*
.time_mix_gate.*        -> @.self_attn.gate.*
.time_mix_output.weight -> @.self_attn.o_proj.weight             : rescale
.time_mix_decay.weight  -> @.self_attn.time_decay                : layer-vector
.time_mix_decay_w1.weight -> @.self_attn.time_decay_w1           : transpose
.time_mix_decay_w2.weight -> @.self_attn.time_decay_w2           : transpose
.time_mix_w1.weight     -> @.self_attn.time_maa_w1               : five-blocks/last
.time_mix_w2.weight     -> @.self_attn.time_maa_w2               : five-blocks/first
.time_mix_lerp_x.weight -> @.self_attn.time_maa_x                : layer-vector
.time_mix_lerp_fused.weight -> @.self_attn.time_maa_w + @.self_attn.time_maa_k + @.self_attn.time_maa_v + @.self_attn.time_maa_r + @.self_attn.time_maa_g : split-lerp
"""

# Low-rank pairs are linear layers here, which are stored as they are.
RWKV7_MIX = """
.time_mix_receptance.*  -> @.attn.r_proj.*
.time_mix_key.*         -> @.attn.k_proj.*
.time_mix_value.*       -> @.attn.v_proj.*
.time_mix_output.*      -> @.attn.o_proj.*
.time_mix_ln.*          -> @.attn.g_norm.*
.time_mix_w0.weight     -> @.attn.w_lora.lora.2.bias
.time_mix_w1.weight     -> @.attn.w_lora.lora.0.weight
.time_mix_w2.weight     -> @.attn.w_lora.lora.2.weight
.time_mix_a0.weight     -> @.attn.a_lora.lora.2.bias
.time_mix_a1.weight     -> @.attn.a_lora.lora.0.weight
.time_mix_a2.weight     -> @.attn.a_lora.lora.2.weight
.time_mix_v0.weight     -> @.attn.v_lora.lora.2.bias
.time_mix_v1.weight     -> @.attn.v_lora.lora.0.weight
.time_mix_v2.weight     -> @.attn.v_lora.lora.2.weight
.time_mix_g1.weight     -> @.attn.g_lora.lora.0.weight
.time_mix_g2.weight     -> @.attn.g_lora.lora.2.weight
blk.0.time_mix_v0.weight -> -  : copied-layer
blk.0.time_mix_v1.weight -> -  : copied-layer
blk.0.time_mix_v2.weight -> -  : copied-layer
.time_mix_k_k.weight    -> @.attn.k_k
.time_mix_k_a.weight    -> @.attn.k_a
.time_mix_r_k.weight    -> @.attn.r_k                            : head-matrix
"""

RWKV7_SIX = """
.time_mix_lerp_fused.weight -> @.attn.x_r + @.attn.x_w + @.attn.x_k + @.attn.x_v + @.attn.x_a + @.attn.x_g : split-lerp
"""

# Without a gate there are five.
RWKV7_FIVE = """
.time_mix_lerp_fused.weight -> @.attn.x_r + @.attn.x_w + @.attn.x_k + @.attn.x_v + @.attn.x_a : split-lerp ? no mix gate
"""

RWKV7 = """
token_embd.weight       -> model.embeddings.weight
token_embd_norm.*       -> model.layers.0.pre_norm.*
output_norm.*           -> model.norm.*
output.*                -> lm_head.*
.attn_norm.*            -> @.attn_norm.*
.attn_norm_2.*          -> @.ffn_norm.*
.channel_mix_lerp_k.weight -> @.ffn.x_k
.channel_mix_key.*      -> @.ffn.key.*
.channel_mix_value.*    -> @.ffn.value.*
"""

ARWKV7 = (RWKV7_MIX + RWKV7_SIX + RWKV7_FIVE).replace("@.attn.", "@.self_attn.time_mixer.")

LAYER0_V = {
    "model.layers.0.attn.v_lora.*": "not used in layer 0",
    "model.layers.0.self_attn.time_mixer.v_lora.*": "not used in layer 0",
}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare("rwkv6", "Rwkv6Model", RWKV6, layer="rwkv.blocks"),
    declare(
        "rwkv6qwen2",
        "RWKV6Qwen2Model, Rwkv6Model",
        t.WHOLE + t.NORMS + t.MLP + RWKV6_QWEN2,
    ),
    declare(
        "rwkv7",
        "Rwkv7Model",
        RWKV7 + RWKV7_MIX + RWKV7_SIX + RWKV7_FIVE,
        lost=LAYER0_V,
        note="names of the flash-linear-attention library, whose low-rank pairs are linear layers",
    ),
    declare(
        "arwkv7",
        "ARwkv7Model, Rwkv7Model",
        t.WHOLE + t.NORMS + t.MLP + "token_embd_norm.* -> model.layers.0.pre_norm.*" + ARWKV7,
        lost=LAYER0_V,
        note="low-rank pairs under the names of the flash-linear-attention library",
    ),
)
