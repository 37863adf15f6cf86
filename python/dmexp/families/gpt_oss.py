"""gpt-oss: biases on all projections, attention sinks, experts stacked as [in, out]."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, linear, norms, sizes
from ._table import Family, Table


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    count = config.count("num_local_experts", "num_experts")
    bias = config.flag("attention_bias", default=True)
    layer = {
        **norms(s.hidden, "input_layernorm", "post_attention_layernorm"),
        **attention(s, qkv_bias=bias, o_bias=bias),
        "self_attn.sinks": (s.heads,),
        **linear("mlp.router", count, s.hidden, bias=True),
        "mlp.experts.gate_up_proj": (count, s.hidden, 2 * s.intermediate),
        "mlp.experts.gate_up_proj_bias": (count, 2 * s.intermediate),
        "mlp.experts.down_proj": (count, s.intermediate, s.hidden),
        "mlp.experts.down_proj_bias": (count, s.hidden),
    }
    decoder(config, table, s, every=layer)


FAMILY = Family("gpt_oss", build, rope=True)
