"""Corpus files for the contract tests, read without dmexp: by `gguf` and by hand."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

CORPUS = Path(__file__).parent / "corpus" / "gguf"
FILES = sorted(CORPUS.glob("*/*.gguf"))
MORE = sorted(CORPUS.with_name("gguf-more").glob("*/*.gguf"))
F32 = [path for path in FILES if path.name.endswith(".f32.gguf")]

_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Pair:
    """A GGUF file and the checkpoint that it was made from."""

    path: Path
    architecture: str
    metadata: dict[str, Any]
    dims: dict[str, tuple[int, ...]]
    types: dict[str, str]
    stored: dict[str, np.ndarray]
    checkpoint: dict[str, np.ndarray]


@cache
def pair(path: Path) -> Pair:
    reader = GGUFReader(path)
    metadata = {
        key: entry.contents()
        for key, entry in reader.fields.items()
        if not key.startswith("tokenizer.")
    }
    dims = {one.name: tuple(int(dim) for dim in one.shape[::-1]) for one in reader.tensors}
    stored = {
        one.name: dequantize(one.data, one.tensor_type).reshape(dims[one.name])
        for one in reader.tensors
    }
    types = {one.name: one.tensor_type.name for one in reader.tensors}
    return Pair(
        path,
        metadata["general.architecture"],
        metadata,
        dims,
        types,
        stored,
        checkpoint(path.parent / "model.safetensors"),
    )


def checkpoint(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a safetensors file, as f32."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in entry["data_offsets"])
        array = np.frombuffer(raw[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = array.astype(np.float32)
    return tensors


def label(path: Path) -> str:
    return path.name.removesuffix(".gguf")


def metadata_of(architecture: str, **keys: Any) -> dict[str, Any]:
    """Header keys of an architecture; ``__`` stands for a dot."""
    found = {f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()}
    return {"general.architecture": architecture, **found}
