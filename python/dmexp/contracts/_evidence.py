"""Which names are proven by files that the exporter itself wrote.

Each entry lists the external names of an architecture that occur in ``tests/corpus/gguf`` and, in
`_evidence_more`, in ``tests/corpus/gguf-more``, where a file stands beside the checkpoint that it
was made from. Tests rebuild every tensor of those checkpoints and hold this table to what they saw,
in both directions. Everything else is read from the exporter's source, and says so: ``"read"``. A
leading dot stands for ``blk.{i}``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ._evidence_more import MORE

if TYPE_CHECKING:
    from ._declare import Rule

__all__ = ["PROVEN", "Status", "status"]

Status = Literal["verified", "read"]

_CORPUS: dict[str, str] = {
    "baichuan": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_v.weight "
        ".ffn_down.weight .ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
    "bert": (
        "position_embd.weight token_embd.weight token_embd_norm.bias "
        "token_embd_norm.weight token_types.weight .attn_k.bias .attn_k.weight "
        ".attn_output.bias .attn_output.weight .attn_output_norm.bias "
        ".attn_output_norm.weight .attn_q.bias .attn_q.weight .attn_v.bias "
        ".attn_v.weight .ffn_down.bias .ffn_down.weight .ffn_up.bias .ffn_up.weight "
        ".layer_output_norm.bias .layer_output_norm.weight "
    ),
    "command-r": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight "
        ".ffn_gate.weight .ffn_up.weight "
    ),
    "gemma3": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight .post_attention_norm.weight .post_ffw_norm.weight "
    ),
    "gemma4": (
        "output_norm.weight per_layer_model_proj.weight per_layer_proj_norm.weight "
        "per_layer_token_embd.weight rope_freqs.weight token_embd.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_v.weight .ffn_down.weight .ffn_gate.weight "
        ".ffn_norm.weight .ffn_up.weight .inp_gate.weight .layer_output_scale.weight "
        ".post_attention_norm.weight .post_ffw_norm.weight .post_norm.weight "
        ".proj.weight "
    ),
    "gpt-oss": (
        "output.weight output_norm.weight token_embd.weight .attn_k.bias .attn_k.weight "
        ".attn_norm.weight .attn_output.bias .attn_output.weight .attn_q.bias "
        ".attn_q.weight .attn_sinks.weight .attn_v.bias .attn_v.weight "
        ".ffn_down_exps.bias .ffn_down_exps.weight .ffn_gate_exps.bias "
        ".ffn_gate_exps.weight .ffn_gate_inp.bias .ffn_gate_inp.weight "
        ".ffn_up_exps.bias .ffn_up_exps.weight .post_attention_norm.weight "
    ),
    "gptneox": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight "
        ".attn_norm.bias .attn_norm.weight .attn_output.bias .attn_output.weight "
        ".attn_qkv.bias .attn_qkv.weight .ffn_down.bias .ffn_down.weight .ffn_norm.bias "
        ".ffn_norm.weight .ffn_up.bias .ffn_up.weight "
    ),
    "granitemoe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_v.weight "
        ".ffn_down_exps.weight .ffn_gate_exps.weight .ffn_gate_inp.weight "
        ".ffn_norm.weight .ffn_up_exps.weight "
    ),
    "lfm2": (
        "token_embd.weight token_embd_norm.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight .shortconv.conv.weight .shortconv.in_proj.weight "
        ".shortconv.out_proj.weight "
    ),
    "llama": (
        "output.weight output_norm.weight rope_freqs.weight token_embd.weight "
        ".attn_k.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_v.weight .ffn_down.weight .ffn_down_exps.weight .ffn_gate.weight "
        ".ffn_gate_exps.weight .ffn_gate_inp.weight .ffn_norm.weight .ffn_up.weight "
        ".ffn_up_exps.weight "
    ),
    "mamba": (
        "output_norm.weight token_embd.weight .attn_norm.weight .ssm_a .ssm_conv1d.bias "
        ".ssm_conv1d.weight .ssm_d .ssm_dt.bias .ssm_dt.weight .ssm_in.weight "
        ".ssm_out.weight .ssm_x.weight "
    ),
    "nemotron": (
        "output.weight output_norm.bias output_norm.weight token_embd.weight "
        ".attn_k.weight .attn_norm.bias .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_v.weight .ffn_down.weight .ffn_norm.bias .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "nemotron_h": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_v.weight "
        ".ffn_down.weight .ffn_up.weight .ssm_a .ssm_conv1d.bias .ssm_conv1d.weight "
        ".ssm_d .ssm_dt.bias .ssm_in.weight .ssm_norm.weight .ssm_out.weight "
    ),
    "olmo2": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_up.weight "
        ".post_attention_norm.weight .post_ffw_norm.weight "
    ),
    "qwen3": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_k_norm.weight "
        ".attn_norm.weight .attn_output.weight .attn_q.weight .attn_q_norm.weight "
        ".attn_v.weight .ffn_down.weight .ffn_gate.weight .ffn_norm.weight "
        ".ffn_up.weight "
    ),
    "qwen35": (
        "output.weight output_norm.weight token_embd.weight .attn_gate.weight "
        ".attn_k.weight .attn_k_norm.weight .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_q_norm.weight .attn_qkv.weight .attn_v.weight "
        ".ffn_down.weight .ffn_gate.weight .ffn_up.weight .nextn.eh_proj.weight "
        ".nextn.enorm.weight .nextn.hnorm.weight .nextn.shared_head_norm.weight "
        ".post_attention_norm.weight .ssm_a .ssm_alpha.weight .ssm_beta.weight "
        ".ssm_conv1d.weight .ssm_dt.bias .ssm_norm.weight .ssm_out.weight "
    ),
    "qwen3moe": (
        "output.weight output_norm.weight token_embd.weight .attn_k.weight "
        ".attn_k_norm.weight .attn_norm.weight .attn_output.weight .attn_q.weight "
        ".attn_q_norm.weight .attn_v.weight .ffn_down_exps.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_norm.weight .ffn_up_exps.weight "
    ),
    "qwen3next": (
        "output.weight output_norm.weight token_embd.weight .attn_gate.weight "
        ".attn_k.weight .attn_k_norm.weight .attn_norm.weight .attn_output.weight "
        ".attn_q.weight .attn_q_norm.weight .attn_qkv.weight .attn_v.weight "
        ".ffn_down_exps.weight .ffn_down_shexp.weight .ffn_gate_exps.weight "
        ".ffn_gate_inp.weight .ffn_gate_inp_shexp.weight .ffn_gate_shexp.weight "
        ".ffn_up_exps.weight .ffn_up_shexp.weight .nextn.eh_proj.weight "
        ".nextn.enorm.weight .nextn.hnorm.weight .nextn.shared_head_norm.weight "
        ".post_attention_norm.weight .ssm_a .ssm_ba.weight .ssm_conv1d.weight "
        ".ssm_dt.bias .ssm_norm.weight .ssm_out.weight "
    ),
    "smollm3": (
        "output_norm.weight token_embd.weight .attn_k.weight .attn_norm.weight "
        ".attn_output.weight .attn_q.weight .attn_v.weight .ffn_down.weight "
        ".ffn_gate.weight .ffn_norm.weight .ffn_up.weight "
    ),
}


def _proven(name: str) -> frozenset[str]:
    found = f" {_CORPUS.get(name, '')} {MORE.get(name, '')}"
    return frozenset(found.replace(" .", " blk.{i}.").split())


PROVEN: dict[str, frozenset[str]] = {
    name: _proven(name) for name in sorted(_CORPUS.keys() | MORE.keys())
}


def status(architecture: str, rule: Rule) -> Status:
    """``"verified"`` where files prove every external name of a rule, else ``"read"``.

    A rule for particular blocks only shares its names with the general one, and the files have
    the general one.
    """
    proven = PROVEN.get(architecture, frozenset())
    general = not rule.when and not rule.mtp_only
    return "verified" if general and proven.issuperset(rule.external) else "read"
