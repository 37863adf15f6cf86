"""GLM 4: fused gate and up, biases on q, k and v; the later version has two norms more."""

from __future__ import annotations

from functools import partial

from ._config import Config
from ._decoder import attention, decoder, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table, *, more_norms: tuple[str, ...] = ()) -> None:
    s = sizes(config)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm", *more_norms),
        **attention(s, qkv_bias=config.flag("attention_bias", default=False)),
        **linear("mlp.gate_up_proj", 2 * s.intermediate, s.hidden),
        **linear("mlp.down_proj", s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer)


build_glm4 = partial(build, more_norms=("post_self_attn_layernorm", "post_mlp_layernorm"))

FAMILY = Family("glm", build, rope=True)
