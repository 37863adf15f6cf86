"""GPT-2: learned positions, weights stored as [in, out], tied head, causal masks as buffers."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, norms
from ._table import Family, Table


def conv(name: str, rows: int, columns: int) -> dict[str, Dims]:
    """A projection stored transposed: ``weight`` is [in, out]."""
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (columns,)}


def build(config: Config, table: Table) -> None:
    hidden = config.count("n_embd", "hidden_size")
    layers = config.count("n_layer", "num_hidden_layers")
    positions = config.count("n_positions", "max_position_embeddings", "n_ctx")
    vocab = config.count("vocab_size")
    inner = config.count("n_inner", default=4 * hidden)
    base = table.prefix("transformer.", "", probes=("wte.weight", "h."))
    layer = {
        **norms(hidden, "ln_1", "ln_2", bias=True),
        **conv("attn.c_attn", hidden, 3 * hidden),
        **conv("attn.c_proj", hidden, hidden),
        **conv("mlp.c_fc", hidden, inner),
        **conv("mlp.c_proj", inner, hidden),
    }
    table.add({"wte.weight": (vocab, hidden), "wpe.weight": (positions, hidden)}, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}h.", [layer] * layers)
    table.add(norms(hidden, "ln_f", bias=True), base)
    if table.ends("attn.bias") or table.ends("attn.masked_bias"):
        mask: dict[str, Dims] = {"attn.bias": (1, 1, positions, positions), "attn.masked_bias": ()}
        for index in range(layers):
            table.allow(mask, f"{base}h.{index}.")
    head: dict[str, Dims] = {"lm_head.weight": (vocab, hidden)}
    if is_tied(config, True) or not base:
        table.allow(head)
    else:
        table.add(head)


FAMILY = Family("gpt2", build, tied=True, embedding="wte.weight")
