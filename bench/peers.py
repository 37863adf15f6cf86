"""What dmexp is measured against: PyTorch where it is installed, and NumPy as fast as it goes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

torch: Any = None
torch_fault = ""
try:
    import torch as _torch

    torch = _torch
except Exception as error:
    # A build for another machine fails with all kinds of errors.
    torch_fault = f"{type(error).__name__}: {error}"

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_NUMPY = {"bf16": BFLOAT16, "f16": np.dtype("f2")}
_TORCH = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


def torch_dtype(name: str) -> Any:
    return getattr(torch, _TORCH[name])


def torch_of(array: np.ndarray[Any, Any]) -> Any:
    """A tensor over the same memory."""
    return torch.from_numpy(array)


class Counted:
    """NumPy with the counts that dmexp makes, by hand: all of them from the 16-bit results.

    Magnitudes are compared as integers, in memory that is there already. With ``looks_first`` the
    extremes decide whether there is anything to count, as they do in dmexp: on data without zeros
    that spares most of the work.
    """

    def __init__(self, count: int, dtype: str, *, looks_first: bool = False) -> None:
        self.out = np.empty(count, _NUMPY[dtype])
        self._magnitudes, self._scratch = np.empty(count, "u2"), np.empty(count, "u2")
        self._limits = {"bf16": (0x7F80, 0x0080), "f16": (0x7C00, 0x0400)}[dtype]
        self._looks_first = looks_first

    def __call__(self, source: Array) -> dict[str, int]:
        with np.errstate(over="ignore"):
            np.copyto(self.out, source, casting="unsafe")
        return self.count(source, self.out.view("u2"))

    def count(self, source: Array, bits: Array) -> dict[str, int]:
        """The counts of results that are there already."""
        infinity, normal = self._limits
        size = bits.size
        magnitudes = np.bitwise_and(bits, 0x7FFF, out=self._magnitudes[:size])
        top, least = int(magnitudes.max()), 0
        if self._looks_first:
            least = int(magnitudes.min())
            if top < infinity and least >= normal:
                return {"max": top, "min": least, "flushed": 0, "subnormal": 0, "infinite": 0}
        zeros = size - int(np.count_nonzero(magnitudes))
        below = int(np.count_nonzero(magnitudes < normal))
        # A zero becomes the largest of all, and any other magnitude one less.
        least = int(np.subtract(magnitudes, 1, out=self._scratch[:size]).min()) + 1
        return {
            "max": top,
            "min": least & 0xFFFF,
            "flushed": zeros - (size - int(np.count_nonzero(source))),
            "subnormal": below - zeros,
            "infinite": int(np.count_nonzero(magnitudes >= infinity)),
        }
