"""Dormouse: a looped decoder with low-rank projections and an n-gram memory.

Its config is one flat table without a ``model_type``; `recognises` tells it by its keys. Every
key has a default, those of the preset ``small``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._check import Dims
from ._config import Config, NotKnown
from ._table import Block, Family, Table

_TELLING_KEYS = ("d_model", "engram_rows")

# Switches that add or replace tensors whose dims are not published.
_UNKNOWN_SWITCHES = (
    "use_gr",
    "use_attnres",
    "use_mhc",
    "use_plain_attn",
    "use_msa",
    "use_situ",
    "use_byteflow",
)


def recognises(config: Mapping[str, Any]) -> bool:
    """Whether a config is dormouse's: no ``model_type``, and keys that no other config has."""
    return "model_type" not in config and all(key in config for key in _TELLING_KEYS)


def expected(config: Mapping[str, Any]) -> dict[str, Dims]:
    """Names and dims in the order in which the original visits them.

    ``aux.conf.proj.weight`` has the dims of the first version, ``[d_model, 1]``; `describe` takes
    the later ``[d_model + rank, 1]`` too, since the original changed it without a new version.

    Raises
    ------
    Undescribed, NotKnown
        A key is mistyped or absurd; a switch is on whose tensors are not known.
    """
    table = Table({})
    build(Config(config), table)
    return table.expected


def build(config: Config, table: Table) -> None:
    """Fill ``table`` from a flat config."""
    for switch in _UNKNOWN_SWITCHES:
        if config.flag(switch, default=False):
            raise NotKnown(f'the tensors that "{switch}" adds to a dormouse model are not known')
    if config.number("aux_fb_weight", 0.0) > 0.0:
        raise NotKnown('the tensors that "aux_fb_weight" adds to a dormouse model are not known')
    d, rank = config.count("d_model", default=768), config.count("rank", default=64)
    vocab = config.count("vocab", default=256)
    low_rank = config.flag("use_tsct", default=True)

    def linear(name: str, inputs: int, outputs: int) -> dict[str, Dims]:
        return _linear(name, inputs, outputs, rank, low_rank=low_rank)

    ffn = config.count("d_ffn", default=2048)
    expert = {**linear("gate_up", d, ffn), **linear("down", ffn, d)}
    experts = config.count("n_experts", default=3)
    table.add({"embedding.weight": (vocab, d)})
    table.add({"controller.weight": (2 * d, _padded(3 + experts))}, "loop_block.")
    table.add(_attention(config, d), "loop_block.shared_attn.gdn2.")
    table.layers("loop_block.expert_ffns.", _repeat(expert, experts))
    table.add(_memory(config, d), "loop_block.engram.")
    table.add(
        {
            "mem_dense.weight": (d, d),
            "norm.weight": (d,),
            "iter_embed": (config.count("max_iter", default=4), d),
            "residual_scale": (1,),
            **linear("out_proj", d, d),
            "mor_router.proj.weight": (d, 1),
            "mor_router.proj.bias": (1,),
        },
        "loop_block.",
    )
    table.add({"norm.weight": (d,), **linear("lm_head", d, vocab)})
    table.add(
        {
            "jepa_pred.proj.weight": (d, d),
            "jepa_pred.norm.gamma": (d,),
            "jepa_pred.norm.beta": (d,),
            "dspark.inner.w1.weight": (vocab, rank),
            "dspark.inner.w2.weight": (rank, vocab),
            "dspark.joint_proj.weight": (2 * rank + d, 3 * rank),
            "conf.proj.weight": _confidence(table, d, rank),
        },
        "aux.",
    )


def _attention(config: Config, d: int) -> Block:
    heads = config.count("n_heads", default=12)
    head_dim = config.count("head_dim", default=64)
    inner = heads * head_dim
    return {
        "q_proj.weight": (d, inner),
        "k_proj.weight": (d, inner),
        "v_proj.weight": (d, inner),
        "decay.w_up.weight": (d, head_dim),
        "decay.w_down.weight": (head_dim, inner),
        "decay.b_alpha": (inner,),
        "decay.a_log": (heads, 1),
        "beta_proj.weight": (d, heads),
        "o_gate.weight": (d, inner),
        "o_norm_w": (head_dim,),
        "o_proj.weight": (inner, d),
    }


def _memory(config: Config, d: int) -> Block:
    orders = config.counts("engram_orders")
    tables = 3 if orders is None else len(orders)
    rows = 1 << (config.count("engram_rows", default=25000) - 1).bit_length()
    width = config.count("engram_dim", default=32)
    return {
        "memory.embedding.weight": (tables * rows, width),
        "key_projs.0.weight": (tables * width, d),
        "value_proj.weight": (tables * width, d),
    }


def _linear(name: str, inputs: int, outputs: int, rank: int, *, low_rank: bool) -> dict[str, Dims]:
    """A projection as two thin factors and a scale for each, or as one dense matrix."""
    padded = _padded(outputs)
    if not low_rank:
        return {
            f"{name}.inner.Dense.weight": (inputs, padded),
            f"{name}.inner.Dense.bias": (padded,),
        }
    effective = min(rank, inputs, outputs)
    return {
        f"{name}.inner.Tsct.u": (inputs, effective),
        f"{name}.inner.Tsct.s": (effective,),
        f"{name}.inner.Tsct.v": (padded, effective),
    }


def _padded(outputs: int) -> int:
    """Widths are rounded up to a multiple of 4; a single output stays one."""
    return outputs if outputs == 1 else -(-outputs // 4) * 4


def _confidence(table: Table, d: int, rank: int) -> Dims:
    later = (d + rank, 1)
    return later if table.found.get("aux.conf.proj.weight") == later else (d, 1)


def _repeat(block: Block, count: int) -> Iterator[Block]:
    # One at a time: the table stops a config that asks for absurdly many.
    return (block for _ in range(count))


FAMILY = Family("dormouse", build, tied=None)
