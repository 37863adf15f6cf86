"""``.npz`` archives: one array at a time, nothing unpickled, no size taken on trust."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from dmexp.errors import (
    ChecksumError,
    DmexpError,
    FormatError,
    LimitExceededError,
    SizeOverflowError,
    TensorNotFoundError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedShapeError,
)
from dmexp.loaders import SourceOptions, open_source
from dmexp.loaders.npz import open_npz

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
READABLE = {
    "f32": VALUES,
    "f64": VALUES.astype(np.float64) + 2.0**-40,
    "f16": VALUES.astype(np.float16),
    "big-endian": VALUES.astype(">f4"),
    "column-major": np.asfortranarray(VALUES[0]),
    "column-major, three dims": np.asfortranarray(VALUES),
    "0-d": np.float32(-0.0),
    "empty": np.zeros((0, 3), np.float32),
    "i64": np.array([2**53 + 1]),
    "u8": np.arange(3, dtype=np.uint8),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j], np.complex64),
}
KINDS = ["f32", "f64", "f16", "f32", "f32", "f32", "f32", "f32", "i64", "u8", "bool", "c64"]


def archive(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def npy(header: str | bytes, data: bytes = b"", *, version: bytes = b"\x01\x00") -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_every_number_comes_back_bit_for_bit(save: object, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    save(path, **READABLE)  # type: ignore[operator]
    with open_source(path) as source:
        assert source.info.kind == ".npz archive"
        entries = source.entries()
        assert [entry.name for entry in entries] == list(READABLE)
        assert [entry.dtype for entry in entries] == KINDS
        for entry in entries:
            expected = np.asarray(READABLE[entry.name])
            found = source.read(entry.name)
            assert entry.dims == found.shape == expected.shape
            assert found.dtype == expected.dtype
            assert found.tobytes() == expected.tobytes()
            assert not found.flags.writeable


def test_names_with_folders_and_dots_are_kept(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.npz", **{"layer/0.weight": VALUES, "x.npy": VALUES})
    with open_npz(path) as source:
        assert [entry.name for entry in source.entries()] == ["layer/0.weight", "x.npy"]


def test_a_config_is_taken_from_the_options(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"model_type": "x", "gone": null}')
    (tmp_path / "config.json").write_text('{"model_type": "not this one"}')
    path = archive(tmp_path / "m.npz", a=VALUES)
    with open_npz(path) as source:
        assert source.info.config == ""
    with open_npz(path, SourceOptions(config=tmp_path / "c.json")) as source:
        assert source.info.config == 'model_type = "x"\n'
        assert source.info.config_origin == str(tmp_path / "c.json")


def test_p15_a_bfloat16_array_that_lost_its_name_is_refused_with_the_cure(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.npz", w=VALUES.astype(ml_dtypes.bfloat16))
    with pytest.raises(UnsupportedDtypeError, match="bfloat16") as caught:
        open_npz(path)
    assert caught.value.code == "UNSUPPORTED_DTYPE"
    assert caught.value.tensor == "w"
    assert "astype(numpy.float32)" in caught.value.message
    with np.load(path) as stored:
        cured = stored["w"].view(ml_dtypes.bfloat16).astype(np.float32)
    assert cured.tobytes() == VALUES.tobytes()


def test_another_void_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.npz", w=np.zeros(3, "V5"))
    with pytest.raises(UnsupportedDtypeError, match="anonymous void of 5 bytes"):
        open_npz(path)


def test_objects_are_listed_and_never_opened(tmp_path: Path) -> None:
    fatal = np.array([pytest.fail], dtype=object)
    path = archive(tmp_path / "m.npz", w=VALUES, settings=fatal)
    with open_npz(path) as source:
        assert [entry.dtype for entry in source.entries()] == ["f32", "object"]
        assert source.read("w").tobytes() == VALUES.tobytes()
        with pytest.raises(UnsupportedDtypeError, match="never opened") as caught:
            source.read("settings")
    assert caught.value.tensor == "settings"


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.array(["a"]), "text"),
        (np.array([b"a"]), "bytes"),
        (np.array(["2020-01-01"], "M8[D]"), "time"),
        (np.zeros(1, [("x", "<f4")]), "struct"),
    ],
)
def test_what_is_no_number_is_named(array: np.ndarray, kind: str, tmp_path: Path) -> None:
    with open_npz(archive(tmp_path / "m.npz", x=array)) as source:
        assert source.entries()[0].dtype == kind
        with pytest.raises(UnsupportedDtypeError, match=kind):
            source.read("x")


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
BROKEN: dict[str, tuple[bytes, type[DmexpError]]] = {
    "empty member": (b"", FormatError),
    "no magic": (b"NUMPY" + bytes(40), FormatError),
    "version 4": (npy(GOOD, bytes(8), version=b"\x04\x00"), FormatError),
    "header cut": (npy(GOOD)[:30], FormatError),
    "header beyond any": (b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b"x", FormatError),
    "header is code": (npy("__import__('os').abort()"), FormatError),
    "header is a call in a field": (npy(GOOD.replace("(2,)", "tuple([2])"), bytes(8)), FormatError),
    "header nested without end": (npy("[" * 5000), FormatError),
    "header is a list": (npy("[1]"), FormatError),
    "header is not UTF-8": (npy(b"\xff\xfe", version=b"\x03\x00") + b"", FormatError),
    "a key too many": (npy(GOOD.replace("}", "'more': 1}"), bytes(8)), FormatError),
    "a key missing": (npy("{'descr': '<f4', 'shape': (2,)}", bytes(8)), FormatError),
    "shape is a list": (npy(GOOD.replace("(2,)", "[2]"), bytes(8)), FormatError),
    "a negative dim": (npy(GOOD.replace("(2,)", "(-2,)"), bytes(8)), FormatError),
    "a dim that is True": (npy(GOOD.replace("(2,)", "(True, 2)"), bytes(8)), FormatError),
    "a dim that is a float": (npy(GOOD.replace("(2,)", "(2.0,)"), bytes(8)), FormatError),
    "order is 1": (npy(GOOD.replace("False", "1"), bytes(8)), FormatError),
    "dtype of no kind": (npy(GOOD.replace("<f4", "<f5"), bytes(8)), FormatError),
    "dtype of many words": (npy(GOOD.replace("<f4", "f4,f4"), bytes(8)), FormatError),
    "a byte missing": (npy(GOOD, bytes(7)), FormatError),
    "a byte too many": (npy(GOOD, bytes(9)), FormatError),
    "dims that are a sum to work out": (npy(GOOD.replace("(2,)", "(2**0, 1)"), b""), FormatError),
    "dims beyond the member": (npy(GOOD.replace("(2,)", f"({1 << 58},)"), bytes(8)), FormatError),
    "dims beyond 64 bits": (
        npy(GOOD.replace("(2,)", f"({1 << 40}, {1 << 40})"), bytes(8)),
        SizeOverflowError,
    ),
    "rank 65": (npy(GOOD.replace("(2,)", f"({'1, ' * 65})"), bytes(4)), UnsupportedShapeError),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_member_is_refused_by_name(case: str, tmp_path: Path) -> None:
    data, kind = BROKEN[case]
    path = zipped(tmp_path / "m.npz", {"good.npy": npy(GOOD, bytes(8)), "bad.npy": data})
    with pytest.raises(kind) as caught:
        open_npz(path)
    assert type(caught.value) is kind
    assert caught.value.tensor == "bad"
    assert caught.value.path == str(path)


def test_a_member_that_is_no_array_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.npz", {"a.npy": npy(GOOD, bytes(8)), "notes.txt": b""})
    with pytest.raises(FormatError, match=r"notes\.txt"):
        open_npz(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", npy(GOOD, bytes(8)))
        file.writestr("a.npy", npy(GOOD, b"\1" * 8))
    with pytest.raises(FormatError, match="twice"):
        open_npz(path)


def test_an_archive_without_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no array"):
        open_npz(zipped(tmp_path / "m.npz", {}))


def test_a_damaged_byte_gives_both_checksums(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.npz", w=VALUES)
    data = bytearray(path.read_bytes())
    place = data.index(VALUES.tobytes())
    data[place + 5] ^= 1
    path.write_bytes(data)
    with open_npz(path) as source, pytest.raises(ChecksumError) as caught:
        source.read("w")
    error = caught.value
    with zipfile.ZipFile(path) as file:
        stored = file.getinfo("w.npy").CRC
    assert (error.tensor, error.stored) == ("w", f"{stored:08x}")
    assert error.computed != error.stored
    assert error.path == str(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_cut_anywhere_is_refused(method: int, tmp_path: Path) -> None:
    whole = zipped(tmp_path / "m.npz", {"a.npy": npy(GOOD, bytes(8))}, method).read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            open_npz(path)


def test_every_flipped_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    whole = zipped(
        tmp_path / "m.npz", {"a.npy": npy(GOOD, b"\x11" * 8)}, zipfile.ZIP_DEFLATED
    ).read_bytes()
    path = tmp_path / "flipped.npz"
    refused = 0
    places = [(place, mask) for place in range(len(whole)) for mask in (0x01, 0x41, 0x80, 0xFF)]
    for place, mask in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
        try:
            with open_npz(path) as source:
                for entry in source.entries():
                    assert source.read(entry.name).tobytes() == b"\x11" * 8
        except DmexpError:
            refused += 1
    assert refused > len(places) // 2


def test_a_member_that_claims_an_impossible_packing_is_refused_before_memory_is_taken(
    tmp_path: Path,
) -> None:
    claimed = 1 << 40
    header = GOOD.replace("(2,)", f"({claimed // 4},)")
    path = zipped(tmp_path / "m.npz", {"a.npy": npy(header)}, zipfile.ZIP_DEFLATED)
    data = path.read_bytes()
    actual = struct.pack("<I", len(npy(header)))
    # Both places that state the unpacked size, at the width of a small archive.
    data = data.replace(actual, struct.pack("<I", 0xFFFFFFF0))
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(LimitExceededError, match="no such packing"):
        open_npz(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_a_real_bomb_is_read_in_no_more_memory_than_its_array_has(tmp_path: Path) -> None:
    zeros = np.zeros(1 << 22, np.float32)
    path = tmp_path / "m.npz"
    np.savez_compressed(path, a=zeros, b=zeros, c=zeros)
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with open_npz(path) as source:
        for entry in source.entries():
            assert source.read(entry.name).shape == (1 << 22,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < zeros.nbytes + (4 << 20)


def test_other_packings_are_refused_by_number(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.npz", {"a.npy": npy(GOOD, bytes(8))}, zipfile.ZIP_BZIP2)
    with pytest.raises(UnsupportedError, match="method 12"):
        open_npz(path)


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "m.npz", {"a.npy": npy(GOOD, bytes(8))})
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match="encrypted"):
        open_npz(path)


def test_an_unknown_name_and_a_missing_file(tmp_path: Path) -> None:
    source = open_npz(archive(tmp_path / "m.npz", a=VALUES))
    with source, pytest.raises(TensorNotFoundError):
        source.read("b")
    with pytest.raises(FileNotFoundError):
        open_npz(tmp_path / "absent.npz")


def test_the_independent_reader_agrees(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    rng = np.random.default_rng(5)
    arrays = {f"t{i}": rng.standard_normal((i, 3)).astype(np.float32) for i in range(1, 20)}
    np.savez(buffer, **arrays)
    (tmp_path / "m.npz").write_bytes(buffer.getvalue())
    with open_npz(tmp_path / "m.npz") as source, np.load(tmp_path / "m.npz") as other:
        assert {entry.name for entry in source.entries()} == set(other.files)
        for name in other.files:
            assert source.read(name).tobytes() == other[name].tobytes()
