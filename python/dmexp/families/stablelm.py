"""StableLM: gated MLPs behind layer norms with biases."""

from __future__ import annotations

from ._config import Config, NotKnown
from ._decoder import attention, decoder, gated_mlp, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    if config.flag("qk_layernorm", default=False):
        raise NotKnown('the tensors that "qk_layernorm" adds to StableLM are not known')
    s = sizes(config)
    names = ["input_layernorm"]
    if not config.flag("use_parallel_residual", default=False):
        names.append("post_attention_layernorm")
    layer = {
        **norms(s.hidden, *names, bias=True),
        **attention(s, qkv_bias=config.flag("use_qkv_bias", default=False)),
        **gated_mlp(s.hidden, s.intermediate),
    }
    decoder(config, table, s, every=layer, norm_bias=True)


FAMILY = Family("stablelm", build, rope=True)
