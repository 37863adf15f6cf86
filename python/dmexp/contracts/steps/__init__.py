"""Every step by the name that architecture tables call it by.

A name is an id, or an id and what it applies to: ``rotary-unpermute/query``.
"""

from __future__ import annotations

from .._step import Step
from . import (
    bands,
    decay,
    dropped,
    fused_groups,
    fused_qkv,
    gains,
    gate_up,
    latent,
    others,
    packed_delta,
    refused,
    rotary,
    rwkv,
    shapes,
    stacks,
    transposes,
    value_heads,
)

__all__ = ["STEPS"]

STEPS: dict[str, Step] = {
    # rotary rows
    "rotary/query": rotary.QUERY_ROWS,
    "rotary/key": rotary.KEY_ROWS,
    "rotary/key-divided": rotary.KEY_HEADS_DIVIDED,
    "rotary/query-attention": rotary.QUERY_ROWS_OF_ATTENTION,
    "rotary/key-attention": rotary.KEY_ROWS_OF_ATTENTION,
    "rotary/stacked-query": rotary.STACKED_QUERY_ROWS,
    "rotary/partial-query": rotary.PARTIAL_QUERY_ROWS,
    "rotary/partial-key": rotary.PARTIAL_KEY_ROWS,
    "negate-second-half": rotary.NEGATE_SECOND_HALF,
    # gains and decay
    "gain-minus-one": gains.MINUS_ONE,
    "gain-minus-one-fifth": gains.MINUS_ONE_FIFTH,
    "gain-minus-fifth-to-three-halves": gains.MINUS_ROOT,
    "decay": decay.DECAY,
    "decay/four-axes": decay.DECAY_OF_FOUR_AXES,
    "decay/heads": decay.DECAY_OF_HEADS,
    "decay/positive-heads": decay.POSITIVE_DECAY_OF_HEADS,
    # gated delta nets
    "value-heads": value_heads.GROUPED_ROWS,
    "value-heads/columns": value_heads.GROUPED_COLUMNS,
    "value-heads/qkv": value_heads.GROUPED_QKV_ROWS,
    "value-heads/conv": value_heads.GROUPED_CONV,
    "value-heads/decay": value_heads.GROUPED_DECAY,
    "pack-qkvz": packed_delta.PACKED_QKVZ,
    # query, key and value
    "split-qkv": fused_qkv.BANDS_SPLIT,
    "split-qkv/gated": fused_qkv.BANDS_SPLIT_GATED,
    "split-qkv/rotary": fused_qkv.BANDS_SPLIT_ROTARY,
    "split-qkv/rotary-divided": fused_qkv.BANDS_SPLIT_ROTARY_DIVIDED,
    "merge-qkv": fused_qkv.BANDS_MERGED,
    "merge-qkv/rotary": fused_qkv.BANDS_MERGED_ROTARY,
    "merge-qkv/rotary-divided": fused_qkv.BANDS_MERGED_ROTARY_DIVIDED,
    "merge-qkv/groups": fused_groups.GROUPS_MERGED_ROTARY,
    "qkv-rotary": fused_qkv.BANDS_ROTARY,
    "qkv-heads": fused_groups.HEADS_FROM_BANDS,
    "qkv-groups": fused_groups.GROUPS_FROM_BANDS,
    "merge-kv-b": latent.MERGE_KV_B,
    "merge-rows": bands.TWO_ROW_BANDS,
    "merge-four-rows": bands.FOUR_ROW_BANDS,
    "split-columns": bands.SPLIT_COLUMN_HALVES,
    # experts, gate and up
    "split-stack": stacks.SPLIT_STACK,
    "split-stack/gate-up": stacks.SPLIT_GATE_UP_EXPERTS,
    "gate-up": gate_up.ROWS_JOINED,
    "gate-up/columns": gate_up.COLUMNS_JOINED,
    "gate-up/alternate": gate_up.COLUMNS_ALTERNATE,
    "gate-up/alternate-bias": gate_up.ENTRIES_ALTERNATE,
    "transpose": transposes.TRANSPOSE,
    "expert-columns": transposes.EXPERT_COLUMNS,
    # dims only
    "expert-rows": shapes.EXPERT_ROWS,
    "conv": shapes.CONV_CHANNELS,
    "conv/short": shapes.SHORT_CONV,
    "conv/ple": shapes.LAYER_CONV,
    "conv/split": shapes.CONV_CHANNELS_SPLIT,
    "head-vector": shapes.HEAD_VECTOR,
    "unit-row": shapes.UNIT_ROW,
    "grouped-norm": shapes.GROUPED_NORM,
    # RWKV
    "split-lerp": rwkv.SPLIT_LERP,
    "rescale": rwkv.RESCALED,
    "layer-vector": rwkv.VECTOR_OF_LAYER,
    "head-matrix": rwkv.HEAD_MATRIX,
    "five-blocks/last": rwkv.BLOCKS_LAST,
    "five-blocks/first": rwkv.BLOCKS_FIRST,
    # one architecture each
    "shuffled-rows": others.SHUFFLED_ROWS,
    "shuffled-columns": others.SHUFFLED_COLUMNS,
    "minus-row-index": others.MINUS_ROW_INDEX,
    "adapters": others.ADAPTERS,
    "adapters/query": others.ADAPTERS_OF_QUERIES,
    "adapters/key": others.ADAPTERS_OF_KEYS,
    "xielu.alpha_n": others.FromMetadata("xielu.alpha_n", (1,)),
    "xielu.alpha_p": others.FromMetadata("xielu.alpha_p", (1,)),
    "xielu.beta": others.FromMetadata("xielu.beta", ()),
    "xielu.eps": others.FromMetadata("xielu.eps", ()),
    "logit_scale": others.FromMetadata("logit_scale", (1,)),
    # generated, guarded, refused
    "rope-divisors": dropped.ROPE_DIVISORS,
    "unrotated-divisors": dropped.UNROTATED_DIVISORS,
    "rope-factors": dropped.ROPE_FACTORS,
    "invented-gain": dropped.INVENTED_GAIN,
    "copied-layer": dropped.COPIED_LAYER,
    "selected-rows": dropped.RANKED_ROWS,
    "guard-normalized": refused.UNNORMALIZED,
    "guard-centred": refused.UNCENTRED,
    **refused.REFUSALS,
}
