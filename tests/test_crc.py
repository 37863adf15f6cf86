"""The checksum, against zlib."""

from __future__ import annotations

import array
import binascii
import mmap
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmexp import Crc32, crc32, crc32_combine
from dmexp.errors import InvalidArgumentError
from narrow_util import BF16, raised

NOISE = np.random.default_rng(5).integers(0, 256, 70_000, np.uint8).tobytes()


def test_the_check_value_of_the_standard() -> None:
    assert crc32(b"123456789") == 0xCBF43926


def test_every_length_to_4096() -> None:
    view = memoryview(NOISE)
    for length in range(4097):
        start = length % 61
        assert crc32(view[start : start + length]) == zlib.crc32(view[start : start + length])


def test_random_splits_equal_one_shot() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        cuts = sorted(rng.integers(0, len(NOISE), rng.integers(1, 12)).tolist())
        pieces = [NOISE[a:b] for a, b in zip([0, *cuts], [*cuts, len(NOISE)], strict=True)]
        value, combined, running = 0, 0, Crc32()
        for piece in pieces:
            value = crc32(piece, value)
            combined = crc32_combine(combined, crc32(piece), len(piece))
            running.update(piece)
        assert value == combined == running.value == zlib.crc32(NOISE)


@pytest.mark.parametrize(
    "value", [0, 1, 0xFFFFFFFF, 2**32, 2**32 + 7, -1, -(2**31), 2**70 + 5, -(2**90) - 3, True]
)
def test_any_start_value_is_reduced_as_zlib_does(value: int) -> None:
    for data in (b"", b"a", NOISE[:5000]):
        assert crc32(data, value) == zlib.crc32(data, value)
    assert crc32_combine(value, value, 3) == crc32_combine(value % 2**32, value % 2**32, 3)


class _Index:
    def __index__(self) -> int:
        return 5


def test_what_counts_as_an_integer_counts_as_a_start_value() -> None:
    assert crc32(b"abc", _Index()) == zlib.crc32(b"abc", 5)  # type: ignore[arg-type]
    assert crc32(b"abc", np.uint32(7)) == zlib.crc32(b"abc", 7)  # type: ignore[arg-type]


def _buffers(tmp_path: Path) -> list[Any]:
    path = tmp_path / "noise"
    path.write_bytes(NOISE)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    read_only = np.frombuffer(NOISE, np.float64)
    return [
        bytearray(NOISE),
        memoryview(NOISE),
        memoryview(NOISE).cast("d"),
        mapped,
        read_only,
        np.frombuffer(NOISE, ">i2").reshape(5, -1),
        np.frombuffer(NOISE, BF16),
        array.array("d", NOISE),
    ]


def test_any_contiguous_buffer_of_any_item_type(tmp_path: Path) -> None:
    for buffer in _buffers(tmp_path):
        assert crc32(buffer) == zlib.crc32(NOISE)
        assert Crc32(buffer).value == zlib.crc32(NOISE)


@pytest.mark.parametrize("empty", [b"", bytearray(), np.zeros((0, 3)), memoryview(b"")])
def test_nothing_leaves_the_value(empty: Any) -> None:
    assert crc32(empty) == 0
    assert crc32(empty, 77) == 77


@pytest.mark.parametrize(
    "data",
    [
        "text",
        5,
        None,
        1.5,
        [1, 2],
        memoryview(b"abcdef")[::2],
        np.zeros((3, 4))[:, ::2],
        np.zeros((3, 4)).T,
    ],
)
def test_what_zlib_refuses_is_refused_in_the_same_way(data: Any) -> None:
    theirs = raised(lambda: zlib.crc32(data))
    for call in (crc32, Crc32, Crc32().update):
        ours = raised(lambda call=call: call(data))
        assert type(ours) is type(theirs)
        assert str(ours) == str(theirs)


@pytest.mark.parametrize("value", ["1", 1.5, None, b""])
def test_a_start_value_that_is_no_integer_is_refused(value: Any) -> None:
    assert isinstance(raised(lambda: crc32(b"", value)), TypeError)
    assert isinstance(raised(lambda: crc32_combine(value, 0, 0)), TypeError)
    assert isinstance(raised(lambda: crc32_combine(0, value, 0)), TypeError)
    assert isinstance(raised(lambda: crc32_combine(0, 0, value)), TypeError)


def test_keywords_are_refused_as_zlib_does() -> None:
    with pytest.raises(TypeError):
        crc32(data=b"")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        crc32(b"", value=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("length", [-1, 2**64, -(2**100)])
def test_a_length_that_cannot_be_is_refused(length: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"len_b is {length}") as caught:
        crc32_combine(1, 2, length)
    assert caught.value.argument == "len_b"


@pytest.mark.parametrize("length", [2**31, 2**32 - 1, 2**40, 2**64 - 1])
def test_combining_takes_lengths_beyond_memory(length: int) -> None:
    # Appending a run in two steps equals appending it at once.
    first, last = crc32(b"first"), crc32(b"last")
    in_steps = crc32_combine(crc32_combine(first, 0, length - 4), last, 4)
    assert in_steps == crc32_combine(first, crc32_combine(0, last, 4), length)


# Crc32 as a hashlib object.


def test_digests_do_not_consume() -> None:
    crc = Crc32(b"12345")
    crc.digest()
    crc.hexdigest()
    crc.update(b"6789")
    assert crc.hexdigest() == crc.hexdigest() == "cbf43926"
    assert crc.digest() == bytes.fromhex("cbf43926")
    assert crc.value == 0xCBF43926
    assert repr(crc) == "<dmexp.Crc32 cbf43926>"


def test_hexdigest_has_eight_digits() -> None:
    # "" sums to zero, and this one begins with a zero.
    small = next(s for s in (b"%d" % i for i in range(10_000)) if binascii.crc32(s) < 2**24)
    for data in (b"", small):
        assert len(Crc32(data).hexdigest()) == 8
        assert int(Crc32(data).hexdigest(), 16) == zlib.crc32(data)


def test_a_copy_goes_its_own_way() -> None:
    crc = Crc32(b"12345")
    other = crc.copy()
    other.update(b"6789")
    assert (crc.value, other.value) == (zlib.crc32(b"12345"), 0xCBF43926)


def test_update_returns_nothing_and_names_are_fixed() -> None:
    crc = Crc32()
    assert crc.update(b"1") is None  # type: ignore[func-returns-value]
    assert (crc.name, crc.digest_size, Crc32.digest_size) == ("crc32", 4, 4)
    with pytest.raises(AttributeError):
        crc.value = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        type("Sub", (Crc32,), {})
