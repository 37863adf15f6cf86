"""LFM2: short convolutions and attention in turn, three-matrix MLPs."""

from __future__ import annotations

from collections.abc import Iterator

from ._check import Dims
from ._config import Config, Undescribed
from ._decoder import Sizes, attention, decoder, linear, norms, sizes
from ._table import Block, Family, Table


def build(config: Config, table: Table) -> None:
    if config.has("tie_embedding"):
        # The key of the first releases.
        config = config.replaced("tie_word_embeddings", config.flag("tie_embedding", default=True))
    s = sizes(config)
    table.bound(s.layers)
    decoder(config, table, s, _layers(config, s), tied=True, norm_name="embedding_norm")


def _layers(config: Config, s: Sizes) -> Iterator[Block]:
    inner = _intermediate(config)
    common = {
        **norms(s.hidden, "operator_norm", "ffn_norm"),
        **linear("feed_forward.w1", inner, s.hidden),
        **linear("feed_forward.w2", s.hidden, inner),
        **linear("feed_forward.w3", inner, s.hidden),
    }
    bias = config.flag("conv_bias", default=False)
    convolution: dict[str, Dims] = {
        "conv.conv.weight": (s.hidden, 1, config.count("conv_L_cache", default=3)),
        **({"conv.conv.bias": (s.hidden,)} if bias else {}),
        **linear("conv.in_proj", 3 * s.hidden, s.hidden, bias),
        **linear("conv.out_proj", s.hidden, s.hidden, bias),
    }
    full = {
        **attention(s, output="out_proj"),
        "self_attn.q_layernorm.weight": (s.head_dim,),
        "self_attn.k_layernorm.weight": (s.head_dim,),
    }
    for kind in _layer_types(config, s.layers):
        yield {**common, **(full if kind == "full_attention" else convolution)}


def _intermediate(config: Config) -> int:
    """The MLP's width as the model computes it from the stated one."""
    # Where the older key is given, it wins; the newer one may be stale beside it.
    width = config.count("block_ff_dim" if config.has("block_ff_dim") else "intermediate_size")
    if config.flag("block_auto_adjust_ff_dim", default=True):
        width = int(2 * width / 3)
        width = int(config.number("block_ffn_dim_multiplier", 1.0) * width)
        step = config.count("block_multiple_of", default=256)
        width = step * -(-width // step)
    return width


def _layer_types(config: Config, layers: int) -> list[str]:
    types = config.texts("layer_types")
    if types is None:
        full = config.counts("full_attn_idxs")
        chosen = frozenset(range(layers) if full is None else full)
        return ["full_attention" if index in chosen else "conv" for index in range(layers)]
    if len(types) != layers:
        raise Undescribed(
            f'"layer_types" has {len(types)} entries in the config, '
            f'"num_hidden_layers" says {layers}'
        )
    if not set(types) <= {"full_attention", "conv"}:
        raise config.fail("layer_types", '"full_attention" and "conv" only')
    return types


FAMILY = Family("lfm2", build, tied=True, rope=True)
