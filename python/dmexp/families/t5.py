"""T5, Flan-T5 and mT5: an encoder and a decoder over one shared embedding."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, linear, norm
from ._table import Family, Table

BIAS = "SelfAttention.relative_attention_bias.weight"


def build(config: Config, table: Table) -> None:
    hidden = config.count("d_model")
    inner = config.count("num_heads") * config.count("d_kv")
    vocab = config.count("vocab_size")
    layers = config.count("num_layers")
    decoders = config.count("num_decoder_layers", default=layers)
    buckets = config.count("relative_attention_num_buckets", default=32)
    positions: dict[str, Dims] = {f"block.0.layer.0.{BIAS}": (buckets, config.count("num_heads"))}
    own = _attention("layer.0.", "SelfAttention", hidden, inner)
    encoder = {**own, **_feed_forward(config, "layer.1.", hidden)}
    decoder = {
        **own,
        **_attention("layer.1.", "EncDecAttention", hidden, inner),
        **_feed_forward(config, "layer.2.", hidden),
    }
    table.add({"shared.weight": (vocab, hidden)})
    for side, count, block in (("encoder.", layers, encoder), ("decoder.", decoders, decoder)):
        if side == "decoder." and not table.has("decoder."):
            # An encoder that was saved on its own.
            continue
        table.add(norm("final_layer_norm", hidden), side)
        table.add(positions, side)
        table.bound(count * len(block))
        table.layers(f"{side}block.", [block] * count)
        # Copies of the shared embedding.
        table.allow({"embed_tokens.weight": (vocab, hidden)}, side)
    # The first exports carry it; no model has used it.
    table.allow(
        {
            "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": (
                buckets,
                config.count("num_heads"),
            )
        }
    )
    head: dict[str, Dims] = {"lm_head.weight": (vocab, hidden)}
    if is_tied(config, True) or not table.has("decoder."):
        table.allow(head)
    else:
        table.add(head)


def _attention(prefix: str, name: str, hidden: int, inner: int) -> dict[str, Dims]:
    return {
        **linear(f"{prefix}{name}.q", inner, hidden),
        **linear(f"{prefix}{name}.k", inner, hidden),
        **linear(f"{prefix}{name}.v", inner, hidden),
        **linear(f"{prefix}{name}.o", hidden, inner),
        **norm(f"{prefix}layer_norm", hidden),
    }


def _feed_forward(config: Config, prefix: str, hidden: int) -> dict[str, Dims]:
    width = config.count("d_ff")
    gated = (config.text("feed_forward_proj") or "relu").startswith("gated-")
    dense = f"{prefix}DenseReluDense."
    return {
        **(
            linear(f"{dense}wi_0", width, hidden) | linear(f"{dense}wi_1", width, hidden)
            if gated
            else linear(f"{dense}wi", width, hidden)
        ),
        **linear(f"{dense}wo", hidden, width),
        **norm(f"{prefix}layer_norm", hidden),
    }


FAMILY = Family("t5", build, tied=True, embedding="shared.weight")
