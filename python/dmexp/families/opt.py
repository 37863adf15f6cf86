"""OPT: learned positions with two rows more than the config says, tied by default."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers")
    inner = config.count("ffn_dim")
    vocab = config.count("vocab_size")
    width = config.count("word_embed_proj_dim", default=hidden)
    bias = config.flag("enable_bias", default=True)
    # The wrapper was saved with and without its own wrapper.
    base = table.prefix("model.decoder.", "decoder.", probes=("embed_tokens.weight", "layers."))
    layer = {
        **norms(hidden, "self_attn_layer_norm", "final_layer_norm", bias=True),
        **linear("self_attn.q_proj", hidden, hidden, bias),
        **linear("self_attn.k_proj", hidden, hidden, bias),
        **linear("self_attn.v_proj", hidden, hidden, bias),
        **linear("self_attn.out_proj", hidden, hidden, bias),
        **linear("fc1", inner, hidden, bias),
        **linear("fc2", hidden, inner, bias),
    }
    outer: dict[str, Dims] = {
        "embed_tokens.weight": (vocab, width),
        "embed_positions.weight": (config.count("max_position_embeddings") + 2, hidden),
    }
    if width != hidden:
        outer |= linear("project_in", hidden, width) | linear("project_out", width, hidden)
    before = config.flag("do_layer_norm_before", default=True)
    if before and not config.flag("_remove_final_layer_norm", default=False):
        outer |= norms(hidden, "final_layer_norm", bias=True)
    table.add(outer, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}layers.", [layer] * layers)
    head: dict[str, Dims] = {"lm_head.weight": (vocab, width)}
    if is_tied(config, True) or base == "decoder.":
        table.allow(head)
    else:
        table.add(head)


FAMILY = Family("opt", build, tied=True)
