"""Mamba 1: a state-space mixer in every layer, no attention."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import is_tied, linear, norms
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    hidden = config.count("hidden_size")
    layers = config.count("num_hidden_layers")
    vocab = config.count("vocab_size")
    state = config.count("state_size")
    inner = config.count(
        "intermediate_size", "d_inner", default=config.count("expand", default=2) * hidden
    )
    rank = _rank(config, hidden)
    bias = config.flag("use_bias", default=False)
    base = table.prefix("backbone.", "", probes=("embeddings.weight", "layers."))
    layer: dict[str, Dims] = {
        "norm.weight": (hidden,),
        "mixer.A_log": (inner, state),
        "mixer.D": (inner,),
        "mixer.conv1d.weight": (inner, 1, config.count("conv_kernel")),
        **linear("mixer.in_proj", 2 * inner, hidden, bias),
        **linear("mixer.x_proj", rank + 2 * state, inner),
        **linear("mixer.dt_proj", inner, rank, bias=True),
        **linear("mixer.out_proj", hidden, inner, bias),
    }
    if config.flag("use_conv_bias", default=True):
        layer["mixer.conv1d.bias"] = (inner,)
    table.add({"embeddings.weight": (vocab, hidden)}, base)
    table.bound(layers * len(layer))
    table.layers(f"{base}layers.", [layer] * layers)
    table.add(norms(hidden, "norm_f"), base)
    head: dict[str, Dims] = {"lm_head.weight": (vocab, hidden)}
    if is_tied(config, True) or not base:
        table.allow(head)
    else:
        table.add(head)


def _rank(config: Config, hidden: int) -> int:
    if config.is_text("time_step_rank", "auto"):
        return -(-hidden // 16)
    return config.count("time_step_rank")


FAMILY = Family("mamba", build, tied=True, embedding="embeddings.weight")
