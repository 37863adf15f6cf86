"""Qwen3-Next: the delta net's input projection, packed by key head in the checkpoint.

Each key head has its query, key, value and z rows side by side. The exporter pulls them apart
into all q, all k, all v (one tensor) and all z (another), and keeps the order of the heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._params import Params
from .._step import WIDTH, Dims, Step, layout
from .value_heads import delta_net_heads

__all__ = ["PACKED_QKVZ"]

Array = NDArray[Any]


class PackQkvz(Step):
    """All q, all k, all v and all z back to q, k, v.., z.. of each key head in turn."""

    id = "pack-qkvz"
    kind = "layout"
    keys = ("ssm.group_count", "ssm.time_step_rank", "ssm.state_size")
    exporter = "splits the packed projection into all q, k, v rows and all z rows"
    consumer = "Reads q, k and v as three bands of rows, and z as a gate of its own."
    witnesses = (
        # Two key heads of dim 2, three value heads of dim 1 for each.
        layout(
            ((14,), (6,)),
            (
                (20,),
                (*(0, 1, 4, 5, 8, 9, 10, 14, 15, 16), *(2, 3, 6, 7, 11, 12, 13, 17, 18, 19)),
            ),
            ssm__group_count=2,
            ssm__time_step_rank=6,
            ssm__state_size=2,
            wrong=(
                {"ssm.group_count": 1, "ssm.state_size": 4},
                {"ssm.group_count": 1, "ssm.time_step_rank": 2},
            ),
        ),
    )

    def probe(self, p: Params) -> tuple[Dims, ...]:
        keys, values = delta_net_heads(p)
        return ((2 * (keys * p.positive("ssm.state_size") + 7 * values), WIDTH),)

    def _bands(self, stored: Sequence[Dims], p: Params) -> tuple[int, int, int]:
        """Key heads, rows of q (and of k) in one, rows of v (and of z) in one."""
        keys, _ = delta_net_heads(p)
        (qkv, *_), (z, *_) = stored
        dim = p.positive("ssm.state_size")
        if qkv != 2 * keys * dim + z or z % keys:
            raise p.fail(
                f"{qkv} rows of q, k, v and {z} rows of z do not fit {keys} key heads of dim {dim}"
            )
        return keys, dim, z // keys

    def dims(self, stored: Sequence[Dims], p: Params) -> tuple[Dims, ...]:
        self._bands(stored, p)
        qkv, z = stored
        return ((qkv[0] + z[0], *qkv[1:]),)

    def inverse(self, stored: Sequence[Array], p: Params, part: int = 0) -> Array:
        qkv, z = stored
        keys, dim, span = self._bands([qkv.shape, z.shape], p)
        width = qkv.shape[1:]
        q, k, v = np.split(qkv, [keys * dim, 2 * keys * dim])
        bands = [
            band.reshape(keys, rows, *width)
            for band, rows in ((q, dim), (k, dim), (v, span), (z, span))
        ]
        return np.concatenate(bands, axis=1).reshape(-1, *width)

    def forward(self, canonical: Sequence[Array], p: Params) -> tuple[Array, ...]:
        (packed,) = canonical
        keys, _ = delta_net_heads(p)
        dim, width = p.positive("ssm.state_size"), packed.shape[1:]
        heads = packed.reshape(keys, -1, *width)
        span = (heads.shape[1] - 2 * dim) // 2
        q, k, v, z = np.split(heads, [dim, 2 * dim, 2 * dim + span], axis=1)
        qkv = np.concatenate([band.reshape(-1, *width) for band in (q, k, v)])
        return qkv, z.reshape(-1, *width)


PACKED_QKVZ = PackQkvz()
