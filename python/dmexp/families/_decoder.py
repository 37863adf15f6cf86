"""What most decoders share: sizes, attention, gated MLPs, experts, embedding, norm and head."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

from ._check import Dims
from ._config import Config
from ._table import Block, Table

# Derived from the config; exporters before 2024 saved it with the weights.
INVERSE_FREQUENCIES = "self_attn.rotary_emb.inv_freq"


# The wrapper's name in front of every tensor but the head. A decoder saved on its own has none.
PREFIXES = ("model.", "")
NESTED_PREFIXES = ("model.language_model.", "language_model.model.", "model.", "")


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a decoder under their usual keys."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int


def sizes(config: Config, *, head_dim: bool = False) -> Sizes:
    """Read them. ``head_dim`` makes that key required: in families whose heads do not divide
    the hidden size, ``hidden_size / num_attention_heads`` is a wrong guess, not a default."""
    hidden = config.count("hidden_size")
    heads = config.count("num_attention_heads")
    if config.has("head_dim"):
        width = config.count("head_dim")
    elif head_dim:
        width = config.count("head_dim")  # raises: the config lacks it
    elif hidden % heads:
        raise config.fail("num_attention_heads", f"a divisor of hidden_size ({hidden})")
    else:
        width = hidden // heads
    return Sizes(
        hidden=hidden,
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=config.count("num_key_value_heads", default=heads),
        head_dim=width,
        intermediate=config.count("intermediate_size"),
        vocab=config.count("vocab_size"),
    )


def linear(name: str, rows: int, columns: int, bias: bool = False) -> dict[str, Dims]:
    """``name.weight`` [rows, columns] and, with ``bias``, ``name.bias`` [rows]."""
    block: dict[str, Dims] = {f"{name}.weight": (rows, columns)}
    if bias:
        block[f"{name}.bias"] = (rows,)
    return block


def norm(name: str, width: int, bias: bool = False) -> dict[str, Dims]:
    block: dict[str, Dims] = {f"{name}.weight": (width,)}
    if bias:
        block[f"{name}.bias"] = (width,)
    return block


def norms(width: int, *names: str, bias: bool = False) -> dict[str, Dims]:
    block: dict[str, Dims] = {}
    for name in names:
        block |= norm(name, width, bias)
    return block


def attention(
    s: Sizes,
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    gated: bool = False,
    prefix: str = "self_attn.",
    output: str = "o_proj",
) -> dict[str, Dims]:
    """Separate q, k, v and output projections. ``gated`` doubles q, which then carries a gate."""
    queries = s.heads * s.head_dim
    keys = s.kv_heads * s.head_dim
    return {
        **linear(f"{prefix}q_proj", queries * (2 if gated else 1), s.hidden, qkv_bias),
        **linear(f"{prefix}k_proj", keys, s.hidden, qkv_bias),
        **linear(f"{prefix}v_proj", keys, s.hidden, qkv_bias),
        **linear(f"{prefix}{output}", s.hidden, queries, o_bias),
    }


def head_norms(s: Sizes, prefix: str = "self_attn.") -> dict[str, Dims]:
    """Per-head norms of queries and keys, one gain of ``head_dim`` shared by all heads."""
    return {f"{prefix}q_norm.weight": (s.head_dim,), f"{prefix}k_norm.weight": (s.head_dim,)}


def gated_mlp(
    hidden: int, intermediate: int, *, bias: bool = False, prefix: str = "mlp."
) -> dict[str, Dims]:
    return {
        **linear(f"{prefix}gate_proj", intermediate, hidden, bias),
        **linear(f"{prefix}up_proj", intermediate, hidden, bias),
        **linear(f"{prefix}down_proj", hidden, intermediate, bias),
    }


def plain_mlp(
    hidden: int, intermediate: int, *, bias: bool = False, prefix: str = "mlp."
) -> dict[str, Dims]:
    return {
        **linear(f"{prefix}up_proj", intermediate, hidden, bias),
        **linear(f"{prefix}down_proj", hidden, intermediate, bias),
    }


def experts(
    table: Table, count: int, block: Block, prefix: str = "mlp.experts."
) -> dict[str, Dims]:
    """One copy of ``block`` for each expert. The count comes from a file, so it is bounded."""
    table.bound(count * len(block))
    return {
        f"{prefix}{index}.{name}": dims for index in range(count) for name, dims in block.items()
    }


def is_tied(config: Config, default: bool) -> bool:
    return config.flag("tie_word_embeddings", default=default)


def decoder(
    config: Config,
    table: Table,
    s: Sizes,
    blocks: Iterable[Block] | None = None,
    *,
    every: Block | None = None,
    tied: bool = False,
    norm_name: str | None = "norm",
    norm_bias: bool = False,
    head_bias: bool = False,
    rotary: int | None = None,
) -> str:
    """Embedding, layers, final norm and head. Returns the wrapper's prefix that the file uses.

    Parameters
    ----------
    blocks
        One block for each layer; or
    every
        the same block for all of them.
    tied
        What an absent ``tie_word_embeddings`` means in this family.
    norm_name
        Of the final norm; None where it has no gain.
    rotary
        Dims that the rotary embedding turns: old checkpoints carry its derived table.
    """
    base = table.prefix(
        *(NESTED_PREFIXES if config.outer is not None else PREFIXES),
        probes=("embed_tokens.weight", "layers."),
    )
    if every is not None:
        blocks = repeat(every, s.layers)
    table.add({"embed_tokens.weight": (s.vocab, s.hidden)}, base)
    table.layers(f"{base}layers.", blocks or ())
    if norm_name is not None:
        table.add(norm(norm_name, s.hidden, norm_bias), base)
    head = "language_model.lm_head.weight" if base.startswith("language_") else "lm_head.weight"
    output_head(config, table, s, tied=tied, wrapped=bool(base), name=head, bias=head_bias)
    if rotary and table.ends(INVERSE_FREQUENCIES):
        for index in range(s.layers):
            table.allow({f"{base}layers.{index}.{INVERSE_FREQUENCIES}": (rotary // 2,)})
    return base


def output_head(
    config: Config,
    table: Table,
    s: Sizes,
    *,
    tied: bool,
    wrapped: bool = True,
    name: str = "lm_head.weight",
    bias: bool = False,
) -> None:
    """The head: required unless tied. Without the wrapper's prefix there is none to require."""
    block: dict[str, Dims] = {name: (s.vocab, s.hidden)}
    if bias:
        block[name.removesuffix("weight") + "bias"] = (s.vocab,)
    if "score.weight" in table.found and name not in table.found:
        # A classifier on top of the decoder has this in the head's place.
        table.add({"score.weight": (labels(config), s.hidden)})
    elif is_tied(config, tied) or not wrapped:
        table.allow(block)
    else:
        table.add(block)


def labels(config: Config) -> int:
    """How many labels a classifier has; two where the config does not say."""
    names = config.section("id2label")
    return config.count("num_labels", default=len(names) if names is not None else 2)
