"""Gemma 3: Gemma 2 with per-head norms; larger ones nest it beside a SigLIP tower."""

from __future__ import annotations

from ._config import Config
from ._decoder import attention, decoder, gated_mlp, head_norms, norms, sizes
from ._table import Family, Table
from ._vision import SIGLIP_DEFAULTS, siglip
from .gemma2 import LAYER_NORMS


def build(config: Config, table: Table) -> None:
    s = sizes(config, head_dim=True)
    bias = config.flag("attention_bias", default=False)
    layer = {
        **norms(s.hidden, *LAYER_NORMS),
        **attention(s, qkv_bias=bias, o_bias=bias),
        **head_norms(s),
        **gated_mlp(s.hidden, s.intermediate),
    }
    base = decoder(config, table, s, every=layer, tied=True)
    vision = config.outer and config.outer.section("vision_config", SIGLIP_DEFAULTS)
    if vision:
        tower = "vision_tower.vision_model."
        projector = "multi_modal_projector."
        # The newer layout puts everything but the head under one "model.".
        around = "model." if base.startswith("model.language_model.") else ""
        width = vision.count("hidden_size")
        table.allow_whole(siglip(table, vision), around + tower)
        table.allow_whole(
            {
                "mm_input_projection_weight": (width, s.hidden),
                "mm_soft_emb_norm.weight": (width,),
            },
            around + projector,
        )


FAMILY = Family(
    "gemma3",
    build,
    tied=True,
    rope=True,
    text_defaults={
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
    },
)
