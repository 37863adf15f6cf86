"""What `tests/corpus/gguf-more` proves beyond `tests/corpus/gguf`. See `_evidence`."""

from __future__ import annotations

MORE: dict[str, str] = {
    "afmoe": (
        "output.weight output_norm.weight token_embd.weight .attn_gate.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_v.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight .post_attention_norm.weight .post_ffw_norm.weight "
    ),
    "apertus": (
        "output.weight output_norm.weight rope_freqs.weight token_embd.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_v.weight .ffn_down.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "arcee": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias .attn_q.weight "
        ".attn_v.bias .attn_v.weight .ffn_down.bias .ffn_down.weight .ffn_norm.weight .ffn_up.bias "
        ".ffn_up.weight "
    ),
    "bailingmoe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_gate_shexp.weight "
        ".ffn_norm.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "bailingmoe2": (
        "output.weight output_norm.weight token_embd.weight .attn_k_norm.weight .attn_norm.weight "
        ".attn_output.weight .attn_q_norm.weight .attn_qkv.weight .exp_probs_b.bias "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_gate_shexp.weight .ffn_norm.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "bert": ("cls.output.bias cls.output.weight "),
    "bloom": (
        "output_norm.bias output_norm.weight token_embd.weight token_embd_norm.bias "
        "token_embd_norm.weight .attn_norm.bias .attn_norm.weight .attn_output.bias "
        ".attn_output.weight .attn_qkv.bias .attn_qkv.weight .ffn_down.bias .ffn_down.weight "
        ".ffn_norm.bias .ffn_norm.weight .ffn_up.bias .ffn_up.weight "
    ),
    "chatglm": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.bias .attn_q.weight .attn_qkv.bias "
        ".attn_qkv.weight .attn_v.bias .attn_v.weight .ffn_down.weight .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "codeshell": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight .attn_norm.bias "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_qkv.bias .attn_qkv.weight "
        ".ffn_down.bias .ffn_down.weight .ffn_norm.bias .ffn_norm.weight .ffn_up.bias "
        ".ffn_up.weight "
    ),
    "cohere2": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_up.weight "
    ),
    "dbrx": (
        "output.weight output_norm.weight token_embd.weight .attn_norm.weight .attn_output.weight "
        ".attn_output_norm.weight .attn_qkv.weight .ffn_down_exps.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_up_exps.weight "
    ),
    "deepseek": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_gate_shexp.weight "
        ".ffn_norm.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "deepseek2": (
        "output.weight output_norm.weight token_embd.weight .attn_k_b.weight .attn_kv_a_mqa.weight "
        ".attn_kv_a_norm.weight .attn_norm.weight .attn_output.weight .attn_q_a.weight "
        ".attn_q_a_norm.weight .attn_q_b.weight .attn_v_b.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "deepseek32": (
        "output.weight output_norm.weight token_embd.weight .attn_k_b.weight .attn_kv_a_mqa.weight "
        ".attn_kv_a_norm.weight .attn_norm.weight .attn_output.weight .attn_q_a.weight "
        ".attn_q_a_norm.weight .attn_q_b.weight .attn_v_b.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight .indexer.attn_k.weight .indexer.attn_q_b.weight "
        ".indexer.k_norm.bias .indexer.k_norm.weight .indexer.proj.weight "
    ),
    "ernie4_5": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias .attn_q.weight "
        ".attn_v.bias .attn_v.weight .ffn_down.bias .ffn_down.weight .ffn_gate.bias "
        ".ffn_gate.weight .ffn_norm.weight .ffn_up.bias .ffn_up.weight "
    ),
    "ernie4_5-moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "exaone-moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".exp_probs_b.bias .ffn_down.weight .ffn_down_exps.weight .ffn_down_shexp.weight "
        ".ffn_gate.weight .ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_gate_shexp.weight "
        ".ffn_norm.weight .ffn_up.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "exaone4": (
        "output.weight output_norm.weight rope_freqs.weight token_embd.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".ffn_down.weight .ffn_gate.weight .ffn_up.weight .post_attention_norm.weight "
        ".post_ffw_norm.weight "
    ),
    "falcon": (
        "output_norm.bias output_norm.weight token_embd.weight .attn_norm.bias .attn_norm.weight "
        ".attn_norm_2.bias .attn_norm_2.weight .attn_output.weight .attn_qkv.weight "
        ".ffn_down.weight .ffn_up.weight "
    ),
    "gemma": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "gemma-embedding": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight .ffn_down.weight "
        ".ffn_gate.weight .ffn_norm.weight .ffn_up.weight .post_attention_norm.weight "
        ".post_ffw_norm.weight "
    ),
    "gemma2": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight .post_attention_norm.weight .post_ffw_norm.weight "
    ),
    "gemma3n": (
        "altup_proj.weight altup_unembd_proj.weight output_norm.weight per_layer_model_proj.weight "
        "per_layer_proj_norm.weight per_layer_token_embd.weight token_embd.weight "
        ".altup_correct_coef.weight .altup_correct_scale.weight .altup_predict_coef.weight "
        ".altup_router.weight .altup_router_norm.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".ffn_down.weight .ffn_gate.weight .ffn_norm.weight .ffn_up.weight .inp_gate.weight "
        ".laurel_l.weight .laurel_post_norm.weight .laurel_r.weight .post_attention_norm.weight "
        ".post_ffw_norm.weight .post_norm.weight .proj.weight "
    ),
    "glm-dsa": (
        "output.weight output_norm.weight token_embd.weight .attn_k_b.weight .attn_kv_a_mqa.weight "
        ".attn_kv_a_norm.weight .attn_norm.weight .attn_output.weight .attn_q_a.weight "
        ".attn_q_a_norm.weight .attn_q_b.weight .attn_v_b.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight .indexer.attn_k.weight .indexer.attn_q_b.weight "
        ".indexer.k_norm.bias .indexer.k_norm.weight .indexer.proj.weight "
    ),
    "glm4": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.bias .attn_q.weight .attn_v.bias "
        ".attn_v.weight .ffn_down.weight .ffn_norm.weight .ffn_up.weight "
        ".post_attention_norm.weight .post_ffw_norm.weight "
    ),
    "glm4moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_up.weight .ffn_up_exps.weight "
        ".ffn_up_shexp.weight .nextn.eh_proj.weight .nextn.enorm.weight .nextn.hnorm.weight "
        ".nextn.shared_head_norm.weight .post_attention_norm.weight "
    ),
    "gpt2": (
        "output_norm.bias output_norm.weight position_embd.weight token_embd.weight .attn_norm.bias "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_qkv.bias .attn_qkv.weight "
        ".ffn_down.bias .ffn_down.weight .ffn_norm.bias .ffn_norm.weight .ffn_up.bias "
        ".ffn_up.weight "
    ),
    "granite": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias .attn_q.weight "
        ".attn_qkv.bias .attn_qkv.weight .attn_v.bias .attn_v.weight .ffn_down.weight "
        ".ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "granitehybrid": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight .ffn_up_exps.weight "
        ".ffn_up_shexp.weight .ssm_a .ssm_conv1d.bias .ssm_conv1d.weight .ssm_d .ssm_dt.bias "
        ".ssm_in.weight .ssm_norm.weight .ssm_out.weight "
    ),
    "granitemoe": (".ffn_down_shexp.weight .ffn_gate_shexp.weight .ffn_up_shexp.weight "),
    "hunyuan-dense": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight .ffn_down.weight "
        ".ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "hunyuan-moe": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_gate_shexp.weight .ffn_norm.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "internlm2": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight "
        ".ffn_norm.weight .ffn_up.weight "
    ),
    "jais2": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight .attn_k.bias "
        ".attn_k.weight .attn_norm.bias .attn_norm.weight .attn_output.bias .attn_output.weight "
        ".attn_q.bias .attn_q.weight .attn_v.bias .attn_v.weight .ffn_down.bias .ffn_down.weight "
        ".ffn_norm.bias .ffn_norm.weight .ffn_up.bias .ffn_up.weight "
    ),
    "jamba": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight .ffn_down_exps.weight "
        ".ffn_gate.weight .ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_norm.weight "
        ".ffn_up.weight .ffn_up_exps.weight .ssm_a .ssm_b_norm.weight .ssm_c_norm.weight "
        ".ssm_conv1d.bias .ssm_conv1d.weight .ssm_d .ssm_dt.bias .ssm_dt.weight .ssm_dt_norm.weight "
        ".ssm_in.weight .ssm_out.weight .ssm_x.weight "
    ),
    "laguna": (
        "output.weight output_norm.weight token_embd.weight .attn_gate.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_v.weight .exp_probs_b.bias .ffn_down.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "lfm2": (".attn_qkv.weight "),
    "lfm2moe": (
        "token_embd.weight token_embd_norm.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".exp_probs_b.bias .ffn_down.weight .ffn_down_exps.weight .ffn_gate.weight "
        ".ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight .shortconv.conv.weight .shortconv.in_proj.weight "
        ".shortconv.out_proj.weight "
    ),
    "llama4": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_gate_shexp.weight .ffn_norm.weight .ffn_up.weight .ffn_up_exps.weight "
        ".ffn_up_shexp.weight "
    ),
    "mamba2": (
        "output.weight output_norm.weight token_embd.weight .attn_norm.weight .ssm_a "
        ".ssm_conv1d.bias .ssm_conv1d.weight .ssm_d .ssm_dt.bias .ssm_in.weight .ssm_norm.weight "
        ".ssm_out.weight "
    ),
    "minicpm": (
        "output.weight output_norm.weight rope_factors_long.weight rope_factors_short.weight "
        "token_embd.weight .attn_k.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "minicpm3": (
        "output_norm.weight token_embd.weight .attn_kv_a_mqa.weight .attn_kv_a_norm.weight "
        ".attn_kv_b.weight .attn_norm.weight .attn_output.weight .attn_q_a.weight "
        ".attn_q_a_norm.weight .attn_q_b.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "minimax-m2": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".exp_probs_b.bias .ffn_down_exps.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_norm.weight .ffn_up_exps.weight "
    ),
    "modern-bert": (
        "cls.norm.weight cls.output.bias cls.output.weight cls.weight output_norm.weight "
        "token_embd.weight token_embd_norm.weight .attn_norm.weight .attn_output.weight "
        ".attn_qkv.weight .ffn_down.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "mpt": (
        "output_norm.weight token_embd.weight .attn_norm.weight .attn_output.weight "
        ".attn_qkv.weight .ffn_down.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "nemotron_h_moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .exp_probs_b.bias .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate_inp.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
        ".ssm_a .ssm_conv1d.bias .ssm_conv1d.weight .ssm_d .ssm_dt.bias .ssm_in.weight "
        ".ssm_norm.weight .ssm_out.weight "
    ),
    "olmo": (
        "output.weight token_embd.weight .attn_k.weight .attn_output.weight .attn_q.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_up.weight "
    ),
    "olmoe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight .attn_v.weight "
        ".ffn_down_exps.weight .ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_norm.weight "
        ".ffn_up_exps.weight "
    ),
    "phi2": (
        "output.bias output.weight output_norm.bias output_norm.weight token_embd.weight "
        ".attn_k.bias .attn_k.weight .attn_norm.bias .attn_norm.weight .attn_output.bias "
        ".attn_output.weight .attn_q.bias .attn_q.weight .attn_v.bias .attn_v.weight .ffn_down.bias "
        ".ffn_down.weight .ffn_up.bias .ffn_up.weight "
    ),
    "phi3": (
        "output.weight output_norm.weight rope_factors_long.weight rope_factors_short.weight "
        "token_embd.weight .attn_norm.weight .attn_output.weight .attn_qkv.weight .ffn_down.weight "
        ".ffn_norm.weight .ffn_up.weight "
    ),
    "phimoe": (
        "output.bias output.weight output_norm.bias output_norm.weight rope_factors_long.weight "
        "rope_factors_short.weight token_embd.weight .attn_k.bias .attn_k.weight .attn_norm.bias "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias .attn_q.weight "
        ".attn_v.bias .attn_v.weight .ffn_down_exps.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_norm.bias .ffn_norm.weight .ffn_up_exps.weight "
    ),
    "plamo3": (
        "output.weight output_norm.weight token_embd.weight .attn_k_norm.weight .attn_norm.weight "
        ".attn_output.weight .attn_q_norm.weight .attn_qkv.weight .ffn_down.weight .ffn_norm.weight "
        ".ffn_up.weight .post_attention_norm .post_ffw_norm "
    ),
    "qwen": (
        "output.weight output_norm.weight token_embd.weight .attn_norm.weight .attn_output.weight "
        ".attn_qkv.bias .attn_qkv.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "qwen2": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.bias .attn_q.weight .attn_v.bias "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "qwen2moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.bias .attn_q.weight .attn_v.bias "
        ".attn_v.weight .ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_inp_shexp.weight .ffn_gate_shexp.weight .ffn_norm.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight "
    ),
    "qwen3": (
        "output.weight .attn_k.bias .attn_output.bias .attn_q.bias .attn_qkv.bias .attn_qkv.weight "
        ".attn_v.bias "
    ),
    "qwen35moe": (
        "output.weight output_norm.weight token_embd.weight .attn_gate.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_qkv.weight .attn_v.weight .ffn_down_exps.weight "
        ".ffn_down_shexp.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_gate_inp_shexp.weight .ffn_gate_shexp.weight .ffn_up_exps.weight .ffn_up_shexp.weight "
        ".post_attention_norm.weight .ssm_a .ssm_alpha.weight .ssm_beta.weight .ssm_conv1d.weight "
        ".ssm_dt.bias .ssm_norm.weight .ssm_out.weight "
    ),
    "qwen3next": (".ffn_gate_up_exps.weight "),
    "rwkv6": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight token_embd_norm.bias "
        "token_embd_norm.weight .attn_norm.bias .attn_norm.weight .attn_norm_2.bias "
        ".attn_norm_2.weight .channel_mix_key.weight .channel_mix_lerp_k.weight "
        ".channel_mix_lerp_r.weight .channel_mix_receptance.weight .channel_mix_value.weight "
        ".time_mix_decay.weight .time_mix_decay_w1.weight .time_mix_decay_w2.weight "
        ".time_mix_first.weight .time_mix_gate.weight .time_mix_key.weight "
        ".time_mix_lerp_fused.weight .time_mix_lerp_x.weight .time_mix_ln.bias .time_mix_ln.weight "
        ".time_mix_output.weight .time_mix_receptance.weight .time_mix_value.weight "
        ".time_mix_w1.weight .time_mix_w2.weight "
    ),
    "rwkv7": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight token_embd_norm.bias "
        "token_embd_norm.weight .attn_norm.bias .attn_norm.weight .attn_norm_2.bias "
        ".attn_norm_2.weight .channel_mix_key.weight .channel_mix_lerp_k.weight "
        ".channel_mix_value.weight .time_mix_a0.weight .time_mix_a1.weight .time_mix_a2.weight "
        ".time_mix_g1.weight .time_mix_g2.weight .time_mix_k_a.weight .time_mix_k_k.weight "
        ".time_mix_key.weight .time_mix_lerp_fused.weight .time_mix_ln.bias .time_mix_ln.weight "
        ".time_mix_output.weight .time_mix_r_k.weight .time_mix_receptance.weight "
        ".time_mix_v0.weight .time_mix_v1.weight .time_mix_v2.weight .time_mix_value.weight "
        ".time_mix_w0.weight .time_mix_w1.weight .time_mix_w2.weight "
    ),
    "seed_oss": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.bias .attn_q.weight .attn_v.bias "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_up.weight "
        ".post_attention_norm.weight "
    ),
    "stablelm": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight .attn_k.bias "
        ".attn_k.weight .attn_norm.bias .attn_norm.weight .attn_output.weight .attn_q.bias "
        ".attn_q.weight .attn_v.bias .attn_v.weight .ffn_down.weight .ffn_gate.weight "
        ".ffn_norm.bias .ffn_norm.weight .ffn_up.weight "
    ),
    "starcoder": (
        "output_norm.bias output_norm.weight position_embd.weight token_embd.weight .attn_norm.bias "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_qkv.bias .attn_qkv.weight "
        ".ffn_down.bias .ffn_down.weight .ffn_norm.bias .ffn_norm.weight .ffn_up.bias "
        ".ffn_up.weight "
    ),
    "starcoder2": (
        "output_norm.bias output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.bias .attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias "
        ".attn_q.weight .attn_v.bias .attn_v.weight .ffn_down.bias .ffn_down.weight .ffn_norm.bias "
        ".ffn_norm.weight .ffn_up.bias .ffn_up.weight "
    ),
    "t5": (
        "dec.blk.{i}.attn_k.weight dec.blk.{i}.attn_norm.weight dec.blk.{i}.attn_o.weight "
        "dec.blk.{i}.attn_q.weight dec.blk.{i}.attn_rel_b.weight dec.blk.{i}.attn_v.weight "
        "dec.blk.{i}.cross_attn_k.weight dec.blk.{i}.cross_attn_norm.weight "
        "dec.blk.{i}.cross_attn_o.weight dec.blk.{i}.cross_attn_q.weight "
        "dec.blk.{i}.cross_attn_v.weight dec.blk.{i}.ffn_down.weight dec.blk.{i}.ffn_gate.weight "
        "dec.blk.{i}.ffn_norm.weight dec.blk.{i}.ffn_up.weight dec.output_norm.weight "
        "enc.blk.{i}.attn_k.weight enc.blk.{i}.attn_norm.weight enc.blk.{i}.attn_o.weight "
        "enc.blk.{i}.attn_q.weight enc.blk.{i}.attn_rel_b.weight enc.blk.{i}.attn_v.weight "
        "enc.blk.{i}.ffn_down.weight enc.blk.{i}.ffn_gate.weight enc.blk.{i}.ffn_norm.weight "
        "enc.blk.{i}.ffn_up.weight enc.output_norm.weight token_embd.weight "
    ),
    "t5encoder": (
        "enc.blk.{i}.attn_k.weight enc.blk.{i}.attn_norm.weight enc.blk.{i}.attn_o.weight "
        "enc.blk.{i}.attn_q.weight enc.blk.{i}.attn_rel_b.weight enc.blk.{i}.attn_v.weight "
        "enc.blk.{i}.ffn_down.weight enc.blk.{i}.ffn_gate.weight enc.blk.{i}.ffn_norm.weight "
        "enc.blk.{i}.ffn_up.weight enc.output_norm.weight token_embd.weight "
    ),
    "xverse": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight "
        ".ffn_norm.weight .ffn_up.weight "
    ),
}
