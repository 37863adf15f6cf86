"""Nemotron-H: Mamba-2, attention, plain MLP or experts, one of them in each layer."""

from __future__ import annotations

from ._check import Dims
from ._config import Config, NotKnown, Undescribed
from ._decoder import attention, experts, is_tied, linear, norms, plain_mlp, sizes
from ._table import Family, Table

MAMBA, ATTENTION, MLP, MOE = "M", "*", "-", "E"

_KINDS = {
    "mamba": MAMBA,
    "linear_attention": MAMBA,
    "attention": ATTENTION,
    "full_attention": ATTENTION,
    "mlp": MLP,
    "moe": MOE,
}


def build(config: Config, table: Table) -> None:
    if table.has("mtp."):
        raise NotKnown("the tensors of its multi-token prediction are not known")
    pattern = _pattern(config)
    # The count is derived from the pattern; a stated one is only compared with it.
    s = sizes(config.replaced("num_hidden_layers", len(pattern)), head_dim=True)
    base = table.prefix("backbone.", "model.", "", probes=("embeddings.weight", "layers."))
    bias = config.flag("mlp_bias", default=False)
    mixers: dict[str, dict[str, Dims]] = {}
    for kind in sorted(set(pattern)):
        if kind == MAMBA:
            mixers[kind] = _mamba(config, s.hidden)
        elif kind == ATTENTION:
            attended = config.flag("attention_bias", default=False)
            mixers[kind] = attention(s, qkv_bias=attended, o_bias=attended, prefix="mixer.")
        elif kind == MLP:
            mixers[kind] = plain_mlp(s.hidden, s.intermediate, bias=bias, prefix="mixer.")
        else:
            mixers[kind] = _mixture(config, table, s.hidden, bias)
    table.add({"embeddings.weight": (s.vocab, s.hidden)}, base)
    table.layers(f"{base}layers.", ({"norm.weight": (s.hidden,), **mixers[k]} for k in pattern))
    table.add(norms(s.hidden, "norm_f"), base)
    head: dict[str, Dims] = {"lm_head.weight": (s.vocab, s.hidden)}
    if is_tied(config, False) or not base:
        table.allow(head)
    else:
        table.add(head)


def _pattern(config: Config) -> str:
    """One letter a layer, from either spelling of the layout."""
    pattern = config.text("hybrid_override_pattern")
    if pattern is None:
        kinds = config.texts("layers_block_type")
        if kinds is None:
            kinds = config.texts("layer_types")
        if kinds is None:
            raise Undescribed(
                'the config lacks "hybrid_override_pattern", "layers_block_type" or "layer_types"'
            )
        pattern = "".join(_KINDS.get(kind, "?") for kind in kinds)
    if not pattern or not set(pattern) <= {MAMBA, ATTENTION, MLP, MOE}:
        raise Undescribed("the layout of layers in the config is not made of M, *, - and E")
    stated = config.count("num_hidden_layers", default=len(pattern))
    if stated != len(pattern):
        raise Undescribed(
            f'"num_hidden_layers" says {stated} in the config, the layout has {len(pattern)}'
        )
    return pattern


def _mamba(config: Config, hidden: int) -> dict[str, Dims]:
    heads = config.count("mamba_num_heads")
    inner = heads * config.count("mamba_head_dim")
    groups = config.count("n_groups", "mamba_n_groups")
    channels = inner + 2 * groups * config.count("ssm_state_size")
    bias = config.flag("use_bias", default=False)
    block: dict[str, Dims] = {
        "mixer.A_log": (heads,),
        "mixer.D": (heads,),
        "mixer.dt_bias": (heads,),
        "mixer.conv1d.weight": (channels, 1, config.count("conv_kernel", "mamba_d_conv")),
        **linear("mixer.in_proj", inner + channels + heads, hidden, bias),
        "mixer.norm.weight": (inner,),
        **linear("mixer.out_proj", hidden, inner, bias),
    }
    if config.flag("use_conv_bias", "mamba_conv_bias", default=True):
        block["mixer.conv1d.bias"] = (channels,)
    return block


def _mixture(config: Config, table: Table, hidden: int, bias: bool) -> dict[str, Dims]:
    count = config.count("n_routed_experts", "num_local_experts")
    width = config.count("moe_intermediate_size")
    # Experts may work in a smaller space, with a projection into it and out of it.
    latent = config.count("moe_latent_size", default=0, zero=True)
    block: dict[str, Dims] = {
        "mixer.gate.weight": (count, hidden),
        "mixer.gate.e_score_correction_bias": (count,),
        **experts(table, count, plain_mlp(latent or hidden, width, prefix=""), "mixer.experts."),
        **plain_mlp(
            hidden,
            config.count("moe_shared_expert_intermediate_size"),
            bias=bias,
            prefix="mixer.shared_experts.",
        ),
    }
    if latent:
        block |= linear("mixer.fc1_latent_proj", latent, hidden, bias)
        block |= linear("mixer.fc2_latent_proj", hidden, latent, bias)
    return block


FAMILY = Family("nemotron_h", build, embedding="embeddings.weight")
