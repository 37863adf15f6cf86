"""What the Qwen mixtures share: which layers are sparse, experts, linear attention, MTP."""

from __future__ import annotations

from collections.abc import Iterator

from ._check import Dims
from ._config import Config, Undescribed
from ._decoder import Sizes, attention, experts, gated_mlp, head_norms, norms
from ._table import Block, Table


def sparse_layers(config: Config, layers: int) -> Iterator[bool]:
    """For each layer, whether it holds experts."""
    step = config.count("decoder_sparse_step", default=1)
    dense = frozenset(config.counts("mlp_only_layers") or ())
    return (index not in dense and (index + 1) % step == 0 for index in range(layers))


def feed_forward(
    config: Config, table: Table, s: Sizes, *, shared: bool
) -> tuple[dict[str, Dims], dict[str, Dims]]:
    """The sparse and the dense feed-forward block of one layer."""
    # Newer exporters write the count under the second name.
    count = config.count("num_experts", "num_local_experts")
    width = config.count("moe_intermediate_size")
    sparse: dict[str, Dims] = {
        "mlp.gate.weight": (count, s.hidden),
        **experts(table, count, gated_mlp(s.hidden, width, prefix="")),
    }
    if shared:
        sparse |= gated_mlp(
            s.hidden, config.count("shared_expert_intermediate_size"), prefix="mlp.shared_expert."
        )
        sparse["mlp.shared_expert_gate.weight"] = (1, s.hidden)
    return sparse, gated_mlp(s.hidden, s.intermediate)


def gated_attention(config: Config, s: Sizes) -> dict[str, Dims]:
    """Full attention of Qwen3-Next and 3.5: the query projection also carries an output gate."""
    bias = config.flag("attention_bias", default=False)
    return {**attention(s, qkv_bias=bias, o_bias=bias, gated=True), **head_norms(s)}


def layer_types(config: Config, layers: int) -> list[str]:
    """``linear_attention`` or ``full_attention`` for each layer."""
    types = config.texts("layer_types")
    if types is None:
        interval = config.count("full_attention_interval", default=4)
        return [
            "linear_attention" if (index + 1) % interval else "full_attention"
            for index in range(layers)
        ]
    if len(types) != layers:
        raise Undescribed(
            f'"layer_types" has {len(types)} entries in the config, '
            f'"num_hidden_layers" says {layers}'
        )
    for kind in types:
        if kind not in ("linear_attention", "full_attention"):
            raise config.fail("layer_types", '"linear_attention" and "full_attention" only')
    return types


def prediction_block(table: Table, config: Config, s: Sizes, layer: Block) -> None:
    """The multi-token-prediction block: all of it, or none of it."""
    count = config.count("mtp_num_hidden_layers", "num_nextn_predict_layers", default=1, zero=True)
    if not count:
        return
    table.bound(count * len(layer))
    block: dict[str, Dims] = {
        "fc.weight": (s.hidden, 2 * s.hidden),
        **norms(s.hidden, "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"),
    }
    for index in range(count):
        block |= {f"layers.{index}.{name}": dims for name, dims in layer.items()}
    table.allow_whole(block, "mtp.")
