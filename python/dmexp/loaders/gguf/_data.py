"""The data of tensors: plain types as views of the file, quantized ones as f32, row by row."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from dmexp.errors import InvalidArgumentError, MissingDependencyError, UnsupportedDtypeError
from dmexp.loaders._mapped import MappedFile

from ._tensors import GgufTensor, unsupported_types
from ._types import PLAIN_DTYPES, QUANTIZED_TYPES, TYPES_BY_NAME

CHUNK_ELEMENTS = 1 << 18
"""Elements dequantized at a time: small enough for the cache, large enough for NumPy."""

_NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


def quants() -> ModuleType:
    """The dequantizers of the ``gguf`` package, or a refusal that says how to install it."""
    try:
        return importlib.import_module("gguf.quants")
    except ImportError:
        raise MissingDependencyError(
            "quantized tensors are read with the 'gguf' package, which is not installed. "
            "Install it with: pip install 'dmexp[gguf]'",
            package="gguf",
            extra="gguf",
        ) from None


def check_types(tensors: Iterable[GgufTensor], path: Path) -> None:
    """Refuse types that are known and not read, all in one message.

    Raises
    ------
    UnsupportedDtypeError
        With every such type and its number of tensors.
    MissingDependencyError
        When a quantized type is there and the ``gguf`` package is not.
    """
    counts = Counter(tensor.type_name for tensor in tensors)
    refused = {
        name: count
        for name, count in sorted(counts.items())
        if name not in PLAIN_DTYPES and name not in QUANTIZED_TYPES
    }
    if refused:
        raise unsupported_types(refused).with_path(str(path))
    wanted = sorted(QUANTIZED_TYPES.intersection(counts))
    if wanted:
        quants()
        known = importlib.import_module("gguf.constants").GGMLQuantizationType.__members__
        too_new = {name: counts[name] for name in wanted if name not in known}
        if too_new:
            raise UnsupportedDtypeError(
                f"the installed 'gguf' package is too old for {', '.join(too_new)}. "
                "Upgrade it with: pip install -U gguf",
                path=str(path),
                dtype=", ".join(too_new),
                types=too_new,
            )


class TensorData:
    """The data of all parts of a model, read tensor by tensor.

    Parameters
    ----------
    parts
        The files. They are mapped where the file system can, and read otherwise.
    """

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts: list[MappedFile] = []
        try:
            for path in parts:
                self._parts.append(MappedFile(path))
        except BaseException:
            self.close()
            raise

    def read(self, tensor: GgufTensor) -> np.ndarray[Any, Any]:
        """One tensor: a read-only view in its own dtype, or f32 where it is quantized.

        Raises
        ------
        TruncatedError
            When the file became shorter since it was opened.
        InvalidArgumentError
            When the files are closed.
        """
        self._require_open()
        plain = _NUMPY_DTYPES.get(tensor.type_name)
        if plain is not None:
            part = self._parts[tensor.part]
            return part.array_at(tensor.offset, tensor.dims, plain, f"tensor {tensor.name!r}")
        return dequantize(self.raw(tensor), tensor.type_name, tensor.dims)

    def raw(self, tensor: GgufTensor) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of one tensor as they are stored, a read-only view."""
        self._require_open()
        part = self._parts[tensor.part]
        return part.array_at(
            tensor.offset, (tensor.nbytes,), np.dtype(np.uint8), f"tensor {tensor.name!r}"
        )

    def _require_open(self) -> None:
        if not self._parts:
            raise InvalidArgumentError("the GGUF file is closed; open it again.")

    def close(self) -> None:
        """Let go of the files. Arrays that were handed out keep theirs mapped."""
        for part in self._parts:
            part.close()
        self._parts = []


def dequantize(
    raw: np.ndarray[Any, np.dtype[np.uint8]], type_name: str, dims: tuple[int, ...]
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Turn the blocks of one tensor into f32.

    Parameters
    ----------
    raw
        The bytes of the tensor, u8.
    type_name
        ``"Q8_0"``, ``"Q4_K"`` …
    dims
        In checkpoint order; the last one is the length of a row and a multiple of the block.

    Returns
    -------
    ndarray
        f32, of shape ``dims``. Memory beyond it stays below a few megabytes. Scales that are
        not finite give values that are not finite.
    """
    package = quants()
    kind = TYPES_BY_NAME[type_name]
    quant = importlib.import_module("gguf.constants").GGMLQuantizationType[type_name]
    # Blocks do not know of rows, so the tensor is taken as one long row in handy pieces.
    blocks = raw.reshape(-1, kind.nbytes)
    out = np.empty((len(blocks), kind.elements), np.float32)
    step = CHUNK_ELEMENTS // kind.elements
    # A hostile scale may be infinite; what comes of it is for the reader of the values to judge.
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            piece = blocks[start : start + step]
            values = package.dequantize(piece.reshape(1, -1), quant)
            out[start : start + step] = values.reshape(len(piece), kind.elements)
    return out.reshape(dims)
