"""Damage: a file cut at any byte, a bit flipped anywhere."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import Array, everything, f32, noise, pack, read_lazily, refusal, split
from dmexp.errors import DmexpError

ARRAYS: dict[str, Array] = {
    "a": f32([[1.0, -2.0, 0.5], [0.0, 5.15625, 3.0]]),
    "b.c": np.zeros((0, 4), "<f4"),
    "d": np.array(7, "<f4"),
}


def _small(compat: str | None) -> bytes:
    about: dict[str, Any] = {"config": "a = 1\n", "source": "here", "step": 13, "compat": compat}
    if not compat:
        about["metadata"] = {"k": "v"}
    return dmexp.save(ARRAYS, **about)


# Where a file ends -------------------------------------------------------------------------


@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_a_file_cut_at_any_byte_is_refused(compat: str | None, tmp_path: Path) -> None:
    data = _small(compat)
    path = tmp_path / "x.dmexp"
    for length in range(len(data)):
        error = refusal(dmexp.load, data[:length])
        assert error.code == "TRUNCATED"
        assert (error.expected, error.actual) == (24 if length < 24 else len(data), length)
        assert str(length) in error.message
        assert str(error.expected) in error.message
        if length % 16 == 0 or length > len(data) - 16:
            path.write_bytes(data[:length])
            for read in (dmexp.load_file, dmexp.safe_open, dmexp.info, dmexp.verify):
                assert refusal(read, path).message == error.message


@pytest.mark.parametrize("compat", [None, "dormouse"])
@pytest.mark.parametrize("surplus", [b"\0", b"\n", b"x" * 63, b"\0" * 4096])
def test_surplus_bytes_are_refused_and_counted(compat: str | None, surplus: bytes) -> None:
    data = _small(compat)
    error = refusal(dmexp.load, data + surplus)
    assert error.code == "TRUNCATED"
    assert (error.expected, error.actual) == (len(data), len(data) + len(surplus))
    assert f"{len(surplus)} bytes too many" in error.message
    assert refusal(dmexp.load, data + data).code == "TRUNCATED"


@pytest.mark.parametrize(
    ("header_bytes", "payload_bytes"),
    [
        (2**32 - 1, 0),
        (0, 2**64 - 1),
        (2**32 - 1, 2**64 - 1),
        (0, 2**64 - 24),
        (100, 2**64 - 124),
        (0, 2**63),
        (1, 0),
    ],
)
def test_lengths_that_the_file_does_not_have_are_refused(
    header_bytes: int, payload_bytes: int
) -> None:
    data = pack("", header_bytes=header_bytes, payload_bytes=payload_bytes)
    error = refusal(dmexp.load, data)
    assert error.code == "TRUNCATED"
    assert error.expected == 24 + header_bytes + payload_bytes
    assert str(error.expected) in error.message


# Single bits -------------------------------------------------------------------------------


def _flips(data: bytes, start: int, end: int) -> Any:
    for at in range(start, end):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            yield at, bytes(flipped)


def test_every_bit_of_prefix_and_header_is_guarded() -> None:
    data = _small(None)
    payload_at = 24 + struct.unpack_from("<I", data, 8)[0]
    expected = everything(data)
    accepted = []
    for at, flipped in _flips(data, 0, payload_at):
        try:
            found = everything(flipped)
        except DmexpError:
            continue
        # The checksum's own line can lose its meaning; what it guards is as it was.
        assert found == expected
        accepted.append(at)
    comment = data.rindex(b"# header-crc32")
    line = range(comment, comment + len('# header-crc32 = "xxxxxxxx"\n'))
    assert set(accepted) <= set(line)
    assert accepted


def test_every_bit_of_a_file_without_a_header_checksum_is_guarded_or_free_text() -> None:
    data = _small("dormouse")
    payload_at = 24 + struct.unpack_from("<I", data, 8)[0]
    expected = everything(data)
    changed: set[str] = set()
    for _, flipped in _flips(data, 0, payload_at):
        try:
            found = everything(flipped)
        except DmexpError:
            continue
        differing = {key for key, value in found.items() if value != expected[key]}
        changed |= differing
        # The original's format has nothing that could tell: any text, any step and any name are
        # as good as any other, no more can have been flushed than there are zeros, and a tensor
        # without values may have other dims.
        assert found["flushed"] <= 1
        for key in differing - {"source", "step", "flushed", "config", "tensors"}:
            # A digit beyond those that an f32 needs.
            assert key in {"max_abs", "min_nonzero_abs"}
            assert np.float32(found[key]) == np.float32(expected[key])
        for now, before in zip(found["tensors"], expected["tensors"], strict=True):
            assert now[2] == before[2]
            assert now[1] == before[1] or not before[2]
    assert {"source", "step", "flushed", "config", "tensors"} <= changed


@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_every_bit_of_the_payload_is_guarded(compat: str | None, tmp_path: Path) -> None:
    data = _small(compat)
    payload_at = 24 + struct.unpack_from("<I", data, 8)[0]
    path = tmp_path / "x.dmexp"
    for at, flipped in _flips(data, payload_at, len(data)):
        error = refusal(dmexp.load, flipped)
        assert error.code == "CHECKSUM"
        assert error.what == ("payload" if compat else "tensor")
        if not compat:
            assert error.tensor == ("a" if at < payload_at + 12 else "d")
        path.write_bytes(flipped)
        assert refusal(dmexp.verify, path).message == error.message
        assert refusal(dmexp.info, path).message == error.message
        assert refusal(read_lazily, path).code == "CHECKSUM"


def test_two_swapped_tensors_are_noticed() -> None:
    arrays = {"a": noise(1, 4), "b": noise(2, 4)}
    prefix, header, payload = split(dmexp.save(arrays, dtype="f32"))
    error = refusal(dmexp.load, prefix + header + payload[16:] + payload[:16])
    assert (error.code, error.tensor) == ("CHECKSUM", "a")


def test_an_edited_header_is_noticed() -> None:
    prefix, header, payload = split(_small(None))
    edited = header.replace(b"step = 13", b"step = 14")
    error = refusal(dmexp.load, prefix + edited + payload)
    assert (error.code, error.what, error.tensor) == ("CHECKSUM", "header", None)
    assert error.stored in error.message
    assert error.computed in error.message
    assert len(error.stored) == len(error.computed) == 8
