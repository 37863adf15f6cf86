"""Saving and syncing as each library does it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peers
import safetensors.numpy
from isal import isal_zlib

BLOCK_BYTES = 1 << 20


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file that somebody else wrote is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def torch_save(tensors: dict[str, Any], path: Path) -> None:
    """Narrow with torch, write with safetensors: no counts, no checksum."""
    from safetensors.torch import save_file

    narrowed = {name: tensor.to(peers.torch.bfloat16) for name, tensor in tensors.items()}
    save_file(narrowed, path)


def counted_save(
    arrays: dict[str, Any], tensors: dict[str, Any] | None, path: Path, counted: peers.Counted
) -> list[Any]:
    """The same work as dmexp's: narrow, count, checksum, write."""
    narrowed: dict[str, Any] = {}
    found = []
    crc32 = 0
    for name, array in arrays.items():
        if tensors is None:
            narrowed[name] = array.astype(peers.BFLOAT16)
            bits = narrowed[name].view("u2").reshape(-1)
        else:
            narrowed[name] = tensors[name].to(peers.torch.bfloat16)
            bits = narrowed[name].view(peers.torch.int16).numpy().view("u2").reshape(-1)
        found.append(counted.count(array.reshape(-1), bits))
        assert not found[-1]["infinite"]
        crc32 = isal_zlib.crc32(bits, crc32)
    if tensors is None:
        safetensors.numpy.save_file(narrowed, path)
    else:
        from safetensors.torch import save_file

        save_file(narrowed, path)
    return [crc32, *found]


def write_alone(nbytes: int, path: Path) -> None:
    """Write as many bytes the fastest way there is: room asked for first, 1 MiB at a time."""
    block = memoryview(bytearray(BLOCK_BYTES))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, nbytes)
        for at in range(0, nbytes, BLOCK_BYTES):
            os.pwrite(descriptor, block[: min(BLOCK_BYTES, nbytes - at)], at)
    finally:
        os.close(descriptor)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch at ``count`` threads."""
    if peers.torch is None:
        yield
        return
    before = peers.torch.get_num_threads()
    peers.torch.set_num_threads(count)
    try:
        yield
    finally:
        peers.torch.set_num_threads(before)
