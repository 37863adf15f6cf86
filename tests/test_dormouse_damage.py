"""Damaged training checkpoints, and the CBOR that their tables are made of."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmexp.errors import (
    DmexpError,
    FileFormatError,
    FormatError,
    LimitExceededError,
    ShapeMismatchError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
    UnsupportedShapeError,
)
from dmexp.loaders import open_source
from dmexp.loaders._cbor import decode
from dmexp.loaders.dormouse import open_dormouse
from dormouse_util import align, burnpack, container, run, snapshot

CORPUS = Path(__file__).parent / "corpus" / "dmexp"


# Damage, byte by byte.


def entry(**changes: Any) -> dict[str, Any]:
    right = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "param_id": 1}
    return {key: value for key, value in (right | changes).items() if value is not None}


DATA = {"x": np.float32([1, 2])}
BROKEN: dict[str, tuple[bytes, type[DmexpError]]] = {
    "no model": (container(b""), TruncatedError),
    "model of 9 bytes": (container(b"NRUB\1\0\0\0\0"), TruncatedError),
    "another magic": (container(burnpack(DATA, magic=b"BURN")), FormatError),
    "version 2": (container(burnpack(DATA, version=2)), UnsupportedError),
    "version 0": (container(burnpack(DATA, version=0)), UnsupportedError),
    "metadata beyond 100 MiB": (
        container(burnpack(DATA, metadata_bytes=(100 << 20) + 1)),
        LimitExceededError,
    ),
    "metadata beyond the section": (
        container(burnpack(DATA, metadata_bytes=99999)),
        TruncatedError,
    ),
    "metadata is no map": (container(burnpack(DATA, metadata=b"\x80")), FormatError),
    "metadata is cut": (container(burnpack(DATA, metadata=b"\xa1\x67tensor")), FormatError),
    "no tensors": (container(burnpack({})), FormatError),
    "tensors is a list": (
        container(burnpack(DATA, metadata=cbor2.dumps({"tensors": []}))),
        FormatError,
    ),
    "entry is a list": (container(burnpack(DATA, table={"x": []})), FormatError),
    "unknown dtype": (
        container(burnpack(DATA, table={"x": entry(dtype="F8")})),
        UnsupportedDtypeError,
    ),
    "quantised": (
        container(burnpack(DATA, table={"x": entry(dtype={"QFloat": {"mode": "x"}})})),
        UnsupportedDtypeError,
    ),
    "dtype missing": (
        container(burnpack(DATA, table={"x": entry(dtype=None)})),
        UnsupportedDtypeError,
    ),
    "shape missing": (container(burnpack(DATA, table={"x": entry(shape=None)})), FormatError),
    "a negative dim": (container(burnpack(DATA, table={"x": entry(shape=[-2])})), FormatError),
    "a dim that is true": (
        container(burnpack(DATA, table={"x": entry(shape=[True, 2])})),
        FormatError,
    ),
    "a dim that is a float": (
        container(burnpack(DATA, table={"x": entry(shape=[2.0])})),
        FormatError,
    ),
    "a dim of 0": (
        container(burnpack(DATA, table={"x": entry(shape=[0], data_offsets=[0, 0])})),
        UnsupportedShapeError,
    ),
    "rank 9": (container(burnpack(DATA, table={"x": entry(shape=[1] * 9)})), UnsupportedShapeError),
    "dims beyond 64 bits": (
        container(burnpack(DATA, table={"x": entry(shape=[1 << 40, 1 << 40])})),
        SizeOverflowError,
    ),
    "dims of an exabyte": (
        container(burnpack(DATA, table={"x": entry(shape=[1 << 58])})),
        ShapeMismatchError,
    ),
    "one offset": (container(burnpack(DATA, table={"x": entry(data_offsets=[0])})), FormatError),
    "end before begin": (
        container(burnpack(DATA, table={"x": entry(data_offsets=[8, 0])})),
        FormatError,
    ),
    "end beyond the section": (
        container(burnpack(DATA, table={"x": entry(shape=[300], data_offsets=[0, 1200])})),
        TruncatedError,
    ),
    "offsets of 2^64": (
        container(burnpack(DATA, table={"x": entry(data_offsets=[0, 2**64 - 1])})),
        TruncatedError,
    ),
    "bytes other than the dims'": (
        container(burnpack(DATA, table={"x": entry(shape=[1])})),
        ShapeMismatchError,
    ),
    "not aligned": (
        container(burnpack(DATA, table={"x": entry(shape=[1], data_offsets=[4, 8])})),
        FormatError,
    ),
    "overlap": (
        container(burnpack(DATA, table={"x": entry(), "y": entry()})),
        FormatError,
    ),
    "a hole": (
        container(
            burnpack(
                {"x": np.zeros(200, np.float32)},
                table={"x": entry(shape=[2], data_offsets=[256, 264])},
            )
        ),
        FormatError,
    ),
    "more behind the last tensor": (container(burnpack(DATA, tail=bytes(256))), FormatError),
    "a tag": (container(burnpack(DATA, metadata=b"\xc0\x60")), FormatError),
    "too deep": (container(burnpack(DATA, metadata=b"\x81" * 200 + b"\x00")), LimitExceededError),
    "an array longer than the file": (
        container(burnpack(DATA, metadata=b"\x9b\x00\x00\x00\x10\x00\x00\x00\x00")),
        FormatError,
    ),
    "more tensors than any model": (
        container(burnpack(DATA, metadata=b"\xba\x00\x01\x86\xa1" + b"\x60\x00" * 100_001)),
        LimitExceededError,
    ),
    "model beyond the file": (container(burnpack(DATA), model_bytes=99_999), TruncatedError),
    "model of 2^64 - 1 bytes": (
        container(burnpack(DATA), model_bytes=2**64 - 1),
        TruncatedError,
    ),
    "step beyond any header": (container(burnpack(DATA), step=1 << 63), FormatError),
    "container cut": (container(burnpack(DATA))[:47], TruncatedError),
    "another container": (b"DMCK\x00\x03\x00\x00" + bytes(100), UnsupportedError),
}


@pytest.mark.parametrize("case", BROKEN)
def test_damage_is_refused_with_the_file_s_name(case: str, tmp_path: Path) -> None:
    data, kind = BROKEN[case]
    path = run(tmp_path, data, snapshot())
    tracemalloc.start()
    with pytest.raises(kind) as caught:
        open_source(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The longest case announces 100,001 entries in 200 kB of file.
    assert peak < 4 << 20
    assert type(caught.value) is kind
    assert caught.value.path == str(path)


def test_a_checkpoint_without_the_magic_is_not_guessed(tmp_path: Path) -> None:
    model = burnpack(DATA)
    legacy = struct.pack("<3Q", 20, len(model), 0) + model
    path = run(tmp_path, legacy, snapshot())
    with pytest.raises(UnsupportedFormatError, match="no file of a kind that is known"):
        open_source(path)
    with pytest.raises(UnsupportedFormatError, match="before that magic"):
        open_dormouse(path)


def test_a_checkpoint_cut_anywhere_before_the_optimizer_is_refused(tmp_path: Path) -> None:
    whole = container(burnpack(DATA))
    model_end = len(whole) - 3
    path = run(tmp_path, whole, snapshot())
    for length in range(model_end):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            open_source(path)
    path.write_bytes(whole[:model_end])
    with open_source(path) as source:
        assert source.info.notices


def test_every_flipped_byte_of_the_headers_is_refused_or_moves_nothing(tmp_path: Path) -> None:
    whole = container(burnpack(DATA))
    data_start = 48 + align(whole.index(b"param_id") - 48 + 20)
    path = run(tmp_path, whole, snapshot())
    for place in range(data_start):
        for mask in (1, 0x20, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
            try:
                with open_source(path) as source:
                    found = [source.read(entry.name).tobytes() for entry in source.entries()]
                    assert found == [DATA["x"].tobytes()]
            except DmexpError:
                continue


# The CBOR subset, against a general library.

json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@given(json_like)
def test_what_a_general_library_encodes_is_decoded(value: object) -> None:
    found = decode(cbor2.dumps(value), most_items=100)
    assert found == value
    assert repr(found) == repr(value)


@given(st.binary(max_size=60))
def test_any_bytes_decode_to_what_a_general_library_finds_or_are_refused(data: bytes) -> None:
    try:
        found = decode(data, most_items=100)
    except (FormatError, LimitExceededError):
        return
    assert repr(found) == repr(cbor2.loads(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\x9f\x00\xff",  # an array without a length
        b"\xbf\xff",
        b"\x7f\x61a\xff",
        b"\x40",  # bytes
        b"\xc1\x00",  # a date
        b"\xd8\x1c\x80",  # a shared value
        b"\xf7",  # undefined
        b"\xf8\x20",
        b"\xa1\x00\x00",  # a key that is a number
        b"\xa2\x61a\x00\x61a\x01",  # a key twice
        b"\x61\xff",  # not UTF-8
        b"\x00\x00",  # one more value
        b"\x1c",  # a reserved length
        b"",
    ],
)
def test_what_no_checkpoint_uses_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode(data, most_items=100)
