"""The checksum alone: S6."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
from board import Board
from race import Race

import dmexp

isal = pytest.importorskip("isal.isal_zlib")

LARGE = {"1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20}
SMALL = {"64B": (64, 150), "4KiB": (4096, 220)}


def has_wide_carryless_multiply() -> bool:
    try:
        with open("/proc/cpuinfo") as file:
            text = file.read()
    except OSError:
        return False
    return "vpclmulqdq" in text and "avx512vl" in text


@pytest.mark.parametrize("size", LARGE)
def test_large(race: Race, board: Board, scale: int, size: str) -> None:
    nbytes = max(4096, LARGE[size] // scale)
    block = os.urandom(min(nbytes, 1 << 20))
    data = block * (nbytes // len(block))
    assert dmexp.crc32(data) == zlib.crc32(data) == isal.crc32(data)
    candidates: dict[str, Any] = {
        "isal": lambda: isal.crc32(data),
        "zlib": lambda: zlib.crc32(data),
    }
    times = race(lambda: dmexp.crc32(data), loops=max(1, (16 << 20) // nbytes), **candidates)
    wide = has_wide_carryless_multiply()
    board.at_least("S6", size, times.speedup("isal"), 0.9 if wide else None, peer="isal")
    board.at_least("S6", size, times.speedup("zlib"), 3.0, peer="zlib")


@pytest.mark.parametrize("size", SMALL)
def test_small(race: Race, board: Board, size: str) -> None:
    nbytes, limit = SMALL[size]
    data = os.urandom(nbytes)
    assert dmexp.crc32(data) == zlib.crc32(data)
    times = race(lambda: dmexp.crc32(data), loops=50_000, isal=lambda: isal.crc32(data))
    nanoseconds = times.median("ours") * 1e9
    board.at_most("S6", f"{size}, one call", nanoseconds, limit, unit="ns")
    board.at_least("S6", f"{size}, one call", times.speedup("isal"), None, peer="isal")
