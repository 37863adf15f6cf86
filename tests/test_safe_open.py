"""One tensor at a time, without copying: `safe_open`."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import struct
import subprocess
import sys
import threading
import weakref
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmexp
from container_util import (
    GOOD,
    NUMPY,
    Array,
    assert_same,
    assert_same_tensors,
    f32,
    noise,
    pack,
    plain,
    refusal,
    run,
    split,
    table,
    top,
)
from dmexp.errors import ChecksumError, NonFiniteError, TensorNotFoundError

ARRAYS: dict[str, Array] = {
    "first": noise(1, 30, 7),
    "second": noise(2, 1000),
    "scalar": np.array(2.5, "<f4"),
    "empty": np.zeros((3, 0), "<f4"),
    "last": noise(3, 5, 2, 2),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", metadata={"note": "kept"})
    return path


def _compat(directory: Path, **options: Any) -> Path:
    """The same tensors in a file without tensor checksums."""
    path = directory / "compat.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", compat="dormouse", **options)
    return path


def _edited(path: Path, payload_at: int, value: bytes) -> None:
    """Overwrite bytes of the payload; nothing else is put right."""
    data = bytearray(path.read_bytes())
    start = dmexp.info(path, verify=False).header_bytes + 24 + payload_at
    data[start : start + len(value)] = value
    path.write_bytes(data)


def test_it_is_a_mapping(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        assert issubclass(dmexp.safe_open, Mapping)
        assert file.keys() == list(file) == list(ARRAYS)
        assert len(file) == len(ARRAYS)
        assert "first" in file
        assert "third" not in file
        assert 1 not in file
        assert None not in file
        assert "\ud800" not in file
        assert_same_tensors(dict(file.items()), ARRAYS)
        assert_same_tensors(dict(file), ARRAYS)
        assert_same_tensors(dict(zip(file.keys(), file.values(), strict=True)), ARRAYS)
        assert_same(file.get("last"), ARRAYS["last"])
        assert file.get("third") is None
        assert file.get("third", 5) == 5
        assert file.metadata() == {"note": "kept"}
        assert file.header.num_params == sum(array.size for array in ARRAYS.values())
        assert repr(file) == f"<dmexp.safe_open {str(path)!r}: 5 tensors, f32>"


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_arrays_have_the_stored_dtype_and_are_read_only(tmp_path: Path, dtype: str) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file(ARRAYS, path, dtype=dtype)
    with dmexp.safe_open(path) as file:
        for name, array in file.items():
            assert array.dtype == NUMPY[dtype]
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
            if array.size:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.flags.writeable = True
            assert_same(np.array(array), ARRAYS[name].astype(NUMPY[dtype]))


def test_arrays_share_the_files_pages(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        one, two = file["second"], file["second"]
        assert np.shares_memory(one, two)
        assert not one.flags.owndata
        # A change to the file shows: nothing was copied.
        offset = next(t.offset for t in dmexp.info(path).tensors if t.name == "second")
        with path.open("r+b") as raw:
            raw.seek(offset)
            raw.write(struct.pack("<f", 77.0))
        assert one[0] == 77.0


def test_the_payload_is_aligned(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        first = file["first"]
        assert first.flags.aligned
        assert first.__array_interface__["data"][0] % 64 == 0


def test_arrays_outlive_the_file_object(path: Path) -> None:
    file = dmexp.safe_open(path)
    kept = dict(file.items())
    part = file.get_slice("first")[3:5, ::2]
    file.close()
    gone = weakref.ref(file)
    del file
    gc.collect()
    assert gone() is None
    path.unlink()
    path.write_bytes(b"another file")
    assert_same_tensors(kept, ARRAYS)
    assert_same(np.ascontiguousarray(part), np.ascontiguousarray(ARRAYS["first"][3:5, ::2]))


def test_arrays_outlive_every_other_array(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        arrays = list(file.values())
    last = arrays.pop()
    del arrays, file
    gc.collect()
    assert_same(last, ARRAYS["last"])


def test_a_closed_file_says_so(path: Path) -> None:
    file = dmexp.safe_open(path)
    file.close()
    file.close()
    for call in (
        lambda: file["first"],
        lambda: file.get_slice("first"),
        lambda: list(file.items()),
    ):
        error = refusal(call)
        assert error.message == "the file is closed."
    # What the header said is still known.
    assert file.keys() == list(ARRAYS)
    assert "first" in file
    assert file.metadata() == {"note": "kept"}
    assert "closed" in repr(file)


def test_the_file_is_closed_on_the_way_out_of_an_exception(path: Path) -> None:
    with pytest.raises(RuntimeError, match="inside"), dmexp.safe_open(path) as file:
        raise RuntimeError("inside")
    assert refusal(lambda: file["first"]).message == "the file is closed."


def test_no_descriptor_and_no_mapping_is_left_behind(path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("only Linux lists a process's descriptors")
    maps = Path("/proc/self/maps")

    def once() -> None:
        with dmexp.safe_open(path) as file:
            list(file.values())
        dmexp.load_file(path)
        dmexp.info(path)
        refusal(dmexp.safe_open, GOOD.parent / "hostile" / "not-utf8.dmexp")

    once()
    gc.collect()
    before = len(list(descriptors.iterdir()))
    for _ in range(20):
        once()
    gc.collect()
    assert len(list(descriptors.iterdir())) == before
    assert str(path) not in maps.read_text()


# Slices ------------------------------------------------------------------------------------


def test_slices_are_views_by_numpys_indexing(path: Path) -> None:
    whole = ARRAYS["first"]
    with dmexp.safe_open(path) as file:
        cut = file.get_slice("first")
        assert (cut.get_shape(), cut.get_dtype()) == ([30, 7], "f32")
        for index in (
            np.s_[2:5],
            np.s_[:, 3],
            np.s_[::-1, ::2],
            np.s_[...],
            np.s_[4],
            np.s_[4, 5],
            np.s_[None, 1:1],
        ):
            found = cut[index]
            assert isinstance(found, np.ndarray)
            assert found.tobytes() == np.asarray(whole[index]).tobytes()
            assert found.shape == np.asarray(whole[index]).shape
        assert not cut[2:5].flags.writeable
        assert not cut[2:5].flags.owndata
        copied = cut[[1, 3]]
        assert copied.flags.owndata
        assert copied.tobytes() == whole[[1, 3]].tobytes()
        with pytest.raises(IndexError):
            cut[30]
        assert file.get_slice("scalar")[()] == 2.5


# Names that are not there ------------------------------------------------------------------


def test_a_missing_name_brings_those_that_look_alike(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        for call in (file.__getitem__, file.get_tensor, file.get_slice):
            error = refusal(call, "frist")
            assert isinstance(error, TensorNotFoundError)
            assert isinstance(error, KeyError)
            assert error.code == "NOT_FOUND"
            assert (error.name, error.close) == ("frist", ["first"])
            assert str(error) == f"{path}: no tensor 'frist' among 5. Did you mean 'first'?"
        assert "Did you mean" not in refusal(file.get_tensor, "qqqq").message
        assert refusal(file.get_tensor, "\ud800").code == "NOT_FOUND"
        with pytest.raises(TypeError):
            file[0]  # type: ignore[index]


def test_a_missing_name_is_found_missing_fast_in_a_large_file(tmp_path: Path) -> None:
    names = {f"model.layers.{n}.self_attn.q_proj.weight": [0] for n in range(20_000)}
    data = plain(names, np.zeros(0))
    (tmp_path / "x.dmexp").write_bytes(data)
    with dmexp.safe_open(tmp_path / "x.dmexp") as file:
        error = refusal(file.get_tensor, "model.layers.7.self_attn.q_proj.weigth")
    assert "Did you mean 'model.layers.7.self_attn.q_proj.weight'?" in error.message


# Checks ------------------------------------------------------------------------------------


def test_a_damaged_tensor_is_named_and_the_others_are_read(path: Path) -> None:
    second = dmexp.info(path).tensors[1]
    start = second.offset - 24 - dmexp.info(path).header_bytes
    _edited(path, start, b"\x00\x00\x80\x3f")
    with dmexp.safe_open(path) as file:
        assert_same(file["first"], ARRAYS["first"])
        assert_same(file["last"], ARRAYS["last"])
        for _ in range(2):
            error = refusal(file.get_tensor, "second")
            assert isinstance(error, ChecksumError)
            assert (error.tensor, error.what) == ("second", "tensor")
            assert error.stored == f"{zlib.crc32(ARRAYS['second'].tobytes()):08x}"
            assert error.computed != error.stored
            assert (error.offset, error.nbytes) == (start, second.nbytes)
            assert f"payload bytes {start} to {start + second.nbytes}" in error.message
            assert error.path == str(path)
    for call in (dmexp.load_file, dmexp.verify, dmexp.info):
        error = refusal(call, path)
        assert (error.tensor, error.what) == ("second", "tensor")


def test_the_first_of_several_damaged_tensors_is_named_and_counted(path: Path) -> None:
    for tensor in dmexp.info(path).tensors[:3]:
        _edited(path, tensor.offset - 24 - dmexp.info(path, verify=False).header_bytes, b"\x11")
    error = refusal(dmexp.verify, path)
    assert error.message.startswith("tensor 'first', and 2 more tensors: checksum is 0x")


def test_a_tensor_is_checked_once(path: Path) -> None:
    with dmexp.safe_open(path) as file:
        array = file["second"]
        start = dmexp.info(path).tensors[1].offset
        with path.open("r+b") as raw:
            raw.seek(start)
            raw.write(b"\xff")
        # The second look is free, which is what makes lazy reading cheap.
        assert np.shares_memory(file["second"], array)
    with dmexp.safe_open(path) as file:
        assert refusal(file.get_tensor, "second").code == "CHECKSUM"


def test_without_tensor_checksums_the_payload_is_checked_once(tmp_path: Path) -> None:
    path = _compat(tmp_path)
    with dmexp.safe_open(path) as file:
        assert_same_tensors(dict(file.items()), ARRAYS)
        with path.open("r+b") as raw:
            raw.seek(-1, os.SEEK_END)
            raw.write(b"\x42")
        file["first"], file["second"]
    with dmexp.safe_open(path) as file:
        # Any tensor shows it, since none can be cleared alone.
        for name in ARRAYS:
            error = refusal(file.get_tensor, name)
            assert (error.code, error.what, error.tensor) == ("CHECKSUM", "payload", None)


def test_a_file_with_some_tensor_checksums_uses_them(tmp_path: Path) -> None:
    values = f32([1, 2, 3, 4])
    header = (
        top(num_params="4", num_tensors="2", max_abs="4.0", min_nonzero_abs="1.0")
        + table("own", [2], f'crc32 = "{zlib.crc32(values[:2].tobytes()):08x}"\n')
        + table("none", [2])
    )
    path = tmp_path / "x.dmexp"
    path.write_bytes(pack(header, values.tobytes()))
    assert_same_tensors(dmexp.load_file(path), {"own": values[:2], "none": values[2:]})
    path.write_bytes(pack(header, f32([1, 2, 3, 3.5]).tobytes(), crc32=5))
    with dmexp.safe_open(path) as file:
        assert_same(file["own"], values[:2])
        assert refusal(file.get_tensor, "none").what == "payload"
    assert refusal(dmexp.load_file, path).what == "payload"


def test_a_damaged_prefix_is_told_from_a_damaged_payload(path: Path) -> None:
    _, header, payload = split(path.read_bytes())
    path.write_bytes(pack(header, payload, crc32=zlib.crc32(payload) ^ 1))
    error = refusal(dmexp.load_file, path)
    assert (error.what, error.tensor) == ("payload", None)
    assert "every tensor matches its own checksum, so the prefix is damaged" in error.message
    # The tensors are whole, each by itself.
    with dmexp.safe_open(path) as file:
        assert_same_tensors(dict(file.items()), ARRAYS)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1, np.nan, np.inf], "nan (1 NaN and 1 infinite"),
        ([1, -np.inf, np.nan], "-inf (1 NaN and 1 infinite"),
        ([1, np.inf, 2], "inf (0 NaN and 1 infinite"),
    ],
)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_a_stored_value_that_is_not_finite_is_refused_as_it_is(
    values: list[float], words: str, dtype: str, tmp_path: Path
) -> None:
    stored = np.array([[0, 0, 0], values], NUMPY[dtype])
    header = top(
        dtype=f'"{dtype}"', num_params="6", num_tensors="1", max_abs="2.0", min_nonzero_abs="1.0"
    ) + table("w", [2, 3])
    path = tmp_path / "x.dmexp"
    path.write_bytes(pack(header, stored.tobytes()))
    with dmexp.safe_open(path) as file:
        lazy = refusal(file.get_tensor, "w")
    for error in (lazy, refusal(dmexp.load_file, path), refusal(dmexp.load, path.read_bytes())):
        assert isinstance(error, NonFiniteError)
        assert (error.tensor, error.index, error.dtype) == ("w", (1, 1), dtype)
        assert repr(error.value) == repr(float(values[1]))
        assert words in error.message
    with dmexp.safe_open(path, verify=False) as file:
        assert_same(file["w"], stored)
    assert_same(dmexp.load_file(path, "stored", verify=False)["w"], stored)


def test_verify_false_skips_the_payload_and_the_config(tmp_path: Path, path: Path) -> None:
    _edited(path, 0, b"\x11\x22")
    with dmexp.safe_open(path, verify=False) as file:
        assert file["first"].tobytes()[:2] == b"\x11\x22"
        dict(file.items())
    found = dmexp.load_file(path, verify=False)
    assert found["first"].tobytes()[:2] == b"\x11\x22"
    assert_same(found["last"], ARRAYS["last"])
    shutil.copy(GOOD.parent / "hostile" / "llama-config-halved.dmexp", tmp_path / "llama.dmexp")
    with dmexp.safe_open(tmp_path / "llama.dmexp", verify=False) as file:
        assert file.header.shapes.status == "no"
        assert len(dict(file.items())) == len(file)


# Paths -------------------------------------------------------------------------------------


class Somewhere:
    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path


READERS: list[Any] = [
    dmexp.load_file,
    dmexp.info,
    dmexp.verify,
    lambda path: dict(dmexp.safe_open(path).items()),
]


@pytest.mark.parametrize("read", READERS, ids=["load_file", "info", "verify", "safe_open"])
def test_paths_of_every_type_are_taken(read: Any, path: Path) -> None:
    for spelling in (
        str(path),
        os.fsencode(path),
        path,
        Somewhere(str(path)),
        Somewhere(os.fsencode(path)),
    ):
        read(spelling)


@pytest.mark.parametrize("read", READERS, ids=["load_file", "info", "verify", "safe_open"])
def test_anything_else_is_a_type_error_that_names_them(read: Any) -> None:
    for wrong in (3, None, 1.5, ["x"], bytearray(b"x"), memoryview(b"x"), object(), Somewhere(3)):
        with pytest.raises(TypeError, match=r"str, bytes and os\.PathLike|__fspath__"):
            read(wrong)


@pytest.mark.parametrize("read", READERS, ids=["load_file", "info", "verify", "safe_open"])
def test_errors_of_the_system_pass_through(read: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        read(tmp_path / "none.dmexp")
    assert caught.value.filename == str(tmp_path / "none.dmexp")
    with pytest.raises(FileNotFoundError):
        read("")
    with pytest.raises(IsADirectoryError, match="dmexp export"):
        read(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        read(tmp_path / "file" / "below")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        read(tmp_path / "loop")


@pytest.mark.skipif(os.name != "posix", reason="only there file names are bytes")
@pytest.mark.parametrize(
    "name", [b"\xff\xfe.dmexp", "größe 層 🙂.dmexp".encode(), b"-o", b"a\nb", b"'\"$x`"]
)
def test_any_file_name_will_do(name: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(name)
    report = dmexp.save_file(ARRAYS, path, dtype="f32")
    assert report.path == str(path)
    assert_same_tensors(dmexp.load_file(os.path.join(os.fsencode(tmp_path), name)), ARRAYS)
    assert_same_tensors(dict(dmexp.safe_open(path).items()), ARRAYS)
    path.write_bytes(b"no model")
    assert refusal(dmexp.load_file, path).path == str(path)


# What cannot be mapped ---------------------------------------------------------------------


def _feed(path: Path, data: bytes) -> threading.Thread:
    os.mkfifo(path)

    def write() -> None:
        # The reader may have seen enough before the end.
        with contextlib.suppress(BrokenPipeError):
            path.write_bytes(data)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("read", READERS, ids=["load_file", "info", "verify", "safe_open"])
def test_a_pipe_is_read_to_its_end(read: Any, path: Path, tmp_path: Path) -> None:
    feeder = _feed(tmp_path / "pipe", path.read_bytes())
    found = read(tmp_path / "pipe")
    feeder.join()
    if isinstance(found, dict):
        assert_same_tensors(found, ARRAYS)
    else:
        assert found.num_tensors == len(ARRAYS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("spoil", ["cut", "longer", "another kind", "nothing", "endless claim"])
def test_a_pipe_is_refused_as_a_file_is(spoil: str, path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    data, code = {
        "cut": (data[:-1], "TRUNCATED"),
        "longer": (data + b"x" * 5_000_000, "TRUNCATED"),
        "another kind": (b"<!doctype html>" + b" " * 100_000, "UNSUPPORTED_FORMAT"),
        "nothing": (b"", "TRUNCATED"),
        "endless claim": (data[:12] + b"\xff" * 8 + data[20:], "TRUNCATED"),
    }[spoil]
    for nth, read in enumerate(READERS):
        pipe = tmp_path / f"pipe{nth}"
        feeder = _feed(pipe, data)
        assert refusal(read, pipe).code == code
        feeder.join()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="the system has no such device")
def test_a_device_without_an_end_is_refused_by_its_first_bytes() -> None:
    assert refusal(dmexp.load_file, "/dev/zero").code == "UNSUPPORTED_FORMAT"
    assert refusal(dmexp.load_file, "/dev/null").code == "TRUNCATED"


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="the system has no such device")
def test_standard_input_can_be_read(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import dmexp; print(dmexp.verify('/dev/stdin').num_tensors)"],
        input=path.read_bytes(),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout.strip() == b"5"


NO_MAPPINGS = """
import ctypes, os, sys
import numpy as np, dmexp
path = sys.argv[1]
expected = dmexp.load_file(path)
dmexp.verify(path)
# A process may have so many mappings and no more, which stands for systems that have none.
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
descriptor = os.open(path, os.O_RDONLY)
while libc.mmap(None, 4096, 1, 2, descriptor, 0) != 2**64 - 1:
    pass
with dmexp.safe_open(path) as file:
    kept = dict(file.items())
    os.truncate(path, 100)
    try:
        file["first"]
    except dmexp.errors.TruncatedError as error:
        print(error.actual)
for name, array in kept.items():
    assert array.tobytes() == expected[name].tobytes()
    assert not array.flags.writeable
print("read")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no such limit")
def test_where_nothing_can_be_mapped_the_file_is_read(path: Path) -> None:
    assert run(NO_MAPPINGS, path) == "100\nread\n"


# Large tables ------------------------------------------------------------------------------


def test_ten_thousand_tensors(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    values = noise(9, 10_000, 2)
    arrays = {f"model.layers.{n}.weight": values[n] for n in range(10_000)}
    dmexp.save_file(arrays, path, dtype="f32")
    assert_same_tensors(dmexp.load_file(path), arrays)
    with dmexp.safe_open(path) as file:
        assert file.keys() == list(arrays)
        for name in list(arrays)[::997]:
            assert_same(file[name], arrays[name])
    assert dmexp.verify(path).num_tensors == 10_000


@pytest.mark.skipif(sys.byteorder != "little", reason="views have the file's byte order")
def test_bf16_arrays_are_of_ml_dtypes(tmp_path: Path) -> None:
    dmexp.save_file({"w": f32([1, -2])}, tmp_path / "x.dmexp")
    with dmexp.safe_open(tmp_path / "x.dmexp") as file:
        assert file["w"].dtype == np.dtype(ml_dtypes.bfloat16)
        assert file["w"].view("<u2").tolist() == [0x3F80, 0xC000]
