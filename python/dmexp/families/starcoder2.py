"""StarCoder 2: layer norms with biases, plain MLPs named as in GPT-2, tied by default."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config)
    bias = config.flag("use_bias", default=True)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **linear("mlp.c_fc", s.intermediate, s.hidden, bias),
        **linear("mlp.c_proj", s.hidden, s.intermediate, bias),
    }
    decoder(config, table, s, every=layer, tied=True, norm_bias=True)


FAMILY = Family("starcoder2", build, tied=True, rope=True)
