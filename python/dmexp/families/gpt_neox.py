"""GPT-NeoX and Pythia: one fused q/k/v per layer, biases everywhere, an untied head."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers")
    inner = config.count("intermediate_size")
    vocab = config.count("vocab_size")
    bias = config.flag("attention_bias", default=True)
    base = table.prefix("gpt_neox.", "", probes=("embed_in.weight", "layers."))
    layer = {
        **norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        **linear("attention.query_key_value", 3 * hidden, hidden, bias),
        **linear("attention.dense", hidden, hidden, bias),
        **linear("mlp.dense_h_to_4h", inner, hidden, bias=True),
        **linear("mlp.dense_4h_to_h", hidden, inner, bias=True),
    }
    table.add({"embed_in.weight": (vocab, hidden)}, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}layers.", [layer] * layers)
    table.add(norms(hidden, "final_layer_norm", bias=True), base)
    head: dict[str, Dims] = {"embed_out.weight": (vocab, hidden)}
    if is_tied(config, False) or not base:
        table.allow(head)
    else:
        table.add(head)
    buffers = _buffers(config, hidden)
    if any(table.ends(name) for name in buffers):
        for index in range(layers):
            table.allow(buffers, f"{base}layers.{index}.")


def _buffers(config: Config, hidden: int) -> dict[str, Dims]:
    """Masks and rotary tables that older releases saved with the weights."""
    positions = config.count("max_position_embeddings")
    head_dim = hidden // config.count("num_attention_heads")
    rotary = int(head_dim * config.number("rotary_pct", 0.25))
    return {
        "attention.bias": (1, 1, positions, positions),
        "attention.masked_bias": (),
        "attention.rotary_emb.inv_freq": (rotary // 2,),
    }


FAMILY = Family("gpt_neox", build, embedding="embed_in.weight", head="embed_out.weight", rope=True)
