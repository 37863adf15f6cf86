"""Build safetensors files by hand, well-formed or not."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

WIDTH_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "C64": 8}
WIDTH_BYTES |= {"F16": 2, "BF16": 2, "I16": 2, "U16": 2}


def tensor(
    begin: int = 0, *, dtype: str = "F32", shape: tuple[int, ...] = (2, 3), **changes: Any
) -> dict[str, Any]:
    """A right entry, then whatever ``changes`` say; a change to None removes the field."""
    count = 1
    for dim in shape:
        count *= dim
    end = begin + count * WIDTH_BYTES.get(dtype, 1)
    entry = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]} | changes
    return {key: value for key, value in entry.items() if value is not None}


def pack(header: Any, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """A file of a header (text, bytes, or something for JSON) and a payload."""
    if not isinstance(header, str | bytes):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + payload


def write(path: Path, header: Any, payload: bytes = b"", **options: Any) -> Path:
    path.write_bytes(pack(header, payload, **options))
    return path
