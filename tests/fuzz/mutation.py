"""Change bytes at random, reproducibly: what a seed file becomes depends on the generator only."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

# Numbers at which arithmetic goes wrong.
EDGES = (
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**61,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 32,
    2**64 - 1,
)

Mutator = Callable[[bytearray, random.Random, int], None]


def _flip_bit(data: bytearray, rng: random.Random, reach: int) -> None:
    at = rng.randrange(reach)
    data[at] ^= 1 << rng.randrange(8)


def _set_byte(data: bytearray, rng: random.Random, reach: int) -> None:
    data[rng.randrange(reach)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _set_number(data: bytearray, rng: random.Random, reach: int) -> None:
    layout = rng.choice(("<I", "<Q", "<Q", "<H", ">I"))
    width = struct.calcsize(layout)
    at = rng.randrange(reach)
    number = rng.choice(EDGES) % 2 ** (8 * width)
    data[at : at + width] = struct.pack(layout, number)


def _nudge_number(data: bytearray, rng: random.Random, reach: int) -> None:
    at = rng.randrange(reach)
    width = rng.choice((4, 8))
    number = int.from_bytes(data[at : at + width], "little") + rng.choice((-1, 1, -32, 32, 1 << 16))
    data[at : at + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")


def _cut(data: bytearray, rng: random.Random, reach: int) -> None:
    del data[rng.randrange(reach) :]


def _remove(data: bytearray, rng: random.Random, reach: int) -> None:
    at = rng.randrange(reach)
    del data[at : at + rng.choice((1, 4, 8, 32, rng.randrange(1, 256)))]


def _insert(data: bytearray, rng: random.Random, reach: int) -> None:
    at = rng.randrange(reach)
    data[at:at] = rng.randbytes(rng.choice((1, 4, 8, 32)))


def _repeat(data: bytearray, rng: random.Random, reach: int) -> None:
    at, length = rng.randrange(reach), rng.choice((1, 8, 32, 128))
    data[at:at] = data[at : at + length]


def _move(data: bytearray, rng: random.Random, reach: int) -> None:
    source, target, length = rng.randrange(reach), rng.randrange(reach), rng.choice((1, 4, 8, 24))
    piece = data[source : source + length]
    data[target : target + len(piece)] = piece


def _append(data: bytearray, rng: random.Random, reach: int) -> None:
    data += bytes(rng.choice((1, 31, 32, 4096)))


MUTATORS: Sequence[Mutator] = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _set_number,
    _set_number,
    _set_number,
    _nudge_number,
    _cut,
    _remove,
    _insert,
    _repeat,
    _move,
    _append,
)


def mutate(seed: bytes, rng: random.Random, header_bytes: int) -> bytes:
    """A few changes to ``seed``, nine in ten of them in its first ``header_bytes``."""
    data = bytearray(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            break
        reach = min(header_bytes, len(data)) if rng.random() < 0.9 else len(data)
        rng.choice(MUTATORS)(data, rng, reach)
    return bytes(data)
