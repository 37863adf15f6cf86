"""Granite: Llama rows, experts and shared experts with gate and up in one tensor."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t
from .llama import ROTARY_DECODER

GATE_UP_EXPERTS = """
.ffn_gate_inp.weight    -> @.block_sparse_moe.router.layer.weight
.ffn_gate_exps.weight + .ffn_up_exps.weight -> @.block_sparse_moe.input_linear.weight : gate-up
.ffn_down_exps.weight   -> @.block_sparse_moe.output_linear.weight
.ffn_gate_shexp.weight + .ffn_up_shexp.weight -> @.shared_mlp.input_linear.weight : gate-up
.ffn_down_shexp.weight  -> @.shared_mlp.output_linear.weight
"""

# Without routed experts the shared ones are the MLP.
GATE_UP_MLP = """
.ffn_gate.weight + .ffn_up.weight -> @.shared_mlp.input_linear.weight : gate-up
.ffn_down.weight        -> @.shared_mlp.output_linear.weight
"""

MAMBA2 = """
.ssm_in.*               -> @.mamba.in_proj.*
.ssm_conv1d.weight      -> @.mamba.conv1d.weight  : conv
.ssm_conv1d.bias        -> @.mamba.conv1d.bias
.ssm_dt.bias            -> @.mamba.dt_bias
.ssm_a                  -> @.mamba.A_log          : decay/heads
.ssm_d                  -> @.mamba.D              : head-vector
.ssm_norm.weight        -> @.mamba.norm.weight    : grouped-norm
.ssm_out.*              -> @.mamba.out_proj.*
"""

# The blocks that the exporter takes for recurrent ones have no key heads in the header.
HYBRID_ROTARY = """
.attn_q.*           -> @.self_attn.q_proj.*  : rotary/query-attention
.attn_k.*           -> @.self_attn.k_proj.*  : rotary/key-attention
.attn_qkv.*         -> @.self_attn.q_proj.* + @.self_attn.k_proj.* + @.self_attn.v_proj.* : split-qkv/rotary
"""

# Bamba turns its rows, which Granite's hybrids do not: the header says so.
BAMBA = """
output_norm.*           -> model.final_layernorm.*
.ffn_norm.*             -> @.pre_ff_layernorm.*
.ffn_gate.*             -> @.feed_forward.gate_proj.*
.ffn_up.*               -> @.feed_forward.up_proj.*
.ffn_down.*             -> @.feed_forward.down_proj.*
"""

SWA = """
.attn_sinks.weight      -> @.self_attn.sinks
.ffn_gate_inp.weight    -> @.block_sparse_moe.router.weight
.ffn_gate_up_exps.weight -> @.block_sparse_moe.experts.gate_up_proj
.ffn_down_exps.weight   -> @.block_sparse_moe.experts.down_proj
.ffn_up_shexp.weight    -> @.shared_mlp.input_linear.weight
.ffn_down_shexp.weight  -> @.shared_mlp.output_linear.weight
!.attn_qkv.*
"""

# Adapters are stacked: number 0 is all zero, and none of the checkpoint.
SWITCH = """
.attn_qkv.weight    -> @.self_attn.qkv_proj.base_layer.weight  : qkv-rotary
.attn_output.weight -> @.self_attn.o_proj.base_layer.weight
.ffn_gate.weight + .ffn_up.weight -> @.shared_mlp.input_linear.base_layer.weight : gate-up
.ffn_down.weight    -> @.shared_mlp.output_linear.base_layer.weight
.attn_q.lora_a      -> @.self_attn.qkv_proj.lora_A_slices.0  : adapters
.attn_k.lora_a      -> @.self_attn.qkv_proj.lora_A_slices.1  : adapters
.attn_v.lora_a      -> @.self_attn.qkv_proj.lora_A_slices.2  : adapters
.attn_q.lora_b      -> @.self_attn.qkv_proj.lora_B_slices.0  : adapters/query
.attn_k.lora_b      -> @.self_attn.qkv_proj.lora_B_slices.1  : adapters/key
.attn_v.lora_b      -> @.self_attn.qkv_proj.lora_B_slices.2  : adapters
.attn_output.lora_a -> @.self_attn.o_proj.lora_A  : adapters
.attn_output.lora_b -> @.self_attn.o_proj.lora_B  : adapters
.ffn_gate.lora_a    -> @.shared_mlp.input_linear.lora_A_slices.0  : adapters
.ffn_up.lora_a      -> @.shared_mlp.input_linear.lora_A_slices.1  : adapters
.ffn_gate.lora_b    -> @.shared_mlp.input_linear.lora_B_slices.0  : adapters
.ffn_up.lora_b      -> @.shared_mlp.input_linear.lora_B_slices.1  : adapters
.ffn_down.lora_a    -> @.shared_mlp.output_linear.lora_A  : adapters
.ffn_down.lora_b    -> @.shared_mlp.output_linear.lora_B  : adapters
"""

ARCHITECTURES: tuple[Architecture, ...] = (
    declare("granite", "GraniteModel", ROTARY_DECODER + t.ROPE_DIVISORS),
    declare(
        "granitemoe",
        "GraniteMoeModel",
        t.NO_MLP + t.ROTARY + t.ROPE_DIVISORS + GATE_UP_EXPERTS,
    ),
    declare(
        "granitehybrid",
        "GraniteHybridModel, Mamba2Model, GraniteMoeModel",
        t.NO_MLP + HYBRID_ROTARY + GATE_UP_MLP + GATE_UP_EXPERTS + MAMBA2,
        variants={
            "=rope.scaling.finetuned": declare(
                "granitehybrid",
                "GraniteHybridModel, Mamba2Model, GraniteMoeModel",
                t.NO_MLP + HYBRID_ROTARY + MAMBA2 + BAMBA,
            )
        },
        note="names of GraniteMoeHybridForCausalLM; Bamba is told by its rotary embedding",
    ),
    declare(
        "granite_swa", "GraniteSWAModel, GraniteMoeSWAModel", ROTARY_DECODER + t.ROPE_DIVISORS + SWA
    ),
    declare(
        "graniteswitch",
        "GraniteSwitchModel",
        t.WHOLE + t.NORMS + SWITCH + "!output.*\n!.attn_norm.bias\n!.ffn_norm.bias",
        lost={
            "lm_head.weight": "tied to the embedding",
            "model.switch.*": "kept as metadata",
        },
    ),
)
