"""Write GGUF files by hand, correct ones and broken ones."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

TYPE_IDS = {
    "u8": 0,
    "i8": 1,
    "u16": 2,
    "i16": 3,
    "u32": 4,
    "i32": 5,
    "f32": 6,
    "bool": 7,
    "string": 8,
    "array": 9,
    "u64": 10,
    "i64": 11,
    "f64": 12,
}
FORMATS = {
    "u8": "B",
    "i8": "b",
    "u16": "H",
    "i16": "h",
    "u32": "I",
    "i32": "i",
    "f32": "f",
    "bool": "B",
    "u64": "Q",
    "i64": "q",
    "f64": "d",
}


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(kind: str, content: Any) -> bytes:
    """The bytes of one metadata value without its type; ``array:u32`` and so on for arrays."""
    if kind == "string":
        return string(content)
    if kind.startswith("array:"):
        inner = kind.removeprefix("array:")
        head = struct.pack("<IQ", TYPE_IDS[inner.split(":")[0]], len(content))
        return head + b"".join(value(inner, item) for item in content)
    return struct.pack("<" + FORMATS[kind], content)


def entry(key: str | bytes, kind: str, content: Any) -> bytes:
    return string(key) + struct.pack("<I", TYPE_IDS[kind.split(":")[0]]) + value(kind, content)


@dataclass
class Tensor:
    """``dims`` in checkpoint order; ``offset`` None means the next aligned place."""

    name: str | bytes
    dims: tuple[int, ...]
    type_id: int
    data: bytes
    offset: int | None = None


def f32(name: str, array: Any) -> Tensor:
    values = np.asarray(array, "<f4")
    return Tensor(name, values.shape, 0, values.tobytes())


@dataclass
class Gguf:
    """A file to be. Fields that lie about the content make it broken on purpose."""

    metadata: list[tuple[str, str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    version: int = 3
    magic: bytes = b"GGUF"
    alignment: int = 32
    tensor_count: int | None = None
    key_count: int | None = None
    tail_padding: bool = True

    def header(self) -> bytes:
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        key_count = len(self.metadata) if self.key_count is None else self.key_count
        parts = [self.magic, struct.pack("<IQQ", self.version, tensor_count, key_count)]
        parts += [entry(*item) for item in self.metadata]
        offset = 0
        for tensor in self.tensors:
            place = offset if tensor.offset is None else tensor.offset
            parts.append(string(tensor.name))
            parts.append(struct.pack("<I", len(tensor.dims)))
            parts.append(struct.pack(f"<{len(tensor.dims)}Q", *reversed(tensor.dims)))
            parts.append(struct.pack("<IQ", tensor.type_id, place))
            offset += self.padded(len(tensor.data))
        return b"".join(parts)

    def padded(self, count: int) -> int:
        return -(-count // self.alignment) * self.alignment

    def to_bytes(self) -> bytes:
        head = self.header()
        out = bytearray(head.ljust(self.padded(len(head)), b"\0"))
        for index, tensor in enumerate(self.tensors):
            out += tensor.data
            if self.tail_padding or index + 1 < len(self.tensors):
                out += bytes(self.padded(len(tensor.data)) - len(tensor.data))
        return bytes(out)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.to_bytes())
        return path


ARCHITECTURE = ("general.architecture", "string", "llama")


def write_string_array(path: Path, key: str, count: int, text: bytes) -> Path:
    """A header whose one array has ``count`` strings, written without holding it as objects."""
    one = string(text)
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + entry(*ARCHITECTURE)
    head += string(key) + struct.pack("<IIQ", TYPE_IDS["array"], TYPE_IDS["string"], count)
    path.write_bytes(head + one * count)
    return path
