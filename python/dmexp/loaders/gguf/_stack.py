"""A quantized tensor that many canonical ones are cut from, decoded slice by slice."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ._data import dequantize


class QuantizedStack:
    """Stands for an f32 array; what is taken along axis 0 is decoded when it is taken.

    The experts of a layer lie in one tensor of the file and are hundreds of tensors in the
    checkpoint. Decoding the whole for each of them would take hundreds of times as long, and
    keeping the whole would take gigabytes. Anything but an index decodes the whole.

    Parameters
    ----------
    raw
        The bytes of the tensor, u8.
    type_name
        A quantized type.
    dims
        In checkpoint order, two or more.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, raw: np.ndarray[Any, np.dtype[np.uint8]], type_name: str, dims: tuple[int, ...]
    ) -> None:
        self._slices = raw.reshape(dims[0], -1)
        self._type = type_name
        self.shape = dims
        self.ndim = len(dims)
        self.size = math.prod(dims)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        first, rest = (index[0], index[1:]) if isinstance(index, tuple) else (index, ())
        try:
            at = operator.index(first)
        except TypeError:
            return np.asarray(self)[index]
        one = dequantize(self._slices[at], self._type, self.shape[1:])
        return one[rest] if rest else one

    def reshape(self, dims: tuple[int, ...]) -> Any:
        """Itself, where the dims are its own."""
        return self if tuple(dims) == self.shape else np.asarray(self).reshape(dims)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        whole = dequantize(self._slices.reshape(-1), self._type, self.shape)
        return whole if dtype is None else whole.astype(dtype, copy=False)
