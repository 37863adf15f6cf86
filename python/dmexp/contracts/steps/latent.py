"""Multi-head latent attention: the up-projection of keys and values, split and half transposed.

The checkpoint has one ``kv_b_proj``: for each head the key rows, then the value rows. Newer
files store the key part transposed for each head, as ``attn_k_b``, and the value part as
``attn_v_b``. Files of early 2025 have the one tensor, ``attn_kv_b``, as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import Dims, Step, layout

__all__ = ["MERGE_KV_B"]

Array = NDArray[Any]


class MergeKvB(Step):
    """``(heads, rank, nope)`` and ``(heads, v, rank)`` to ``(heads * (nope + v), rank)``."""

    id = "merge-kv-b"
    kind = "layout"
    keys = ("attention.key_length_mla", "attention.value_length_mla")
    exporter = "splits each head's rows into key and value, and transposes the key part"
    consumer = "Folds the key part into the query and the value part into the output."
    witnesses = (
        # 2 heads, rank 3, 2 key rows and 1 value row each.
        layout(
            ((2, 3, 2), (2, 1, 3)),
            (
                (6, 3),
                (*(0, 2, 4, 1, 3, 5, 12, 13, 14), *(6, 8, 10, 7, 9, 11, 15, 16, 17)),
            ),
        ),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        rope = p.integer("rope.dimension_count", 0)
        rows = p.positive("attention.key_length_mla") - rope
        return ((3 * (rows + p.positive("attention.value_length_mla")), 7),)

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        k, v = stored
        if len(k) != 3 or len(v) != 3 or k[0] != v[0] or k[1] != v[2]:
            raise p.fail(
                f"key part {list(k)} and value part {list(v)} do not belong together: expected "
                "(heads, rank, nope) and (heads, v, rank)"
            )
        return ((k[0] * (k[2] + v[1]), k[1]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        k, v = stored
        return np.concatenate((k.swapaxes(1, 2), v), axis=1).reshape(-1, k.shape[1])

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (array,) = canonical
        value_rows = p.positive("attention.value_length_mla")
        rope = p.integer("rope.dimension_count", 0)
        key_rows = p.positive("attention.key_length_mla") - rope
        heads = array.reshape(-1, key_rows + value_rows, array.shape[1])
        return heads[:, :key_rows].swapaxes(1, 2), heads[:, key_rows:]


MERGE_KV_B = MergeKvB()
