"""Phi-1, 1.5 and 2: attention and MLP in parallel behind one norm, biases everywhere."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    layer = {
        **norms(s.hidden, "input_layernorm", bias=True),
        **attention(s, qkv_bias=True, o_bias=True, output="dense"),
        **linear("mlp.fc1", s.intermediate, s.hidden, bias=True),
        **linear("mlp.fc2", s.hidden, s.intermediate, bias=True),
    }
    if config.flag("qk_layernorm", default=False):
        layer |= norms(s.head_dim, "self_attn.q_layernorm", "self_attn.k_layernorm", bias=True)
    decoder(
        config,
        table,
        s,
        every=layer,
        norm_name="final_layernorm",
        norm_bias=True,
        head_bias=True,
    )


FAMILY = Family("phi", build, rope=True)
