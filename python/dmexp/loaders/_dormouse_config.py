"""Dormouse's config as the original prints it: every key, in order, defaults filled in.

The original reads a snapshot into a struct and prints the struct. A file that is to be byte for
byte the original's therefore needs the schema, not the snapshot's text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dmexp._toml_text import float_text, string_text
from dmexp.errors import FormatError

SCHEMA: dict[str, bool | int | float | str | list[int] | None] = {
    "bf16": False,
    "act_quant": None,
    "act_group": 0,
    "d_model": 768,
    "n_heads": 12,
    "head_dim": 64,
    "d_ffn": 2048,
    "vocab": 256,
    "max_seq_len": 512,
    "max_iter": 4,
    "rank": 64,
    "norm_eps": 0.001,
    "use_kda": True,
    "use_tsct": True,
    "use_engram": True,
    "use_gr": False,
    "n_experts": 3,
    "jepa_weight": 0.05,
    "jepa_mask_frac": 0.15,
    "jepa_mask_span": 8,
    "dspark_weight": 0.1,
    "dspark_k": 4,
    "dspark_stride": 16,
    "engram_rows": 25000,
    "engram_orders": [2, 3, 4],
    "engram_dim": 32,
    "engram_lam_max": 0.5,
    "use_mor": False,
    "mor_k": 2,
    "mor_bce_weight": 0.05,
}
"""Keys in the order of the struct, with the defaults of the preset ``small``. A float is an f32."""

LATER_KEYS = frozenset(
    {
        "use_attnres",
        "use_mhc",
        "mhc_streams",
        "aux_fb_weight",
        "aux_fb_horizon",
        "moe_topk",
        "moe_lb_coef",
        "use_situ",
        "use_plain_attn",
        "use_msa",
        "use_byteflow",
    }
)
"""Keys that later versions added to the same table. They are kept where a snapshot has them,
since a later reader would otherwise fill in a default of its own. So is ``msa_*`` and
``byteflow_*``."""

_ACT_QUANT = {"fp4": "fp4", "4": "4", "int4": "4", "8": "8", "int8": "8"}


@dataclass(frozen=True, slots=True)
class DormouseConfig:
    """A config ready for a header. ``text`` is TOML; ``values`` what it says; ``dropped`` names
    keys of the snapshot that no version's schema has."""

    text: str
    values: dict[str, Any]
    dropped: tuple[str, ...]


def config_from(table: Mapping[str, Any], path: str) -> DormouseConfig:
    """Print a table through the schema.

    Parameters
    ----------
    table
        The snapshot's ``[model]`` table, or a flat config.
    path
        The file it came from, for messages.

    Raises
    ------
    FormatError
        A value has another type than the schema's; ``key`` names it.
    """
    values: dict[str, Any] = {}
    for key, default in SCHEMA.items():
        value = table.get(key, default)
        if value is not None:
            values[key] = _typed(key, value, default, path)
    later = _later(table, path)
    text = "".join(
        f"{key} = {_text(values[key], narrow=True)}\n" + "".join(later.get(key, ()))
        for key in values
    )
    text = "".join(later.get("", ())) + text
    dropped = tuple(key for key in table if key not in SCHEMA and not _is_later(key))
    kept = {key: table[key] for key in table if _is_later(key)}
    return DormouseConfig(text, values | kept, dropped)


def _is_later(key: str) -> bool:
    return key in LATER_KEYS or key.startswith(("msa_", "byteflow_"))


def _later(table: Mapping[str, Any], path: str) -> dict[str, list[str]]:
    """Lines for later keys, under the schema's key that they follow in the snapshot: a snapshot is
    printed in the order of the struct of its own version."""
    lines: dict[str, list[str]] = {}
    anchor = ""
    for key, value in table.items():
        if key in SCHEMA:
            anchor = key
        elif _is_later(key):
            if not isinstance(value, bool | int | float | str):
                raise _mistyped(key, value, "a number, a string or a boolean", path)
            lines.setdefault(anchor, []).append(f"{key} = {_text(value, narrow=False)}\n")
    return lines


def _typed(key: str, value: Any, default: Any, path: str) -> Any:
    if key == "act_quant":
        word = str(value).lower() if isinstance(value, str | int) else ""
        if word not in _ACT_QUANT:
            raise _mistyped(key, value, "fp4, 4 or 8", path)
        return _ACT_QUANT[word]
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise _mistyped(key, value, "true or false", path)
    elif isinstance(default, float):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _mistyped(key, value, "a number", path)
        return float(value)
    elif isinstance(default, int):
        if not _is_count(value):
            raise _mistyped(key, value, "an integer of 0 or more", path)
    elif not (isinstance(value, list) and all(map(_is_count, value))):
        raise _mistyped(key, value, "an array of integers of 0 or more", path)
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _mistyped(key: str, value: Any, wanted: str, path: str) -> FormatError:
    shown = repr(value)
    return FormatError(
        f"the config's {key} is {shown if len(shown) <= 40 else shown[:37] + '...'}. "
        f"Expected {wanted}.",
        path=path,
        key=key,
    )


def _text(value: Any, *, narrow: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, float):
        if narrow:
            return float_text(value)
        text = format(Decimal(repr(value)), "f")
        return text if "." in text or not text.lstrip("-").isdigit() else f"{text}.0"
    return str(value)
