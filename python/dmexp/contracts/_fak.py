"""The contracts of *fak*, another public loader of the same files: a table to compare with.

All seventeen of them, under its own names. Nothing is imported by this table: two of its entries
are contradicted by files that the exporter itself wrote, and are marked so.
"""

from __future__ import annotations

from ._record import Contract, Provenance
from ._step import Step
from .steps import STEPS

__all__ = ["CONTRACTS", "fak_contracts"]

EXPORTER = "llama.cpp convert_hf_to_gguf, as fak describes it"
VERSIONS = "fak at mirror HEAD, 2026"

# Its rotary default applies to every architecture but these.
NEOX = frozenset(
    (
        *("qwen2", "qwen2moe", "qwen3", "qwen3moe"),
        *("gemma", "gemma2", "gemma3", "gemma4", "gemma4-assistant"),
        *("phi2", "phi3", "stablelm", "gptneox", "gpt2", "starcoder2"),
        *("falcon", "mpt", "olmo2", "gptoss"),
    )
)

_SPELLINGS = dict.fromkeys(
    ("bonsai", "ternary-bonsai", "qwen3.6", "qwen36", "qwen3.8", "qwen38", "qwen-3.8", "qwen-38"),
    "qwen35",
)

_NOT_PERMUTED = (
    "the exporter does not regroup these rows: files that it wrote hold q, its gate rows and k "
    "byte for byte as in the checkpoint, and the runtime rotates two halves. Undoing a step that "
    "was not taken scrambles the heads."
)

# External name, canonical name, step, why it is contradicted.
_QWEN35 = (
    ("ssm_a", "linear_attn.A_log", "value-heads/decay", ""),
    ("output_norm.weight", "model.norm.weight", "gain-minus-one", ""),
    ("attn_norm.weight", "input_layernorm.weight", "gain-minus-one", ""),
    ("ffn_norm.weight", "post_attention_layernorm.weight", "gain-minus-one", ""),
    ("attn_q_norm.weight", "self_attn.q_norm.weight", "gain-minus-one", ""),
    ("attn_k_norm.weight", "self_attn.k_norm.weight", "gain-minus-one", ""),
    ("attn_q.weight", "self_attn.q_proj.weight", "rotary/stacked-query", _NOT_PERMUTED),
    ("attn_k.weight", "self_attn.k_proj.weight", "rotary/key", _NOT_PERMUTED),
    ("attn_qkv.weight", "self_attn.qkv_proj.weight", "value-heads/qkv", ""),
    ("attn_gate.weight", "self_attn.q_gate_proj.weight", "value-heads", ""),
    ("ssm_alpha.weight", "linear_attn.in_proj_a.weight", "value-heads", ""),
    ("ssm_beta.weight", "linear_attn.in_proj_b.weight", "value-heads", ""),
    ("ssm_conv1d.weight", "linear_attn.conv1d.weight", "value-heads/qkv", ""),
    ("ssm_dt.bias", "linear_attn.dt_bias", "value-heads", ""),
    ("ssm_out.weight", "linear_attn.out_proj.weight", "value-heads/columns", ""),
)

_DEFAULT = (
    ("attn_q.weight", "self_attn.q_proj.weight", "rotary/query", ""),
    ("attn_k.weight", "self_attn.k_proj.weight", "rotary/key", ""),
)


def _contract(architecture: str, row: tuple[str, str, str, str]) -> Contract:
    external, canonical, name, disputed = row
    step: Step = STEPS[name]
    whole = external.startswith("output_norm")
    return Contract(
        convention="fak",
        architecture=architecture,
        external=(external if whole else f"blk.{{i}}.{external}",),
        canonical=(canonical if whole else f"model.layers.{{i}}.{canonical}",),
        transform=step.id,
        parameters=tuple(f"{{architecture}}.{key}" for key in step.keys),
        source_domain=step.source,
        canonical_domain=step.canonical,
        provenance=Provenance(
            EXPORTER, VERSIONS, f"fak's registry: {step.exporter}", step.consumer
        ),
        lossless=step.lossless,
        invertible=step.invertible,
        rejects_canonical_domain=step.rejects_canonical,
        tolerance=step.tolerance,
        witnesses=step.witnesses,
        step=step,
        status="read",
        disputed=disputed,
    )


CONTRACTS: tuple[Contract, ...] = (
    *(_contract("qwen35", row) for row in _QWEN35),
    *(_contract("default", row) for row in _DEFAULT),
)


def fak_contracts(architecture: str) -> tuple[Contract, ...]:
    """What fak applies to an architecture: 15, none, or its 2 for everything else."""
    name = _SPELLINGS.get(architecture, architecture)
    if name in ("qwen35", "qwen35moe"):
        return CONTRACTS[: len(_QWEN35)]
    return () if name in NEOX else CONTRACTS[len(_QWEN35) :]
