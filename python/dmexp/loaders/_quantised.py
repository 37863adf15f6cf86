"""Quantised checkpoints, told by what lies beside their weights.

A quantised weight means nothing without its scale. Cast as it stands it is off by that scale,
without any error, so such checkpoints are refused whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dmexp.errors import UnsupportedDtypeError, UnsupportedError

from ._source import TensorEntry

# Names that nothing but a quantiser gives, as the last part of a tensor's name.
_TELLING = re.compile(
    r"(qweight|qzeros|weight_packed|weight_(scale|zero_point|shape)(_inv|_\d+)?|SCB|weight_format"
    r"|weight\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+))$"
)
# Names that tell only beside a weight of the same name or of the same module.
_BESIDE_WEIGHT = re.compile(r"(scale|scales|scale_inv|input_scale|output_scale|zero_point|zeros)$")
_SUFFIX = re.compile(r"(.+?)_(scale|scales|scale_inv|zero_point|absmax)$")
_WEIGHT = re.compile(r"(^|[._])(weight|blocks)$")
_INTEGERS = frozenset(f"{kind}{width}" for kind in "iu" for width in (8, 16, 32, 64))


def refuse_quantised(
    entries: Iterable[TensorEntry], config: Mapping[str, Any] | None = None, *, path: str
) -> None:
    """Refuse a checkpoint that holds quantised weights.

    Parameters
    ----------
    entries
        Every tensor of the checkpoint, over all of its shards.
    config
        The parsed config, where there is one.

    Raises
    ------
    UnsupportedError
        The config has a ``quantization_config``; ``found`` is its method.
    UnsupportedDtypeError
        Packed integers, or a scale beside a weight. Facts: ``tensor`` is the first, ``tensors`` all.
    """
    quantisation = (config or {}).get("quantization_config")
    if quantisation:
        method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else None
        raise UnsupportedError(
            f"the config has a quantization_config (method {method!r}): the weights mean nothing "
            "without their scales, and a cast would be off by them. Dequantise the model with the "
            "tool that quantised it, or take the original weights.",
            path=path,
            found=method,
            expected=None,
        )
    found = quantised(entries)
    if found:
        first, reason = found[0]
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UnsupportedDtypeError(
            f"tensor {first.name!r}{others} is {reason}, so the weights are quantised: cast as "
            "they are they would be off by their scale. Dequantise the model with the tool that "
            "quantised it, or take the original weights.",
            path=path,
            tensor=first.name,
            tensors=[entry.name for entry, _ in found],
            dtype=first.dtype,
            known=["f64", "f32", "f16", "bf16"],
        )


def quantised(entries: Iterable[TensorEntry]) -> list[tuple[TensorEntry, str]]:
    """The tensors that give a quantised checkpoint away, each with the reason in words."""
    listed = list(entries)
    names = {entry.name for entry in listed}
    found = []
    for entry in listed:
        module, _, last = entry.name.rpartition(".")
        if _TELLING.search(entry.name):
            found.append((entry, "what a quantiser stores beside its weights"))
        elif _BESIDE_WEIGHT.match(last) and _weight_of(module) in names:
            found.append((entry, "a scale beside a weight"))
        elif (match := _SUFFIX.match(entry.name)) and _is_companion(match[1], names):
            found.append((entry, f"the scale of {match[1]!r}"))
        elif entry.dtype in _INTEGERS and _WEIGHT.search(entry.name):
            found.append((entry, f"a weight of packed integers ({entry.dtype})"))
    return found


def _weight_of(module: str) -> str:
    return f"{module}.weight" if module else "weight"


def _is_companion(base: str, names: set[str]) -> bool:
    return base in names or f"{base}_blocks" in names
