"""DeepSeek V2 and V3: latent attention, experts with shared ones beside them, MTP in V3."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ._check import Dims
from ._config import Config
from ._decoder import Sizes, decoder, experts, gated_mlp, linear, norms, sizes
from ._table import Block, Family, Table


def build(config: Config, table: Table, *, correction: bool) -> None:
    # Heads have widths of their own here; the usual key, where it is there, means another thing.
    s = sizes(config.replaced("head_dim", config.count("v_head_dim")))
    common = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **_latent_attention(config, s),
    }
    sparse = _experts(config, table, s, correction)
    base = decoder(config, table, s, _layers(config, s, common, sparse))
    predictors = config.count("num_nextn_predict_layers", default=0, zero=True)
    table.bound(predictors * (len(common) + len(sparse)))
    for index in range(s.layers, s.layers + predictors):
        table.allow_whole(
            {
                **common,
                **sparse,
                **norms(s.hidden, "enorm", "hnorm", "shared_head.norm"),
                "eh_proj.weight": (s.hidden, 2 * s.hidden),
                "embed_tokens.weight": (s.vocab, s.hidden),
                "shared_head.head.weight": (s.vocab, s.hidden),
            },
            f"{base}layers.{index}.",
        )


def _latent_attention(config: Config, s: Sizes) -> dict[str, Dims]:
    rotary = config.count("qk_rope_head_dim")
    plain = config.count("qk_nope_head_dim")
    value = config.count("v_head_dim")
    rank = config.count("kv_lora_rank")
    bias = config.flag("attention_bias", default=False)
    queries = s.heads * (plain + rotary)
    block = {
        **linear("self_attn.kv_a_proj_with_mqa", rank + rotary, s.hidden, bias),
        **norms(rank, "self_attn.kv_a_layernorm"),
        **linear("self_attn.kv_b_proj", s.heads * (plain + value), rank),
        **linear("self_attn.o_proj", s.hidden, s.heads * value, bias),
    }
    if config.has("q_lora_rank"):
        query_rank = config.count("q_lora_rank")
        block |= linear("self_attn.q_a_proj", query_rank, s.hidden, bias)
        block |= norms(query_rank, "self_attn.q_a_layernorm")
        block |= linear("self_attn.q_b_proj", queries, query_rank)
    else:
        block |= linear("self_attn.q_proj", queries, s.hidden)
    return block


def _experts(config: Config, table: Table, s: Sizes, correction: bool) -> dict[str, Dims]:
    count = config.count("n_routed_experts", "num_local_experts")
    width = config.count("moe_intermediate_size")
    shared = config.count("n_shared_experts", default=0, zero=True)
    block: dict[str, Dims] = {
        "mlp.gate.weight": (count, s.hidden),
        **experts(table, count, gated_mlp(s.hidden, width, prefix="")),
    }
    if correction:
        block["mlp.gate.e_score_correction_bias"] = (count,)
    if shared:
        block |= gated_mlp(s.hidden, shared * width, prefix="mlp.shared_experts.")
    return block


def _layers(config: Config, s: Sizes, common: Block, sparse: Block) -> Iterator[Block]:
    dense = gated_mlp(s.hidden, s.intermediate)
    first = config.count("first_k_dense_replace", default=0, zero=True)
    step = config.count("moe_layer_freq", default=1)
    for index in range(s.layers):
        is_sparse = index >= first and index % step == 0
        yield {**common, **(sparse if is_sparse else dense)}


build_v2 = partial(build, correction=False)
build_v3 = partial(build, correction=True)

FAMILY = Family("deepseek_v3", build_v3, rope=True)
