"""Reading a whole file whose length nobody has promised."""

from __future__ import annotations

from typing import BinaryIO

_BLOCK_BYTES = 256 * 1024


def read_at_most(file: BinaryIO, limit: int) -> bytes:
    """All bytes of a file, or ``limit`` + 1 of them where it is longer.

    One large ``read`` takes memory for all that it asks for before it knows what is there, and a
    pipe has no length to ask; so it is read block by block.
    """
    parts = []
    left = limit + 1
    while left > 0 and (part := file.read(min(left, _BLOCK_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
