"""Tables that many architectures share. See `_declare` for how a line reads."""

from __future__ import annotations

WHOLE = """
token_embd.weight   -> model.embed_tokens.weight
output_norm.*       -> model.norm.*
output.*            -> lm_head.*
"""

ATTENTION = """
.attn_q.*           -> @.self_attn.q_proj.*
.attn_k.*           -> @.self_attn.k_proj.*
.attn_v.*           -> @.self_attn.v_proj.*
.attn_output.*      -> @.self_attn.o_proj.*
.attn_qkv.*         -> @.self_attn.q_proj.* + @.self_attn.k_proj.* + @.self_attn.v_proj.* : split-qkv
"""

# llama.cpp's first rotary kind: the exporter regroups the rows of q and k, biases included.
ROTARY = """
.attn_q.*           -> @.self_attn.q_proj.*  : rotary/query
.attn_k.*           -> @.self_attn.k_proj.*  : rotary/key
.attn_qkv.*         -> @.self_attn.q_proj.* + @.self_attn.k_proj.* + @.self_attn.v_proj.* : split-qkv/rotary
"""

# The same, by converters that look at weights only.
ROTARY_WEIGHTS = """
.attn_q.weight      -> @.self_attn.q_proj.weight  : rotary/query
.attn_k.weight      -> @.self_attn.k_proj.weight  : rotary/key
.attn_qkv.weight    -> @.self_attn.q_proj.weight + @.self_attn.k_proj.weight + @.self_attn.v_proj.weight : split-qkv/rotary
"""

QK_NORM = """
.attn_q_norm.*      -> @.self_attn.q_norm.*
.attn_k_norm.*      -> @.self_attn.k_norm.*
"""

MLP = """
.ffn_gate.*         -> @.mlp.gate_proj.*
.ffn_up.*           -> @.mlp.up_proj.*
.ffn_down.*         -> @.mlp.down_proj.*
"""

NORMS = """
.attn_norm.*        -> @.input_layernorm.*
.ffn_norm.*         -> @.post_attention_layernorm.*
"""

DECODER = WHOLE + NORMS + ATTENTION + MLP
NO_MLP = WHOLE + NORMS + ATTENTION

# Norms behind attention and MLP, and in front of the MLP.
SANDWICH = """
.attn_norm.*            -> @.input_layernorm.*
.post_attention_norm.*  -> @.post_attention_layernorm.*
.ffn_norm.*             -> @.pre_feedforward_layernorm.*
.post_ffw_norm.*        -> @.post_feedforward_layernorm.*
"""

EXPERTS = """
.ffn_gate_inp.*         -> @.mlp.gate.*
.ffn_gate_exps.weight   -> @.mlp.experts.{e}.gate_proj.weight  : split-stack
.ffn_up_exps.weight     -> @.mlp.experts.{e}.up_proj.weight    : split-stack
.ffn_down_exps.weight   -> @.mlp.experts.{e}.down_proj.weight  : split-stack
"""

# The same, joined by --fuse-gate-up-exps; only the name tells.
FUSED_EXPERTS = """
.ffn_gate_up_exps.weight -> @.mlp.experts.{e}.gate_proj.weight + @.mlp.experts.{e}.up_proj.weight : split-stack/gate-up
"""

# w1 is gate, w2 is down, w3 is up.
MIXTRAL_EXPERTS = """
.ffn_gate_inp.*         -> @.block_sparse_moe.gate.*
.ffn_gate_exps.weight   -> @.block_sparse_moe.experts.{e}.w1.weight  : split-stack
.ffn_up_exps.weight     -> @.block_sparse_moe.experts.{e}.w3.weight  : split-stack
.ffn_down_exps.weight   -> @.block_sparse_moe.experts.{e}.w2.weight  : split-stack
"""

SHARED_EXPERTS = """
.ffn_gate_shexp.*       -> @.mlp.shared_experts.gate_proj.*
.ffn_up_shexp.*         -> @.mlp.shared_experts.up_proj.*
.ffn_down_shexp.*       -> @.mlp.shared_experts.down_proj.*
"""

CORRECTION_BIAS = """
.exp_probs_b.bias       -> @.mlp.gate.e_score_correction_bias
"""

# Multi-token-prediction blocks that keep the numbering of the layers.
NEXTN = """
.nextn.eh_proj.*            -> @.eh_proj.*
.nextn.embed_tokens.weight  -> @.embed_tokens.weight
.nextn.enorm.*              -> @.enorm.*
.nextn.hnorm.*              -> @.hnorm.*
.nextn.shared_head_head.*   -> @.shared_head.head.*
.nextn.shared_head_norm.*   -> @.shared_head.norm.*
"""

ROPE_DIVISORS = """
rope_freqs.weight   -> -  : rope-divisors
"""

ROPE_FACTORS = """
rope_factors_long.weight   -> -  : rope-factors
rope_factors_short.weight  -> -  : rope-factors
"""

LATENT_QUERY = """
.attn_q.*           -> @.self_attn.q_proj.*
"""

# Files of early 2025 have one attn_kv_b.
LATENT_JOINED = """
.attn_kv_b.*        -> @.self_attn.kv_b_proj.*
"""

LATENT_ATTENTION = """
.attn_q_a.*         -> @.self_attn.q_a_proj.*
.attn_q_a_norm.*    -> @.self_attn.q_a_layernorm.*
.attn_q_b.*         -> @.self_attn.q_b_proj.*
.attn_kv_a_mqa.*    -> @.self_attn.kv_a_proj_with_mqa.*
.attn_kv_a_norm.*   -> @.self_attn.kv_a_layernorm.*
.attn_k_b.weight + .attn_v_b.weight -> @.self_attn.kv_b_proj.weight : merge-kv-b
.attn_output.*      -> @.self_attn.o_proj.*
"""

INDEXER = """
.indexer.k_norm.*       -> @.self_attn.indexer.k_norm.*
.indexer.proj.*         -> @.self_attn.indexer.weights_proj.*
.indexer.attn_k.*       -> @.self_attn.indexer.wk.*
.indexer.attn_q_b.*     -> @.self_attn.indexer.wq_b.*
"""

# Rows and entries of every norm whose name ends in norm.weight, moved by 1.
OFFSET_NORMS = """
output_norm.weight          -> model.norm.weight                  : gain-minus-one
.attn_norm.weight           -> @.input_layernorm.weight           : gain-minus-one
.ffn_norm.weight            -> @.post_attention_layernorm.weight  : gain-minus-one
"""

OFFSET_QK_NORM = """
.attn_q_norm.weight         -> @.self_attn.q_norm.weight          : gain-minus-one
.attn_k_norm.weight         -> @.self_attn.k_norm.weight          : gain-minus-one
"""

OFFSET_SANDWICH = """
.attn_norm.weight           -> @.input_layernorm.weight             : gain-minus-one
.post_attention_norm.weight -> @.post_attention_layernorm.weight    : gain-minus-one
.ffn_norm.weight            -> @.pre_feedforward_layernorm.weight   : gain-minus-one
.post_ffw_norm.weight       -> @.post_feedforward_layernorm.weight  : gain-minus-one
"""
