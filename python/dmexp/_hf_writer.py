"""Write tensors as safetensors files, one or a set of shards with an index, in bounded memory.

The layout is the one that the reference implementation reads and writes: a header padded with
spaces to a multiple of 8 bytes, tensors contiguous in the order of the header, and the metadata
by which loaders tell that the arrays are laid out as PyTorch lays them out.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ._dtypes import WIDTH_BYTES
from .errors import InvalidArgumentError

SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
DEFAULT_SHARD_BYTES = 5_000_000_000
LARGEST_HEADER_BYTES = 100_000_000
"""What the reference reader accepts; above it a file would be written that nobody can open."""

_NAMES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
_WRITE_BYTES = 16 << 20

Pieces = Callable[[str], Iterable[np.ndarray[Any, Any]]]
"""The values of one tensor in row-major order, in as many pieces as it likes."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor to be written."""

    name: str
    dims: tuple[int, ...]


def plan_shards(
    tensors: Sequence[Planned], dtype: str, shard_bytes: int
) -> list[tuple[str, list[Planned]]]:
    """File names and their tensors: as many as fit, in order; a larger one has a file of its own.

    Raises
    ------
    InvalidArgumentError
        A limit below 1 byte.
    """
    if shard_bytes < 1:
        raise InvalidArgumentError(
            f"the shard size is {shard_bytes} bytes, expected at least 1.", argument="shard_size"
        )
    groups: list[list[Planned]] = [[]]
    held = 0
    for tensor in tensors:
        size = prod(tensor.dims) * WIDTH_BYTES[dtype]
        if groups[-1] and held + size > shard_bytes:
            groups.append([])
            held = 0
        groups[-1].append(tensor)
        held += size
    if len(groups) == 1:
        return [(SINGLE_NAME, groups[0])]
    return [
        (f"model-{number:05}-of-{len(groups):05}.safetensors", group)
        for number, group in enumerate(groups, 1)
    ]


def write_checkpoint(
    directory: Path,
    tensors: Sequence[Planned],
    dtype: str,
    pieces: Pieces,
    *,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
    sync: bool = True,
) -> list[str]:
    """Write all tensors below ``directory``, and an index where they need more than one file.

    Returns
    -------
    list of str
        The files' names, the index last.
    """
    shards = plan_shards(tensors, dtype, shard_bytes)
    for name, group in shards:
        write_safetensors(directory / name, group, dtype, pieces, sync=sync)
    names = [name for name, _ in shards]
    if len(shards) == 1:
        return names
    index = {
        "metadata": {"total_size": sum(prod(t.dims) for t in tensors) * WIDTH_BYTES[dtype]},
        "weight_map": {tensor.name: name for name, group in shards for tensor in group},
    }
    write_text(directory / INDEX_NAME, json.dumps(index, indent=2) + "\n", sync=sync)
    return [*names, INDEX_NAME]


def write_safetensors(
    path: Path, tensors: Sequence[Planned], dtype: str, pieces: Pieces, *, sync: bool = True
) -> int:
    """Write one file. Returns its length in bytes.

    Raises
    ------
    InvalidArgumentError
        A header longer than the reference reader accepts.
    OSError
    """
    header = _header(tensors, dtype)
    with path.open("wb", buffering=0) as file:
        written = _write(file.fileno(), header)
        for tensor in tensors:
            count = 0
            for piece in pieces(tensor.name):
                # Neither bf16 nor a 0-d array passes as a buffer; its bytes do.
                data: Any = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
                count += _write(file.fileno(), data)
            assert count == prod(tensor.dims) * WIDTH_BYTES[dtype], tensor.name
            written += count
        if sync:
            os.fsync(file.fileno())
    return written


def write_text(path: Path, text: str, *, sync: bool = True) -> None:
    """Write UTF-8 text with line feeds, on every system."""
    with path.open("wb") as file:
        file.write(text.encode())
        file.flush()
        if sync:
            os.fsync(file.fileno())


def _header(tensors: Sequence[Planned], dtype: str) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for tensor in tensors:
        if tensor.name == "__metadata__":
            raise InvalidArgumentError(
                "a tensor is named '__metadata__', which safetensors keeps for itself.",
                argument="path",
            )
        begin, end = end, end + prod(tensor.dims) * WIDTH_BYTES[dtype]
        entries[tensor.name] = {
            "dtype": _NAMES[dtype],
            "shape": list(tensor.dims),
            "data_offsets": [begin, end],
        }
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LARGEST_HEADER_BYTES:
        raise InvalidArgumentError(
            f"the header would have {len(text)} bytes and readers accept {LARGEST_HEADER_BYTES}. "
            "A smaller shard size spreads it over more files.",
            argument="shard_size",
        )
    return struct.pack("<Q", len(text)) + text


def _write(descriptor: int, data: bytes | memoryview) -> int:
    """Write all of ``data``: one call may take less, and takes at most 2 GiB on some systems."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.write(descriptor, view[done : done + _WRITE_BYTES])
    return done
