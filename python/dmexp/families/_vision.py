"""Vision towers that come with some language models: all of a tower, or none of it."""

from __future__ import annotations

from ._check import Dims
from ._config import Config
from ._decoder import linear, norms
from ._table import Block, Table


def _stack(table: Table, name: str, layers: int, layer: Block) -> dict[str, Dims]:
    table.bound(layers * len(layer))
    return {f"{name}.{index}.{key}": dims for index in range(layers) for key, dims in layer.items()}


def siglip(table: Table, config: Config) -> dict[str, Dims]:
    """SigLIP, relative to its ``vision_model``."""
    hidden = config.count("hidden_size")
    inner = config.count("intermediate_size")
    patch = config.count("patch_size")
    mlp = {
        **linear("mlp.fc1", inner, hidden, bias=True),
        **linear("mlp.fc2", hidden, inner, bias=True),
    }
    layer = {
        **norms(hidden, "layer_norm1", "layer_norm2", bias=True),
        **linear("self_attn.q_proj", hidden, hidden, bias=True),
        **linear("self_attn.k_proj", hidden, hidden, bias=True),
        **linear("self_attn.v_proj", hidden, hidden, bias=True),
        **linear("self_attn.out_proj", hidden, hidden, bias=True),
        **mlp,
    }
    block: dict[str, Dims] = {
        "embeddings.patch_embedding.weight": (hidden, config.count("num_channels"), patch, patch),
        "embeddings.patch_embedding.bias": (hidden,),
        "embeddings.position_embedding.weight": (
            (config.count("image_size") // patch) ** 2,
            hidden,
        ),
        **_stack(table, "encoder.layers", config.count("num_hidden_layers"), layer),
        **norms(hidden, "post_layernorm", bias=True),
    }
    if config.flag("vision_use_head", default=True):
        block |= {
            "head.probe": (1, 1, hidden),
            "head.attention.in_proj_weight": (3 * hidden, hidden),
            "head.attention.in_proj_bias": (3 * hidden,),
            **linear("head.attention.out_proj", hidden, hidden, bias=True),
            **norms(hidden, "head.layernorm", bias=True),
            **{f"head.{name}": dims for name, dims in mlp.items()},
        }
    return block


SIGLIP_DEFAULTS = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 16,
}


def qwen(table: Table, config: Config) -> dict[str, Dims]:
    """The Qwen 3.5 tower, relative to ``visual``."""
    hidden = config.count("hidden_size")
    inner = config.count("intermediate_size")
    patch = config.count("patch_size")
    merged = hidden * config.count("spatial_merge_size") ** 2
    layer = {
        **norms(hidden, "norm1", "norm2", bias=True),
        **linear("attn.qkv", 3 * hidden, hidden, bias=True),
        **linear("attn.proj", hidden, hidden, bias=True),
        **linear("mlp.linear_fc1", inner, hidden, bias=True),
        **linear("mlp.linear_fc2", hidden, inner, bias=True),
    }
    return {
        "patch_embed.proj.weight": (
            hidden,
            config.count("in_channels"),
            config.count("temporal_patch_size"),
            patch,
            patch,
        ),
        "patch_embed.proj.bias": (hidden,),
        "pos_embed.weight": (config.count("num_position_embeddings"), hidden),
        **_stack(table, "blocks", config.count("depth"), layer),
        **norms(hidden, "merger.norm", bias=True),
        **linear("merger.linear_fc1", merged, merged, bias=True),
        **linear("merger.linear_fc2", config.count("out_hidden_size"), merged, bias=True),
    }


QWEN_DEFAULTS = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
    "num_position_embeddings": 2304,
    "depth": 27,
    "out_hidden_size": 3584,
}
