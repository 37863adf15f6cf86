"""A file and the same bytes in memory are read by different code, to the same answer."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dmexp
from container_util import header_of, pack
from dmexp._header import Header
from dmexp.errors import DmexpError
from header_fuzz_util import Fuzz, summary


def _in_memory(data: bytes) -> Any:
    try:
        return header_of(data)
    except DmexpError as error:
        return error


def _in_a_file(path: Path) -> Any:
    try:
        return dmexp.safe_open(path, verify=False).header
    except DmexpError as error:
        return error


def _compare(seed: int, count: int, path: Path) -> Counter[str]:
    ways: Counter[str] = Counter()
    for (text, payload, _), spoil in zip(Fuzz(seed).cases(count), itertools.cycle(range(7))):
        # Some prefixes are wrong too.
        wrong: list[dict[str, int]] = [{}] * 4 + [
            {"payload_bytes": payload + 1},
            {"header_bytes": max(0, len(text) - 1), "payload_bytes": payload + 1},
            {"header_bytes": len(text) + 1},
        ]
        data = pack(text, b"\0" * payload, **wrong[spoil])
        path.write_bytes(data)
        memory, file = _in_memory(data), _in_a_file(path)
        if isinstance(file, DmexpError) and file.path == str(path):
            file.path = None
        assert summary(file) == summary(memory), data
        ways["read" if isinstance(memory, Header) else memory.code] += 1
    return ways


def test_a_file_is_read_as_its_bytes_are(tmp_path: Path) -> None:
    ways = _compare(31, 1500, tmp_path / "x.dmexp")
    assert ways["read"] > 120
    assert ways["FORMAT"] > 100
    assert ways["TRUNCATED"] > 300
    assert len(ways) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(32, 36))
def test_many_more_files_are_read_as_their_bytes_are(seed: int, tmp_path: Path) -> None:
    assert _compare(seed, 50_000, tmp_path / "x.dmexp")["read"] > 5000
