"""Checking what is on disk: S12, and its part of S14."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import data
import files
import pytest
from board import Board
from isal import isal_zlib
from race import Race

import dmexp

WHAT = "512MiB bf16 payload, 200 tensors"


@pytest.fixture(scope="module")
def file(disk: Path, scale: int) -> Iterator[Path]:
    path = disk / "verified.dmexp"
    dmexp.save_file(data.model(max(data.MIB, data.GIB // scale)), path, sync=False)
    yield path
    files.remove(path)


def payload_start(path: Path) -> int:
    with dmexp.safe_open(path, verify=False) as file:
        return file.header.payload_offset


def mapped(path: Path, start: int, crc32: Any) -> Any:
    """The checksum of a payload where it lies, mapped for this once."""
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as whole,
        memoryview(whole) as view,
        view[start:] as payload,
    ):
        return crc32(payload)


def test_checksum_of_a_mapping(race: Race, board: Board, file: Path) -> None:
    start = payload_start(file)
    with dmexp.safe_open(file, verify=False) as opened:
        stored = opened.header.payload_crc32
    for crc32 in (dmexp.crc32, isal_zlib.crc32, zlib.crc32):
        assert mapped(file, start, crc32) == stored
    times = race(
        lambda: mapped(file, start, dmexp.crc32),
        isal=lambda: mapped(file, start, isal_zlib.crc32),
        zlib=lambda: mapped(file, start, zlib.crc32),
    )
    board.at_least(
        "S12",
        f"crc32 over a mapping, {WHAT}",
        times.speedup("isal"),
        0.95,
        peer="isal",
        seconds=times.medians(),
    )
    board.at_least(
        "S12",
        f"crc32 over a mapping, {WHAT}",
        times.speedup("zlib"),
        None,
        peer="zlib",
        seconds=times.medians(),
    )


def test_verify(race: Race, board: Board, file: Path) -> None:
    start = payload_start(file)

    def isal() -> Any:
        return mapped(file, start, isal_zlib.crc32)

    assert dmexp.verify(file).ok
    isal()
    times = race(
        lambda: dmexp.verify(file, threads=1),
        isal=isal,
        two_threads=lambda: dmexp.verify(file, threads=2),
    )
    peer = "isal checksum of the mapping alone, 1 thread"
    board.at_least(
        "S12",
        f"full verify, 1 thread, {WHAT}",
        times.speedup("isal"),
        0.6,
        peer=peer,
        seconds=times.medians(),
    )
    board.at_least(
        "S12",
        f"full verify, 2 threads, {WHAT}",
        times.speedup("isal", "two_threads"),
        None,
        peer=peer,
        seconds=times.medians(),
    )
    board.at_least(
        "S14",
        f"full verify, {WHAT}",
        times.median("ours") / times.median("two_threads"),
        1.5,
        peer="1 thread",
        seconds=times.medians(),
    )
