"""Rotary embedding: base, partial width and scaling, from metadata and generated tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._meta import Meta, Values, shortest

DEFAULT_BASE = 10000.0
"""What every reader of GGUF takes where the file has no base."""


def rope(m: Meta, *, partial: bool = True, base: float | None = None) -> Values:
    """The rotary keys of a config, in the older and in the newer spelling.

    Readers from before 2026 know ``rope_theta`` and ``rope_scaling`` only, later ones write
    ``rope_parameters``. Both are given, from the same numbers.

    Parameters
    ----------
    m
        The metadata.
    partial
        Whether the family has heads of which only a part is turned.
    base
        What the family's own code takes when the file has no base, where that is known.
    """
    theta = base_of(m, "rope.freq_base", base)
    parameters: Values = {"rope_theta": theta, "rope_type": "default"}
    keys: Values = {"rope_theta": theta}
    scaling = scaling_of(m, theta)
    if scaling:
        keys["rope_scaling"] = scaling
        parameters |= scaling
    if partial:
        turned = m.count("rope.dimension_count", m.head_dim, zero=True)
        if turned != m.head_dim:
            factor = turned / m.head_dim
            keys["partial_rotary_factor"] = factor
            parameters["partial_rotary_factor"] = factor
    keys["rope_parameters"] = parameters
    return keys


def base_of(m: Meta, key: str, default: float | None = None) -> float:
    if default is None and not m.present(key):
        m.notices.append(
            f"the file has no {m.key(key)}; the config says {DEFAULT_BASE:g}, which every reader "
            "of GGUF takes then"
        )
    base = m.number(key, DEFAULT_BASE if default is None else default)
    if not 0.0 < base < math.inf:
        raise m.wrong(key, base, "a positive number")
    return base


def scaling_of(m: Meta, theta: float) -> Values:
    """``rope_scaling``, or nothing where positions are taken as they are."""
    kind = m.text("rope.scaling.type") or "none"
    if "rope_factors_long.weight" in m.tensors or kind == "longrope":
        return _long(m)
    if kind == "yarn":
        return _yarn(m)
    factor = m.number("rope.scaling.factor", 0.0) or m.number("rope.scale_linear", 0.0)
    if (kind == "linear" or not m.present("rope.scaling.type")) and factor not in (0.0, 1.0):
        return {"rope_type": "linear", "factor": factor}
    if kind not in ("none", "linear"):
        raise m.wrong("rope.scaling.type", kind, "none, linear, yarn or longrope")
    if "rope_freqs.weight" in m.tensors:
        return _from_divisors(m, theta)
    return {}


def _yarn(m: Meta) -> Values:
    found: Values = {
        "rope_type": "yarn",
        "factor": m.number("rope.scaling.factor"),
        "original_max_position_embeddings": m.count("rope.scaling.original_context_length"),
    }
    for key, name in (
        ("rope.scaling.yarn_beta_fast", "beta_fast"),
        ("rope.scaling.yarn_beta_slow", "beta_slow"),
        ("rope.scaling.yarn_ext_factor", "extrapolation_factor"),
        ("rope.scaling.yarn_attn_factor", "attention_factor"),
        ("rope.scaling.attn_factor", "attention_factor"),
    ):
        if m.present(key):
            found.setdefault(name, m.number(key))
    if m.present("rope.scaling.yarn_log_multiplier"):
        stored = m.number("rope.scaling.yarn_log_multiplier")
        if m.architecture == "mistral3":
            found["mscale_all_dim"] = stored
        else:
            # Elsewhere the exporter keeps a tenth of it, the factor of the formula's logarithm,
            # and readers take the other of the two scales to be the same.
            found["mscale_all_dim"] = found["mscale"] = shortest(10 * stored)
    return found


def _long(m: Meta) -> Values:
    found: Values = {"rope_type": "longrope"}
    for name in ("long", "short"):
        factors = divisors(m, f"rope_factors_{name}.weight")
        if factors is not None:
            found[f"{name}_factor"] = factors
    if m.present("rope.scaling.original_context_length"):
        found["original_max_position_embeddings"] = m.count("rope.scaling.original_context_length")
    if m.present("rope.scaling.attn_factor"):
        found["attention_factor"] = m.number("rope.scaling.attn_factor")
    return found


def divisors(m: Meta, name: str) -> list[float] | None:
    """A generated table of divisors, or None where it is not there or only the header is."""
    if name not in m.tensors or m.read is None:
        return None
    table: list[float] = np.asarray(m.read(name), np.float32).reshape(-1).tolist()
    return [shortest(value) for value in table]


def _from_divisors(m: Meta, theta: float) -> Values:
    """The llama3 scaling that a table of divisors was made from.

    The exporter computes one divisor for each pair of dims from four numbers and keeps only the
    divisors. Numbers that give the same divisors give the same model, so any such four do; the
    usual ones are tried first. The answer is held against the table before it is used.
    """
    table = divisors(m, "rope_freqs.weight")
    if table is None:
        return {"rope_type": "llama3"}
    if not all(1.0 <= value < math.inf for value in table) or theta <= 1.0:
        return _as_they_are(m, table)
    if len(set(table)) < 2:
        return {} if not table or table[0] == 1.0 else {"rope_type": "linear", "factor": table[0]}
    # The divisors belong to the pairs that are turned.
    turned = 2 * len(table)
    waves = [2 * math.pi * theta ** (2 * i / turned) for i in range(len(table))]
    for guess in _guesses(table, waves, m.count("context_length", 0, zero=True)):
        if _close(llama3_divisors(waves, *guess), table):
            factor, low, high, original = guess
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": original,
            }
    return _as_they_are(m, table)


def _as_they_are(m: Meta, table: list[float]) -> Values:
    m.notices.append(
        "rope_freqs.weight holds divisors that llama3 scaling does not give; the config lists "
        "them under rope_scaling as they are"
    )
    return {"rope_type": "divisors", "divisors": table}


def llama3_divisors(
    waves: list[float], factor: float, low: float, high: float, original: float
) -> list[float]:
    """What the exporter divides each pair's frequency by."""
    found = []
    for wave in waves:
        if wave < original / high:
            found.append(1.0)
        elif wave > original / low:
            found.append(factor)
        else:
            smooth = (original / wave - low) / (high - low)
            found.append(1 / ((1 - smooth) / factor + smooth))
    return found


_Scaling = tuple[float, float, float, int]


def _guesses(table: list[float], waves: list[float], context: int) -> Iterator[_Scaling]:
    """Factor, low and high frequency factor and original length, the likely ones first."""
    factor = max(table)
    usual = [8192, 4096, 2048, context, int(context / factor)]
    usual += [2**power for power in range(4, 21)]
    for high in (4.0, 2.0, 8.0, 16.0):
        for original in usual:
            if original > 0:
                yield factor, 1.0, high, original
    # Between the two ends the reciprocal is linear in 1/wave.
    between = [
        (1 / wave, (1 / value - 1 / factor) / (1 - 1 / factor))
        for wave, value in zip(waves, table, strict=True)
        if 1.0 < value < factor
    ]
    if len(between) >= 2:
        (x0, y0), (x1, y1) = between[0], between[-1]
        slope = (y0 - y1) / (x0 - x1)
        shift = slope * x0 - y0
        if shift > 0:
            yield from _spelt(factor, 1 / shift + 1, slope / shift)
    elif between:
        # One point leaves one of the two constants free. High is 4 by custom; nearer to 1, the
        # range between the ends narrows down to that point.
        x, y = between[0]
        for high in (4.0, 2.0, 1.25, 1.01):
            yield from _spelt(factor, high, ((high - 1) * y + 1) / x)
    else:
        # Nothing between the ends: any range does that fits into the gap.
        fast = max(wave for wave, value in zip(waves, table, strict=True) if value == 1.0)
        slow = min(wave for wave, value in zip(waves, table, strict=True) if value == factor)
        yield from _spelt(factor, (slow / fast) ** 0.25, (slow * fast) ** 0.5)


def _spelt(factor: float, high: float, original: float) -> Iterator[_Scaling]:
    """A solution in round numbers, or else scaled until its length is a whole number.

    Only the ratios of the last three matter, and the low factor is 1 by custom.
    """
    if not (high > 1.0 and 0.0 < original < math.inf):
        return
    yield factor, 1.0, shortest(round(high, 3)), round(original)
    scale = 2**20 / original
    yield factor, scale, high * scale, 2**20


def _close(computed: list[float], table: list[float]) -> bool:
    return bool(np.allclose(computed, table, rtol=2e-6, atol=0.0))


def by_layer_type(full: Values, sliding: Values) -> dict[str, Any]:
    """``rope_parameters`` of a family whose sliding layers turn at another rate."""
    return {"full_attention": full, "sliding_attention": sliding}
