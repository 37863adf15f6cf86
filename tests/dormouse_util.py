"""Build dormouse training checkpoints, well-formed or not. The CBOR comes from another library."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import cbor2
import numpy as np

MODEL = {"d_model": 8, "n_heads": 2, "head_dim": 4, "d_ffn": 16, "rank": 4, "engram_rows": 4}


def align(offset: int) -> int:
    return -(-offset // 256) * 256


def burnpack(
    arrays: dict[str, np.ndarray],
    *,
    table: dict[str, Any] | None = None,
    metadata: bytes | None = None,
    magic: bytes = b"NRUB",
    version: int = 1,
    metadata_bytes: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """A burnpack of ``arrays`` in their order, its table sorted by name as burn does it."""
    data = b""
    entries: dict[str, Any] = {}
    names = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64", "bool": "Bool"}
    for number, (name, array) in enumerate(arrays.items()):
        data += bytes(align(len(data)) - len(data))
        begin, data = len(data), data + array.tobytes()
        kind = names[array.dtype.name]
        entries[name] = {
            "dtype": {"Bool": "Native"} if kind == "Bool" else kind,
            "shape": list(array.shape),
            "data_offsets": [begin, len(data)],
            "param_id": 2**60 + number,
        }
    if metadata is None:
        chosen = dict(sorted(entries.items())) if table is None else table
        metadata = cbor2.dumps({"tensors": chosen})
    head = struct.pack("<4sHI", magic, version, metadata_bytes or len(metadata)) + metadata
    return head + bytes(align(len(head)) - len(head)) + data + tail


def container(
    model: bytes,
    *,
    step: int = 7,
    optimizer: bytes = b"opt",
    teacher: bytes = b"",
    flags: int = 0,
    model_bytes: int | None = None,
) -> bytes:
    lengths = (len(model) if model_bytes is None else model_bytes, len(optimizer), len(teacher))
    return (
        b"DMCK\x00\x02\x00\x00"
        + struct.pack("<5Q", step, *lengths, flags)
        + model
        + optimizer
        + teacher
    )


def snapshot(**changes: Any) -> str:
    lines = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else value}\n"
        for key, value in (MODEL | changes).items()
    )
    return f'source = "small"\n\n[model]\n{lines}\n[train]\nsteps = 1\n'


def run(folder: Path, data: bytes, config: str | None = None, name: str = "latest") -> Path:
    """A checkpoint and its snapshot, as a trainer leaves them."""
    path = folder / f"{name}.bin"
    path.write_bytes(data)
    if config is not None:
        (folder / f"{name}.config.toml").write_text(config)
    return path


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    return {
        "z.first": rng.standard_normal((3, 4)).astype(np.float32),
        "a.second": rng.standard_normal(5).astype(np.float32),
        "m.third": np.float32([-0.0]),
    }
