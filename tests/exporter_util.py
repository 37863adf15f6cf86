"""What the exporter does to tensors, written down a second time, from its description.

Index by index and without dmexp, so that a contract cannot agree with itself. Each function
takes a checkpoint tensor and gives what a GGUF file holds.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def pairs_from_halves(rows: Array, heads: int) -> Array:
    """Row j of the first half of a head goes to 2j, of the second half to 2j + 1."""
    dim = rows.shape[0] // heads
    out = np.empty_like(rows)
    for head in range(heads):
        for j in range(dim // 2):
            out[head * dim + 2 * j] = rows[head * dim + j]
            out[head * dim + 2 * j + 1] = rows[head * dim + dim // 2 + j]
    return out


def halves_from_pairs(rows: Array, heads: int, rotated: int) -> Array:
    """In the first ``rotated`` rows of a head, even rows first, then odd ones."""
    dim = rows.shape[0] // heads
    out = rows.copy()
    for head in range(heads):
        for j in range(rotated // 2):
            out[head * dim + j] = rows[head * dim + 2 * j]
            out[head * dim + rotated // 2 + j] = rows[head * dim + 2 * j + 1]
    return out


def tiled(rows: Array, keys: int, values: int) -> Array:
    """Value head r of key head k moves from k * ratio + r to r * keys + k."""
    ratio, span = values // keys, rows.shape[0] // values
    out = np.empty_like(rows)
    for k in range(keys):
        for r in range(ratio):
            source, target = (k * ratio + r) * span, (r * keys + k) * span
            out[target : target + span] = rows[source : source + span]
    return out


def bands_from_heads(rows: Array, heads: int) -> Array:
    """q, k, v of each head to all q, all k, all v."""
    dim = rows.shape[0] // (3 * heads)
    parts: list[list[Array]] = [[], [], []]
    for head in range(heads):
        for part in range(3):
            start = (3 * head + part) * dim
            parts[part].append(rows[start : start + dim])
    return np.concatenate([np.concatenate(part) for part in parts])


def bands_from_groups(rows: Array, heads: int, kv: int) -> tuple[Array, Array, Array]:
    """The queries, the key and the value of each group to all q, all k, all v."""
    per, dim = heads // kv, rows.shape[0] // (heads + 2 * kv)
    q, k, v = [], [], []
    for group in range(kv):
        start = group * (per + 2) * dim
        q.append(rows[start : start + per * dim])
        k.append(rows[start + per * dim : start + (per + 1) * dim])
        v.append(rows[start + (per + 1) * dim : start + (per + 2) * dim])
    return np.concatenate(q), np.concatenate(k), np.concatenate(v)


def unpacked_qkvz(
    rows: Array, keys: int, values: int, dim: int, value_dim: int
) -> tuple[Array, Array]:
    """q, k, v.., z.. of each key head to all q, k, v and all z."""
    span = values // keys * value_dim
    one = 2 * dim + 2 * span
    bands: list[list[Array]] = [[], [], [], []]
    for key in range(keys):
        start = key * one
        for at, (offset, size) in enumerate(
            ((0, dim), (dim, dim), (2 * dim, span), (2 * dim + span, span))
        ):
            bands[at].append(rows[start + offset : start + offset + size])
    q, k, v, z = (np.concatenate(band) for band in bands)
    return np.concatenate((q, k, v)), z


def split_kv_b(rows: Array, heads: int, nope: int, value_dim: int) -> tuple[Array, Array]:
    """The key rows of each head transposed, and its value rows."""
    one = nope + value_dim
    keys = [rows[h * one : h * one + nope].T for h in range(heads)]
    values = [rows[h * one + nope : (h + 1) * one] for h in range(heads)]
    return np.stack(keys), np.stack(values)
