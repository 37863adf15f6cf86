"""Our safetensors reader: values bit for bit, refusals by name, nothing taken on trust."""

from __future__ import annotations

import gc
import json
import os
import struct
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as reference_save

from dmexp._arrays import OWED_BYTES
from dmexp.errors import (
    DmexpError,
    FormatError,
    InvalidArgumentError,
    ShapeMismatchError,
    SizeOverflowError,
    TensorNotFoundError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)
from dmexp.loaders.safetensors import SafetensorsFile
from safetensors_util import WIDTH_BYTES, pack, tensor, write

NUMPY = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": ml_dtypes.bfloat16,
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "C64": "<c8",
}


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("shift", range(8))
def test_every_dtype_is_read_in_place_at_every_alignment(
    dtype: str, shift: int, tmp_path: Path
) -> None:
    width = WIDTH_BYTES.get(dtype, 1)
    data = np.random.default_rng(7).bytes(6 * width)
    # A name of another length moves the payload by a byte.
    path = write(tmp_path / "m.safetensors", {"a" * (shift + 1): tensor(dtype=dtype)}, data)
    with SafetensorsFile(path) as file:
        (entry,) = file.entries()
        array = file.read(entry.name)
        assert (entry.dims, entry.dtype) == ((2, 3), dtype.lower())
        assert array.dtype == np.dtype(NUMPY[dtype])
        assert array.shape == (2, 3)
        assert array.tobytes() == data
        assert not array.flags.writeable
        assert not array.flags.owndata
        begin, end = file.payload_range(entry.name)
        assert path.read_bytes()[begin:end] == data
        assert file.payload_bytes == len(data)


def test_booleans_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "m.safetensors", {"m": tensor(dtype="BOOL")}, b"\0\1\1\0\0\1")
    with SafetensorsFile(path) as file:
        assert file.entries()[0].dtype == "bool"
        assert file.read("m").tolist() == [[False, True, True], [False, False, True]]


def test_a_scalar_has_no_dims(tmp_path: Path) -> None:
    path = write(tmp_path / "m.safetensors", {"s": tensor(shape=())}, struct.pack("<f", -0.0))
    with SafetensorsFile(path) as file:
        assert file.entries()[0].dims == ()
        assert file.read("s").shape == ()
        assert file.read("s").tobytes() == struct.pack("<f", -0.0)


def test_escaped_names_are_decoded(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.safetensors",
        '{"\\u00e9\\ud83d\\ude00\\"": ' + json.dumps(tensor()) + "}",
        bytes(24),
    )
    with SafetensorsFile(path) as file:
        assert [entry.name for entry in file.entries()] == ['é\U0001f600"']


def test_entries_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    header = {"second": tensor(24), "third": tensor(48), "first": tensor()}
    with SafetensorsFile(write(tmp_path / "m.safetensors", header, bytes(72))) as file:
        assert [entry.name for entry in file.entries()] == ["first", "second", "third"]


def test_metadata_keeps_its_strings(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt", "n": 5, "deep": {"x": "y"}}, "a": tensor()}
    with SafetensorsFile(write(tmp_path / "m.safetensors", header, bytes(24))) as file:
        assert file.metadata == {"format": "pt"}


def test_the_reference_library_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tensors = {
        "a": rng.standard_normal((3, 5)).astype(np.float32),
        "b": rng.standard_normal(7).astype(np.float16),
        "c": rng.integers(0, 9, (2, 2)),
        "d": np.array(3.5),
    }
    path = tmp_path / "m.safetensors"
    path.write_bytes(reference_save(tensors, metadata={"who": "me"}))
    with SafetensorsFile(path) as file:
        assert file.metadata == {"who": "me"}
        assert {entry.name for entry in file.entries()} == set(tensors)
        for name, expected in tensors.items():
            assert file.read(name).tobytes() == expected.tobytes()
            assert file.read(name).shape == expected.shape


@given(
    shapes=st.lists(st.lists(st.integers(1, 4), max_size=4), min_size=1, max_size=6),
    names=st.lists(st.text(min_size=1, max_size=8), min_size=6, max_size=6, unique=True),
    dtypes=st.lists(st.sampled_from(["<f4", "<f2", "<f8", "<i4"]), min_size=6, max_size=6),
)
def test_whatever_the_reference_writes_is_read(
    shapes: list[list[int]],
    names: list[str],
    dtypes: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rng = np.random.default_rng(2)
    arrays = {
        name: np.frombuffer(
            rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype
        ).reshape(shape)
        for name, shape, dtype in zip(names, shapes, dtypes, strict=False)
    }
    try:
        data = reference_save(arrays)
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no name for the reference either
    path = tmp_path_factory.mktemp("st") / "m.safetensors"
    path.write_bytes(data)
    with SafetensorsFile(path) as file:
        assert {entry.name: file.read(entry.name).tobytes() for entry in file.entries()} == {
            name: array.tobytes() for name, array in arrays.items()
        }


# Refusals: code, and the words that help.

REFUSALS: dict[str, tuple[bytes, type[DmexpError], list[str]]] = {
    "truncated payload": (
        pack({"w": tensor()}, bytes(23)),
        FormatError,
        ["'w'", "23", "truncated"],
    ),
    "truncated header": (pack({"w": tensor()})[:40], FormatError, ["truncated", "32"]),
    "overlap": (
        pack({"a": tensor(), "b": tensor(20)}, bytes(44)),
        FormatError,
        ["'b'", "overlaps", "'a'", "24"],
    ),
    "hole": (
        pack({"a": tensor(), "b": tensor(28)}, bytes(52)),
        FormatError,
        ["'b'", "4 bytes unused", "'a'"],
    ),
    "trailing": (pack({"a": tensor()}, bytes(25)), FormatError, ["1 bytes follow", "'a'"]),
    "names twice": (
        pack('{"w": 1, "w": 2}'),
        FormatError,
        ["'w'", "twice"],
    ),
    "not UTF-8": (pack(b'{"\xff": 1}'), FormatError, ["UTF-8", "0xff", "byte 2"]),
    "a constant": (pack('{"__metadata__": {"x": Infinity}}'), FormatError, ["Infinity"]),
    "junk": (pack('{"w": 1} x'), FormatError, ["line 1", "column 10"]),
    "placeholders": (
        pack({"w": tensor(shape=(0, 4))}),
        UnsupportedShapeError,
        ["'w'", "[0, 4]", "sharded training"],
    ),
    "too many dims": (
        pack({"w": tensor(shape=(1,) * 9)}, bytes(4)),
        UnsupportedShapeError,
        ["9", "8"],
    ),
    "overflow": (
        pack({"w": tensor() | {"shape": [1 << 33, 1 << 33]}}, bytes(24)),
        SizeOverflowError,
        ["'w'", "64 bits"],
    ),
    "bytes": (
        pack({"w": tensor(shape=(2, 3), data_offsets=[0, 20])}, bytes(20)),
        ShapeMismatchError,
        ["'w'", "24 bytes", "hold 20"],
    ),
    "unknown dtype": (
        pack({"w": tensor(dtype="Q9")}, bytes(6)),
        UnsupportedDtypeError,
        ["'Q9'", "BF16"],
    ),
    "null": (pack({"w": None}), FormatError, ["'w'", "null"]),
    "string": (pack(json.dumps("x")), FormatError, ["string", "object"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_what_and_where(case: str, tmp_path: Path) -> None:
    data, kind, words = REFUSALS[case]
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with pytest.raises(kind) as caught:
        SafetensorsFile(path)
    assert type(caught.value) is kind
    assert caught.value.path == str(path)
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize(
    "dtype", ["F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F4", "E8M0", "F4_E2M1"]
)
def test_p59_quantised_dtypes_are_refused_by_name_with_the_reason(
    dtype: str, tmp_path: Path
) -> None:
    header = {"norm": tensor(shape=(1,)), "w": tensor(4, dtype=dtype), "v": tensor(10, dtype=dtype)}
    with pytest.raises(UnsupportedDtypeError, match="scale") as caught:
        SafetensorsFile(write(tmp_path / "m.safetensors", header, bytes(16)))
    assert caught.value.tensors == ["w", "v"]
    assert caught.value.dtype == dtype
    assert "'w'" in caught.value.message
    assert "1 more" in caught.value.message


def test_a_good_file_cut_anywhere_gives_one_type_of_error(tmp_path: Path) -> None:
    header = {"__metadata__": {"a": "b"}, "x": tensor(), "y": tensor(24, dtype="BF16", shape=(3,))}
    whole = pack(header, bytes(30))
    path = tmp_path / "m.safetensors"
    path.write_bytes(whole)
    SafetensorsFile(path).close()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            SafetensorsFile(path)


def test_every_flipped_bit_of_the_header_is_refused_or_harmless(tmp_path: Path) -> None:
    payload = bytes(range(1, 31))
    whole = pack({"x": tensor(), "y": tensor(24, dtype="BF16", shape=(3,))}, payload)
    path = tmp_path / "m.safetensors"
    read = 0
    for place in range(8 * (len(whole) - len(payload))):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            with SafetensorsFile(path) as file:
                # A name or a dtype of the same width may change; a byte never moves.
                found = b"".join(file.read(entry.name).tobytes() for entry in file.entries())
                assert found == payload
                read += 1
        except DmexpError:
            continue
    assert 0 < read < 100


def test_the_header_length_is_bounded_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for length in (100 << 20, (100 << 20) + 1, 1 << 40, (1 << 64) - 1):
        path.write_bytes(struct.pack("<Q", length) + b"{" * 100)
        tracemalloc.start()
        with pytest.raises(FormatError, match=str(length)):
            SafetensorsFile(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20


@pytest.mark.parametrize("depth", [900, 5_000, 100_000])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_nesting_is_refused_and_does_not_end_the_process(
    depth: int, bracket: str, tmp_path: Path
) -> None:
    opening = bracket[0] if bracket == "[]" else '{"a":'
    text = '{"__metadata__":' + opening * depth + "0" + bracket[1] * depth + "}"
    with pytest.raises(FormatError):
        SafetensorsFile(write(tmp_path / "m.safetensors", text))


# Life of the file and of its arrays.


def test_arrays_outlive_the_file_object(tmp_path: Path) -> None:
    path = write(tmp_path / "m.safetensors", {"a": tensor()}, bytes(range(24)))
    file = SafetensorsFile(path)
    array = file.read("a")
    file.close()
    file.close()
    del file
    gc.collect()
    assert array.tobytes() == bytes(range(24))
    if os.name != "nt":
        path.unlink()
        assert array.tobytes() == bytes(range(24))


def test_a_closed_file_gives_no_arrays(tmp_path: Path) -> None:
    file = SafetensorsFile(write(tmp_path / "m.safetensors", {"a": tensor()}, bytes(24)))
    file.close()
    with pytest.raises(InvalidArgumentError, match="closed"):
        file.read("a")


def test_an_unknown_name_offers_close_ones(tmp_path: Path) -> None:
    with SafetensorsFile(
        write(tmp_path / "m.safetensors", {"embed.weight": tensor()}, bytes(24))
    ) as file:
        with pytest.raises(TensorNotFoundError) as caught:
            file.read("embd.weight")
        assert caught.value.close == ["embed.weight"]
        with pytest.raises(TensorNotFoundError):
            file.payload_range("x")


@pytest.mark.skipif(os.name == "nt", reason="a mapped file cannot be shortened there")
def test_a_file_that_shrank_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    header = {"a": tensor(shape=(4096,)), "b": tensor(16384, shape=(4096,))}
    path = write(tmp_path / "m.safetensors", header, bytes(32768))
    with SafetensorsFile(path) as file:
        file.read("a")
        os.truncate(path, 20_000)
        with pytest.raises(TruncatedError) as caught:
            file.read("b")
    assert caught.value.actual == 20_000
    assert caught.value.code == "TRUNCATED"
    assert "'b'" in caught.value.message


@pytest.mark.parametrize("pread", [True, False])
def test_reading_works_where_mapping_does_not(
    pread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unmappable:
        @staticmethod
        def map(path: object) -> None:
            return None

    monkeypatch.setattr("dmexp.loaders._mapped.FileBytes", Unmappable)
    if not pread:
        monkeypatch.delattr(os, "pread")
    payload = np.random.default_rng(3).bytes(30)
    header = {"a": tensor(), "b": tensor(24, dtype="BF16", shape=(3,))}
    path = write(tmp_path / "m.safetensors", header, payload)
    with SafetensorsFile(path) as file:
        assert file.read("b").tobytes() == payload[24:]
        assert file.read("a").tobytes() == payload[:24]
        assert not file.read("a").flags.writeable
        if os.name != "nt":
            os.truncate(path, path.stat().st_size - 1)
            with pytest.raises(TruncatedError):
                file.read("b")


def test_a_walk_over_large_tensors_gives_pages_back(tmp_path: Path) -> None:
    count, size = 8, 16 << 20
    header = {f"t{i}": tensor(i * size, shape=(size // 4,)) for i in range(count)}
    path = tmp_path / "m.safetensors"
    with path.open("wb") as out:
        out.write(pack(header))
        for i in range(count):
            out.write(bytes([i + 1]) * size)
    if not Path("/proc/self/statm").exists():
        pytest.skip("resident pages are counted through /proc")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with SafetensorsFile(path) as file:
        before = resident()
        peak = 0
        for i in range(count):
            array = file.read(f"t{i}")
            assert int(array.view(np.uint8).max()) == i + 1
            peak = max(peak, resident() - before)
        assert peak < OWED_BYTES + 2 * size < count * size
        # Pages that were given back come again.
        first = file.read("t0")
        file.read("t1")
        assert first.tobytes() == b"\1" * size


def test_two_threads_read_the_same_file(tmp_path: Path) -> None:
    header = {f"t{i}": tensor(24 * i) for i in range(50)}
    payload = np.random.default_rng(4).bytes(1200)
    path = write(tmp_path / "m.safetensors", header, payload)
    with SafetensorsFile(path) as file, ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda i: file.read(f"t{i % 50}").tobytes(), range(400)))
    assert read == [payload[24 * (i % 50) : 24 * (i % 50) + 24] for i in range(400)]


def test_a_second_reader_differs_on_named_files_alone() -> None:
    """The reference library on the same malformed files. ``docs/loaders.md`` has both lists."""
    from test_lis_scope import ROWS

    stricter, wider = set(), set()
    for condition, (data, _, ours) in ROWS.items():
        try:
            deserialize(data)
        except SafetensorError:
            if ours is None:
                wider.add(condition)
        else:
            if ours is not None:
                stricter.add(condition)
    assert stricter == {
        "F8_E4M3",
        "a dim of 0",
        "a wrong dtype, then a wrong shape",
        "a wrong shape, then a wrong dtype",
        "shape stands before dtype in one entry",
        "metadata and no tensor",
        "names twice",
        "no tensor at all",
        "rank 9",
    }
    assert wider == {"metadata is a string", "nested metadata", "metadata is a huge number"}
