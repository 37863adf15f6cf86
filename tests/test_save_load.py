"""Arrays in, one file, arrays out."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tomli

import dmexp
from container_util import (
    NUMPY,
    Array,
    assert_same,
    assert_same_tensors,
    bits,
    f32,
    noise,
    pieces,
    refusal,
    run,
    split,
)

DTYPES = ["f32", "f16", "bf16"]
BF16 = np.dtype(ml_dtypes.bfloat16)


def _base(dtype: np.dtype[Any]) -> Array:
    # 3 x 4 x 5, all different, no two rows alike.
    return noise(3, 3, 4, 5, dtype="f8").astype(dtype)


def _misaligned(array: Array) -> Array:
    room = np.zeros(array.nbytes + 1, "u1")
    view = room[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned or array.dtype.itemsize == 1
    return view


LAYOUTS: dict[str, Any] = {
    "c": lambda a: a,
    "f": np.asfortranarray,
    "transposed": lambda a: a.T,
    "axes swapped": lambda a: a.swapaxes(0, 1),
    "every other": lambda a: a[:, ::2],
    "every other of the last": lambda a: a[..., ::2],
    "reversed": lambda a: a[::-1],
    "reversed all": lambda a: a[::-1, ::-1, ::-1],
    "a part": lambda a: a[1:, 1:3, 2:],
    "broadcast": lambda a: np.broadcast_to(a[0], (7, 4, 5)),
    "broadcast scalar": lambda a: np.broadcast_to(a[0, 0, 0], (6, 2)),
    "misaligned": _misaligned,
    "misaligned part": lambda a: _misaligned(a)[:, 1:],
    "0-d": lambda a: a[1, 2, 3],
    "0-d array": lambda a: a[1, 2, 3, ...],
    "one": lambda a: a[0, 0, :1],
    "empty": lambda a: a[:0],
    "empty inside": lambda a: a[:, :0, :],
    "empty reversed": lambda a: a[::-1, 2:2],
    "read-only": lambda a: _read_only(a),
    "a subclass": lambda a: a[0].view(np.matrix),
}


def _read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("source", ["<f4", ">f4", "<f8", ">f8", "<f2", ">f2", "bf16"])
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_every_layout_equals_its_contiguous_copy(layout: str, source: str, target: str) -> None:
    array = LAYOUTS[layout](_base(BF16 if source == "bf16" else np.dtype(source)))
    before = array.tobytes()
    plain = np.array(array, order="C", copy=True, subok=False)
    plain = plain.astype(plain.dtype.newbyteorder("<"))
    data = dmexp.save({"x": array}, dtype=target)
    assert data == dmexp.save({"x": plain}, dtype=target)
    assert data == dmexp.save([("x", array)], dtype=target)
    (found,) = dmexp.load(data, "stored").values()
    assert found.shape == np.shape(array)
    if source != "<f8" and source != ">f8":
        # f64 is rounded once, which NumPy does for f16 and ml_dtypes does not for bf16.
        assert_same(found, plain.astype("<f4").astype(NUMPY[target]))
    assert array.tobytes() == before


@pytest.mark.parametrize("dtype", ["f2", "bf16", "f4"])
def test_a_source_of_the_stored_dtype_keeps_every_bit(dtype: str) -> None:
    name = {"f2": "f16", "f4": "f32"}.get(dtype, dtype)
    width = NUMPY[name].itemsize
    patterns = np.arange(2**16, dtype="<u4") << (8 * width - 16)
    if dtype == "f4":
        patterns |= np.uint32(0x5A5A)
    values = patterns.astype(f"<u{width}").view(NUMPY[name])
    finite = values[np.isfinite(values.astype("<f4"))]
    (found,) = dmexp.load(dmexp.save({"x": finite}, dtype=name), "stored").values()
    assert np.array_equal(bits(found), bits(finite))


def test_f64_is_rounded_once() -> None:
    # By way of f32 the first two would tie, and go down to the even neighbour.
    values = np.array([1 + 2**-8 + 2**-40, -1 - 2**-8 - 2**-40, 1 + 2**-8, 2.0**-134, 1e-320])
    report_bits = bits(dmexp.load(dmexp.save({"x": values}, dtype="bf16"), "stored")["x"])
    assert [hex(pattern) for pattern in report_bits] == ["0x3f81", "0xbf81", "0x3f80", "0x0", "0x0"]
    halves = np.array([1 + 2**-11 + 2**-40, 2.0**-25, 2.0**-25 + 2.0**-60, 65519.99])
    found = bits(dmexp.load(dmexp.save({"x": halves}, dtype="f16"), "stored")["x"])
    assert [hex(pattern) for pattern in found] == ["0x3c01", "0x0", "0x1", "0x7bff"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_is_what_the_stored_values_widen_to(dtype: str) -> None:
    arrays = {"a": noise(1, 100, 3), "b": noise(2, 7) * 1e-6, "c": np.float32(3)}
    data = dmexp.save(arrays, dtype=dtype)
    stored = dmexp.load(data, "stored")
    wide = {name: array.astype("<f4") for name, array in stored.items()}
    assert_same_tensors(dmexp.load(data), wide)
    assert_same_tensors(dmexp.load(data, dtype), stored)


def test_loaded_arrays_are_the_callers_own() -> None:
    data = dmexp.save({"a": noise(1, 4, 4), "b": np.float32(2)}, dtype="f32")
    for dtype in ("f32", "stored"):
        first, second = dmexp.load(data, dtype), dmexp.load(data, dtype)
        for array in first.values():
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert array.flags.aligned
            array[...] = 0
        assert second["a"].any()


@pytest.mark.parametrize("dims", [(), (1,), (0,), (0, 3), (2, 0), (2, 0, 3), (1, 1, 1), (5, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dims_come_back(dims: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    arrays = {"before": noise(1, 2), "x": noise(2, *dims), "after": noise(3, 3)}
    report = dmexp.save_file(arrays, tmp_path / "x.dmexp", dtype=dtype)
    assert report.tensors[1].dims == dims
    for found in (
        dmexp.load_file(tmp_path / "x.dmexp"),
        dmexp.load(dmexp.save(pieces(arrays), dtype=dtype)),
        dict(dmexp.safe_open(tmp_path / "x.dmexp").items()),
    ):
        assert {name: array.shape for name, array in found.items()} == {
            name: array.shape for name, array in arrays.items()
        }
    assert [tensor.dims for tensor in dmexp.info(tmp_path / "x.dmexp").tensors] == [
        array.shape for array in arrays.values()
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_a_file_without_tensors_is_a_file(tmp_path: Path, dtype: str, compat: str | None) -> None:
    path = tmp_path / "none.dmexp"
    sources: list[Any] = [{}, [], iter(())]
    for tensors in sources:
        report = dmexp.save_file(tensors, path, dtype=dtype, compat=compat)
        assert (report.num_tensors, report.num_params, report.max_abs) == (0, 0, 0.0)
        assert report.file_bytes == path.stat().st_size
        assert dmexp.load_file(path) == {}
        assert dmexp.verify(path).ok
        with dmexp.safe_open(path) as file:
            assert (file.keys(), len(file), file.metadata()) == ([], 0, {})


def test_a_rank_of_64_comes_back() -> None:
    deep = noise(1, 2).reshape((1,) * 63 + (2,))
    assert dmexp.load(dmexp.save({"x": deep}))["x"].shape == deep.shape


# What is said of the whole file ------------------------------------------------------------


def test_the_report_says_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    arrays = {
        "a": f32([1.0, -2.5, 2.0**-24, 2.0**-25, 0.0, -0.0]),
        "b": np.array([1e-30, 6.1e-5, 65519.9]),
    }
    report = dmexp.save_file(arrays, path, dtype="f16", source="here", step=7)
    assert (report.path, report.dtype, report.file_bytes) == (
        str(path),
        "f16",
        path.stat().st_size,
    )
    assert (report.num_params, report.num_tensors) == (9, 2)
    # 2^-25 ties to zero and 1e-30 is far below; both zeros were zero before.
    assert (report.flushed, report.subnormal) == (2, 2)
    assert (report.max_abs, report.min_nonzero_abs) == (65504.0, 2.0**-24)
    a, b = report.tensors
    assert (a.name, a.dims, a.source_dtype, a.flushed, a.subnormal) == ("a", (6,), "f32", 1, 1)
    assert (b.name, b.dims, b.source_dtype, b.flushed, b.subnormal) == ("b", (3,), "f64", 1, 1)
    assert (a.max_abs, a.min_nonzero_abs) == (2.5, 2.0**-24)
    info = dmexp.info(path)
    assert (info.flushed, info.subnormal) == (report.flushed, report.subnormal)
    assert (info.max_abs, info.min_nonzero_abs) == (report.max_abs, report.min_nonzero_abs)
    assert [tensor.crc32 for tensor in info.tensors] == [a.crc32, b.crc32]
    assert (info.source, info.step, info.writer) == ("here", 7, f"dmexp {dmexp.__version__}")


METADATA: dict[str, Any] = {
    "text": "größe\n\"quoted\" 'too' \\ \t \x00 \x7f 🙂",
    "empty": "",
    "integer": -(2**63),
    "largest": 2**63 - 1,
    "float": 0.1,
    "huge": 1e300,
    "infinite": float("inf"),
    "true": True,
    "false": False,
    "when": datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC),
    "local": datetime.datetime(2026, 1, 2, 3, 4, 5),
    "day": datetime.date(2026, 1, 2),
    "time": datetime.time(3, 4, 5),
    "list": [1, 2, 3],
    "mixed": [1, "a", [2.5, {"b": []}]],
    "tables": [{"a": 1}, {"a": 2, "b": {"c": "d"}}],
    "table": {"inner": {"deep": [True]}, "": "an empty key", "a.b": 1, "c d": {}},
    "[metadata]": "a name of our own",
    "tensors": [{"name": "not a tensor"}],
    '# header-crc32 = "00000000"': "a key that looks like a comment",
    "lines": 'one\n# header-crc32 = "00000000"',
}


def _typed(value: Any) -> Any:
    """The same with types that compare: 1, 1.0 and True are three things."""
    if isinstance(value, dict):
        return {key: _typed(below) for key, below in value.items()}
    return [_typed(below) for below in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.parametrize("key", METADATA)
def test_metadata_of_every_type_comes_back(key: str, tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    metadata = {key: METADATA[key]}
    dmexp.save_file({"w": f32([1])}, path, metadata=metadata)
    with dmexp.safe_open(path) as file:
        assert file.metadata() == metadata
        assert file.header.extra == {}
        assert file.keys() == ["w"]
    assert _typed(dmexp.info(path).metadata) == _typed(metadata)
    assert dmexp.verify(path).ok


def test_all_metadata_comes_back_together_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file({"w": f32([1])}, path, metadata=MappingProxyType(METADATA))
    assert dmexp.info(path).metadata == METADATA
    dmexp.save_file({}, path, metadata=METADATA)
    assert dmexp.info(path).metadata == METADATA


def test_tuples_are_lists_in_a_file() -> None:
    data = dmexp.save({}, metadata={"a": (1, (2, 3))})
    _, header, _ = split(data)
    assert tomli.loads(header.decode())["metadata"] == {"a": [1, [2, 3]]}


CONFIGS = [
    "",
    "a = 1\n",
    "a = 1",
    'path = "C:\\\\x"\n',
    "text = '''\n\"\"\"\n'''\n",
    'both = """\n\'\'\'\n"""\n[table]\nx = \'\\\'\n',
    "# a comment\n\n\n",
    '"層" = "🙂"\n',
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_config_text_is_kept_to_the_letter(config: str, compat: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file({"w": f32([1])}, path, config=config, compat=compat)
    with dmexp.safe_open(path) as file:
        assert file.header.config == config
        assert file.header.config_dict == tomli.loads(config)


def test_line_ends_of_a_config_are_line_feeds() -> None:
    assert dmexp.save({}, config="a = 1\r\nb = 2\r\n") == dmexp.save({}, config="a = 1\nb = 2\n")


def test_a_config_may_be_a_mapping() -> None:
    config = {"hidden": 8, "rates": [0.1, 1e-5], "rope": {"theta": 1e6, "type": "a\nb"}}
    _, header, _ = split(dmexp.save({}, config=config))
    assert tomli.loads(tomli.loads(header.decode())["config"]) == config


@pytest.mark.parametrize("spelling", ["bf16", "bfloat16", "BF16", ml_dtypes.bfloat16])
def test_synonyms_of_a_dtype_are_taken(spelling: Any) -> None:
    assert dmexp.save({}, dtype=spelling) == dmexp.save({})
    assert dmexp.load(dmexp.save({"x": noise(1, 2)}), spelling)["x"].dtype == BF16


@pytest.mark.parametrize("step", [0, 1, 2**63 - 1, np.int64(5), np.uint8(5)])
def test_steps_come_back(step: Any, tmp_path: Path) -> None:
    dmexp.save_file({}, tmp_path / "x.dmexp", step=step)
    assert dmexp.info(tmp_path / "x.dmexp").step == int(step)


@pytest.mark.parametrize("source", ["", "a", "C:\\x", "'\"'", "two\nlines", "\r\x00\x1b", " x "])
def test_sources_come_back(source: str, tmp_path: Path) -> None:
    dmexp.save_file({}, tmp_path / "x.dmexp", source=source)
    assert dmexp.info(tmp_path / "x.dmexp").source == source


# Names -------------------------------------------------------------------------------------

NAMES = [
    'a"b',
    "a'b",
    "a.b.c",
    "a\\b",
    "a#b",
    "[a]",
    "[[tensors]]",
    "a = 1",
    "größe",
    "層.0",
    "🙂",
    "tensors",
    "config",
    "format",
    "metadata",
    "crc32",
    "name",
    "dims",
    " leading",
    "trailing ",
    " ",
    "a  b",
    "''",
    '""',
    "'''",
    '"""',
    "\\'\"",
    "a\u00a0b",
    "e\u0301",
    "\u00e9",
    "\u200b",
    "\u2028",
    "\ufeff",
    "\U0010ffff",
    "x" * 10_000,
    "__proto__",
    "../../etc/passwd",
    "%s%n{0}",
    "-o",
]


@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_names_of_every_kind_come_back(compat: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    arrays = {name: noise(nth, 2) for nth, name in enumerate(NAMES)}
    dmexp.save_file(arrays, path, dtype="f32", compat=compat)
    assert_same_tensors(dmexp.load_file(path), arrays)
    with dmexp.safe_open(path) as file:
        assert file.keys() == NAMES
        for name, array in arrays.items():
            assert name in file
            assert_same(file[name], array)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_alone_comes_back(name: str) -> None:
    assert list(dmexp.load(dmexp.save({name: noise(1, 1)}))) == [name]


def test_what_numpy_can_make_an_array_of_is_taken() -> None:
    data = dmexp.save({"list": [1.5, 2.5], "float": 2.5, "nested": [[0.5], [1.0]]}, dtype="f32")
    found = dmexp.load(data)
    assert {name: array.tolist() for name, array in found.items()} == {
        "list": [1.5, 2.5],
        "float": 2.5,
        "nested": [[0.5], [1.0]],
    }


# The same input, the same bytes ------------------------------------------------------------


def _large() -> dict[str, Array]:
    # More than the native writer hands to one thread, in tensors that end inside blocks.
    arrays = {f"layer.{n}": noise(n, 300_007) for n in range(10)}
    arrays["odd"] = noise(20, 1_000_003, dtype="f8")
    arrays["strided"] = noise(21, 800, 2001)[:, ::2]
    return arrays


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_depend_on_neither_threads_nor_kind_of_source(dtype: str, tmp_path: Path) -> None:
    arrays = _large()
    expected = dmexp.save(arrays, dtype=dtype, threads=1)
    for threads in (2, 3, 4):
        assert dmexp.save(arrays, dtype=dtype, threads=threads) == expected
    assert dmexp.save(pieces(arrays), dtype=dtype, threads=4) == expected
    assert dmexp.save(list(arrays.items()), dtype=dtype, threads=1) == expected
    sources: list[Any] = [arrays, pieces(arrays)]
    for nth, source in enumerate(sources):
        path = tmp_path / f"{nth}.dmexp"
        dmexp.save_file(source, path, dtype=dtype, threads=1 + nth * 2)
        assert path.read_bytes() == expected
    loaded = dmexp.load(expected, threads=1)
    for threads in (2, 4):
        assert_same_tensors(dmexp.load(expected, threads=threads), loaded)
        assert_same_tensors(dmexp.load_file(tmp_path / "0.dmexp", threads=threads), loaded)


def test_an_iterable_may_reuse_its_memory() -> None:
    room = np.empty(300_000, "<f4")
    arrays = {f"t{n}": noise(n, 300_000) for n in range(5)}

    def reusing() -> Any:
        for name, array in arrays.items():
            room[...] = array
            yield name, room

    assert dmexp.save(reusing(), dtype="f32") == dmexp.save(arrays, dtype="f32")


SCRIPT = """
import hashlib, dmexp, numpy as np
values = np.random.default_rng(5).standard_normal(5000).astype("f4")
metadata = {name: len(name) for name in {"alpha", "beta", "gamma"}} | {"z": 1, "a": 2}
arrays = {f"t.{n}": values[n:] for n in range(50)}
data = dmexp.save(arrays, metadata=dict(sorted(metadata.items())), config={"b": 1, "a": [2]})
print(hashlib.sha256(data).hexdigest())
"""


def test_bytes_depend_on_neither_process_nor_hash_seed() -> None:
    digests = {
        run(SCRIPT, PYTHONHASHSEED="0"),
        run(SCRIPT, PYTHONHASHSEED="12345", DMEXP_NUM_THREADS="1"),
        run(SCRIPT, PYTHONHASHSEED="random", DMEXP_NUM_THREADS="4", LC_ALL="C", TZ="UTC+7"),
    }
    assert len(digests) == 1


# Progress and threads ----------------------------------------------------------------------


def test_progress_ends_at_the_total() -> None:
    arrays = _large()
    total = sum(array.nbytes for array in arrays.values())
    calls: list[tuple[int, int | None]] = []
    dmexp.save(arrays, progress=lambda done, all_bytes: calls.append((done, all_bytes)))
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)
    more: list[tuple[int, int | None]] = []
    dmexp.save(pieces(arrays), progress=lambda done, all_bytes: more.append((done, all_bytes)))
    assert more[-1] == (total, None)
    # An iterable is told of after each tensor.
    assert len(more) >= len(arrays)


def test_the_environment_sets_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from dmexp._threads import resolve

    monkeypatch.setenv("DMEXP_NUM_THREADS", "3")
    assert resolve(None) == 3
    assert resolve(2) == 2
    monkeypatch.setenv("DMEXP_NUM_THREADS", "9" * 6000)
    assert resolve(None) == resolve(10**30) == 1024
    monkeypatch.setenv("DMEXP_NUM_THREADS", "007")
    assert resolve(None) == 7
    monkeypatch.setenv("DMEXP_NUM_THREADS", "")
    assert 1 <= resolve(None) <= (os.cpu_count() or 1)
    for wrong in ("0", "-1", "two", "1.5", "²", "000"):
        monkeypatch.setenv("DMEXP_NUM_THREADS", wrong)
        assert "DMEXP_NUM_THREADS" in refusal(dmexp.save, {}).message


# Memory that is read -----------------------------------------------------------------------


def test_load_takes_any_contiguous_memory() -> None:
    data = dmexp.save({"w": noise(1, 6)}, dtype="f32")
    assert len(data) % 4 == 0
    words: Any = np.frombuffer(data, "<u4")
    for memory in (
        memoryview(words),
        memoryview(words.reshape(2, -1)),
        memoryview(bytearray(data)),
    ):
        assert_same_tensors(dmexp.load(memory), dmexp.load(data))


def test_load_says_what_it_takes() -> None:
    data = dmexp.save({})
    for wrong in ("x.dmexp", Path("x.dmexp"), 3, None, np.frombuffer(data, "u1"), [1]):
        with pytest.raises(TypeError, match="bytes, bytearray and memoryview are accepted"):
            dmexp.load(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="contiguous"):
        dmexp.load(memoryview(data)[::2])


def test_a_dtype_that_a_file_does_not_hold_is_refused() -> None:
    data = dmexp.save({"w": noise(1, 2)}, dtype="bf16")
    error = refusal(dmexp.load, data, "f16")
    assert (error.code, error.argument) == ("INVALID_ARGUMENT", "dtype")
    assert error.known == ["f32", "stored", "bf16"]
    assert refusal(dmexp.load, data, "f64").code == "UNSUPPORTED_DTYPE"


@pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "stored"])
def test_large_arrays_start_with_a_huge_page(tmp_path: Path, dtype: str, threads: int) -> None:
    count = (4 << 20) // 2 + 3
    source = np.linspace(-2, 2, 3 * count, dtype=np.float32).reshape(3, count)
    model = {"first": source, "empty": source[:0], "small": source[:, 0].copy(), "last": source}
    path = tmp_path / "large.dmexp"
    dmexp.save_file(model, path, sync=False)
    loaded = dmexp.load_file(path, dtype, threads=threads)
    for name, array in loaded.items():
        expected = model[name].astype(ml_dtypes.bfloat16)
        assert array.astype(ml_dtypes.bfloat16).tobytes() == expected.tobytes()
        assert array.shape == model[name].shape
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.nbytes < 4 << 20 or array.ctypes.data % (2 << 20) == 0
    loaded["first"][...] = 0
    assert loaded["last"].any()
