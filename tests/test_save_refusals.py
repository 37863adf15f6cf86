"""What is not written: arguments, names, dtypes and values that a file cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmexp
from container_util import Array, bits, f32, left_in, noise, refusal
from dmexp import _native

DTYPES = ["f32", "f16", "bf16"]
BF16 = np.dtype(ml_dtypes.bfloat16)


def _endless() -> dict[str, Any]:
    table: dict[str, Any] = {}
    table["again"] = table
    return table


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": None},
        {"a": [None]},
        {"a": b"bytes"},
        {"a": {1, 2}},
        {"a": 2**63},
        {"a": [{"b": -(2**63) - 1}]},
        {"a": np.float32(1)},
        {"a": np.zeros(2)},
        {"a": 1j},
        {"a": "\ud800"},
        {"\udfff": 1},
        {1: "a"},
        {"a": {None: 1}},
        {"a": object()},
        _endless(),
    ],
)
def test_metadata_that_toml_has_no_words_for_is_refused(metadata: Any, tmp_path: Path) -> None:
    error = refusal(dmexp.save_file, {}, tmp_path / "x.dmexp", metadata=metadata)
    assert error.code == "INVALID_ARGUMENT"
    assert "metadata" in error.message
    assert left_in(tmp_path) == []


def test_metadata_is_a_mapping() -> None:
    with pytest.raises(TypeError, match="metadata is list; a mapping is expected"):
        dmexp.save({}, metadata=[("a", 1)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("a =", "config is not TOML"),
        ("a = 1\na = 2", "config is not TOML"),
        ("a = 9223372036854775808", "beyond TOML's 64 bits"),
        ("a = 0x" + "f" * 4000, "beyond TOML's 64 bits"),
        ("a = 0x" + "f" * 6000, "a number of thousands of digits"),
        ("a = " + "[" * 100_000, "config is not TOML"),
        ("a = '\ud800'", "config is not TOML"),
        ({"a": None}, "config cannot be written as TOML"),
        ({"a": {"b": 2**64}}, "config.a.b is 18446744073709551616"),
        (_endless(), "config cannot be written as TOML"),
    ],
)
def test_a_config_that_is_no_toml_is_refused(config: Any, words: str) -> None:
    error = refusal(dmexp.save, {}, config=config)
    assert error.code == "INVALID_ARGUMENT"
    assert error.argument.startswith("config")
    assert words in error.message


def test_a_config_has_to_describe_the_tensors(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 10,
    }
    arrays = {"model.embed_tokens.weight": noise(1, 10, 4)}
    for tensors in (arrays, arrays.items()):
        error = refusal(dmexp.save_file, tensors, tmp_path / "x.dmexp", config=config)
        assert error.code == "SHAPE_MISMATCH"
        assert "model.embed_tokens.weight" in error.message
        assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": -1}, "step is -1"),
        ({"step": 2**63}, "step is 9223372036854775808"),
        ({"source": "\ud800"}, "is not Unicode text"),
        ({"dtype": "f64"}, "Known: 'f32', 'f16', 'bf16'"),
        ({"dtype": "int8"}, "Known: 'f32', 'f16', 'bf16'"),
        ({"dtype": None}, "Known: 'f32', 'f16', 'bf16'"),
        ({"threads": 0}, "threads is 0"),
        ({"threads": True}, "threads is True"),
        ({"threads": 2.0}, "threads is 2.0"),
    ],
)
def test_arguments_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    assert words in refusal(dmexp.save, {}, **options).message


@pytest.mark.parametrize(
    "options", [{"step": 1.0}, {"step": True}, {"step": "1"}, {"source": None}]
)
def test_arguments_of_another_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="is expected"):
        dmexp.save({}, **options)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a\nb",
        "\t",
        "\0",
        "\x1b[31m",
        "a\x7f",
        "\x80",
        "a\x9f",
        "\r",
        "\ud800",
        "a\udfff",
        1,
        None,
        b"a",
    ],
)
def test_names_that_no_file_can_have_are_refused(name: Any, tmp_path: Path) -> None:
    for tensors in ({name: noise(1, 2)}, [(name, noise(1, 2))]):
        error = refusal(dmexp.save_file, tensors, tmp_path / "x.dmexp")
        assert (error.code, error.argument) == ("INVALID_ARGUMENT", "tensors")
        assert left_in(tmp_path) == []


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    pairs = [("a", noise(1, 2)), ("b", noise(1, 2)), ("a", noise(2, 2))]
    error = refusal(dmexp.save_file, pairs, tmp_path / "x.dmexp")
    assert error.message == "two tensors are named 'a'."
    assert left_in(tmp_path) == []


# What is no float --------------------------------------------------------------------------

NO_FLOATS: list[tuple[Any, str, str]] = [
    (np.array([1]), "int64", "leave it out"),
    (np.array([1], "u1"), "uint8", "leave it out"),
    (np.array([True]), "bool", "leave it out"),
    ([1, 2], "int64", "leave it out"),
    (3, "int64", "leave it out"),
    (np.array([1], "c8"), "complex64", "real and imaginary"),
    (np.array([None]), "object", "float32 first"),
    (None, "object", "float32 first"),
    (np.zeros(2, "V2"), "|V2", "view(ml_dtypes.bfloat16)"),
    (np.zeros(2, "V4"), "|V4", "float32 first"),
    (np.array(["a"]), "<U1", "float32 first"),
    (np.datetime64("2026"), "datetime64[Y]", "float32 first"),
    (np.zeros(1, [("a", "f4")]), "[('a', '<f4')]", "float32 first"),
    (np.zeros(1, ml_dtypes.float8_e4m3fn), "float8_e4m3fn", "float32 first"),
]


@pytest.mark.parametrize(("value", "dtype", "cure"), NO_FLOATS)
def test_what_is_no_float_is_refused_with_the_way_out(
    value: Any, dtype: str, cure: str, tmp_path: Path
) -> None:
    for tensors in ({"good": noise(1, 2), "b.x": value}, [("good", noise(1, 2)), ("b.x", value)]):
        error = refusal(dmexp.save_file, tensors, tmp_path / "x.dmexp")
        assert (error.code, error.tensor, error.dtype) == ("UNSUPPORTED_DTYPE", "b.x", dtype)
        assert isinstance(error, TypeError)
        assert "'b.x'" in error.message
        assert cure in error.message
        assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.ma.masked_array([1.0, 2.0]), ".filled(value)"),
        ([[1.0], [1.0, 2.0]], "cannot be made an array"),
    ],
)
def test_what_is_no_plain_array_is_refused(value: Any, words: str) -> None:
    error = refusal(dmexp.save, {"x": value})
    assert (error.code, error.argument) == ("INVALID_ARGUMENT", "tensors")
    assert words in error.message


@pytest.mark.parametrize(
    "tensors", [["ab"], [("a",)], [("a", 1.0, 2.0)], [1], "ab", np.zeros(3), [{"a": 1.0, "b": 2.0}]]
)
def test_an_iterable_of_something_else_is_refused(tensors: Any) -> None:
    error = refusal(dmexp.save, tensors)
    assert "expected a (name, array) pair" in error.message


def test_dims_that_no_reader_can_multiply_are_refused(tmp_path: Path) -> None:
    empty = np.empty((0, 2**61), "<f2")
    for tensors in ({"x": empty}, [("x", empty)]):
        error = refusal(dmexp.save_file, tensors, tmp_path / "x.dmexp", dtype="f16")
        assert "beyond 64 bits" in error.message
        assert left_in(tmp_path) == []


def test_more_values_than_a_file_can_count_are_refused(tmp_path: Path) -> None:
    # One value in memory, seen very often.
    arrays = {f"t{nth}": np.broadcast_to(f32(1.0), (2**60,)) for nth in range(8)}
    error = refusal(dmexp.save_file, arrays, tmp_path / "x.dmexp")
    assert f"have {2**63} values" in error.message
    assert left_in(tmp_path) == []


# 2^61 bytes as bf16, of one value in memory.
ENDLESS = {"x": np.broadcast_to(f32(1.0), (2**40, 2**20))}


def _never(done: int, total: int | None) -> None:
    raise AssertionError(f"{done} bytes were written")


def test_more_than_any_disk_holds_shows_before_the_work(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    probe.touch()
    _native.PayloadWriter(probe, "bf16", 0, 1).reserve(4096)
    if probe.stat().st_size != 4096:
        pytest.skip("this file system cannot set space aside, so it shows only in the end")
    probe.unlink()
    with pytest.raises(OSError, match=r"No space|too large|quota") as caught:
        dmexp.save_file(ENDLESS, tmp_path / "x.dmexp", progress=_never)
    assert caught.value.filename == str(tmp_path / "x.dmexp")
    assert left_in(tmp_path) == []


def test_more_than_any_memory_holds_shows_before_the_work() -> None:
    with pytest.raises(MemoryError):
        dmexp.save(ENDLESS, progress=_never)


@pytest.mark.parametrize("compat", [None, "dormouse"])
def test_a_header_that_no_file_can_have_is_refused(
    compat: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dmexp import _emit

    # Four gibibytes of names, in small.
    monkeypatch.setattr(_emit, "MAX_HEADER_BYTES", 5000)
    arrays = {f"{'n' * 100}.{nth}": noise(nth, 2) for nth in range(40)}
    for tensors in (arrays, arrays.items()):
        error = refusal(dmexp.save_file, tensors, tmp_path / "x.dmexp", compat=compat)
        assert error.code == "LIMIT_EXCEEDED"
        assert (error.limit, error.found > 5000) == (5000, True)
        assert left_in(tmp_path) == []
    few = dict(list(arrays.items())[:10])
    assert list(dmexp.load(dmexp.save(few, compat=compat))) == list(few)


# Values that are not finite ----------------------------------------------------------------

F16_EDGE, F32_EDGE = 65520.0, 3.4028236e38
BF16_EDGE = float(np.array(0x7F7F8000, "<u4").view("<f4"))


@pytest.mark.parametrize(
    ("value", "dtype", "suggestion"),
    [
        (F16_EDGE, "f16", "bf16"),
        (-1e30, "f16", "bf16"),
        (BF16_EDGE, "f16", "f32"),
        (BF16_EDGE, "bf16", "f32"),
        (float(np.finfo("f4").min), "bf16", "f32"),
        (1e300, "f32", None),
        (-1e300, "bf16", None),
        (1e300, "f16", None),
    ],
)
def test_a_value_beyond_the_dtype_is_refused(
    value: float, dtype: str, suggestion: str | None, tmp_path: Path
) -> None:
    array = np.zeros((2, 3))
    array[1, 2] = value
    array[1, 1] = 1.0
    error = refusal(dmexp.save_file, {"ok": noise(1, 9), "x": array}, tmp_path / "x", dtype=dtype)
    assert type(error) is dmexp.errors.ValueOverflowError
    assert (error.code, error.tensor, error.index) == ("NON_FINITE", "x", (1, 2))
    assert (error.value, error.dtype, error.suggestion) == (value, dtype, suggestion)
    for part in ("'x'", "[1, 2]", repr(value), dtype, suggestion or "rescale"):
        assert part in error.message
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("source", ["f4", "f8", "f2", "bf16"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_with_no_dtype_to_suggest(
    value: float, source: str, dtype: str, tmp_path: Path
) -> None:
    array = np.zeros(5, BF16 if source == "bf16" else source)
    array[3] = value
    error = refusal(dmexp.save_file, {"x": array}, tmp_path / "x.dmexp", dtype=dtype)
    assert type(error) is dmexp.errors.NonFiniteError
    assert (error.tensor, error.index, error.suggestion) == ("x", (3,), None)
    assert repr(error.value) == repr(value)
    assert "No dtype makes it finite" in error.message
    assert left_in(tmp_path) == []


def test_values_at_the_edge_are_kept() -> None:
    below = np.nextafter(np.float32(F16_EDGE), np.float32(0))
    assert dmexp.load(dmexp.save({"x": below}, dtype="f16"))["x"] == 65504.0
    below = np.nextafter(np.float32(BF16_EDGE), np.float32(0))
    assert bits(dmexp.load(dmexp.save({"x": below}), "stored")["x"]) == 0x7F7F
    largest = np.finfo("f4").max
    assert dmexp.load(dmexp.save({"x": largest}, dtype="f32"))["x"] == largest


def test_the_index_of_a_0d_tensor_is_empty() -> None:
    error = refusal(dmexp.save, {"x": np.float32("nan")})
    assert error.index == ()
    assert "index []" in error.message


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["mapping", "iterable"])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_the_first_bad_value_is_named_whatever_the_threads(
    threads: int, order: Any, kind: str, dtype: str
) -> None:
    # 24 MiB, many blocks; every block from the second bad one on is bad too.
    array = np.zeros((3, 2**21), "<f4", order=order)
    array[1, 2_000_001] = np.inf
    array[2, ::1000] = np.nan
    tensors: Mapping[str, Array] = {
        "small": noise(1, 5),
        "large": array,
        "last": f32(np.nan),
    }
    for _ in range(3):
        source = tensors if kind == "mapping" else tensors.items()
        error = refusal(dmexp.save, source, threads=threads, dtype=dtype)
        assert (error.tensor, error.index, error.value) == ("large", (1, 2_000_001), np.inf)


def test_the_first_bad_tensor_is_named() -> None:
    tensors = {f"t{n}": f32([0, np.nan if n >= 40 else 1]) for n in range(100)}
    for source in (tensors, tensors.items()):
        assert refusal(dmexp.save, source).tensor == "t40"
