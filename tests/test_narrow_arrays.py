"""Narrowing of arrays of every layout, and where the result goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dmexp import narrow, narrow_with_stats, widen
from dmexp.errors import InvalidArgumentError
from narrow_util import BF16, NUMPY, bits, layouts

VALUES = (np.random.default_rng(2).normal(size=(37, 41)) * 0.02).astype(np.float32)


@pytest.mark.parametrize("target", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("source", ["f32", "f64", "f16", "bf16"])
def test_every_layout_equals_its_contiguous_copy(source: str, target: str) -> None:
    values = VALUES.astype(NUMPY[source])
    expected, expected_stats = narrow_with_stats(values.copy(), target)
    assert expected.dtype == NUMPY[target]
    for name, array in layouts(values).items():
        before = array.copy()
        result, stats = narrow_with_stats(array, target)
        assert type(result) is np.ndarray, name
        assert result.dtype == NUMPY[target], name
        assert result.shape == values.shape, name
        assert result.flags.c_contiguous, name
        assert bits(result) == bits(expected), name
        assert stats == expected_stats, name
        assert array.tobytes() == before.tobytes(), name


def test_narrowing_a_transposed_array_equals_transposing_the_narrowed() -> None:
    assert bits(narrow(VALUES.T)) == bits(narrow(VALUES).T)


def test_a_broadcast_array_is_narrowed_in_full_and_not_changed() -> None:
    row = np.float32([1, 2])
    result, stats = narrow_with_stats(np.broadcast_to(row, (4, 2)), "bf16")
    assert result.astype(np.float32).tolist() == [[1, 2]] * 4
    assert stats.count == 8
    assert row.tolist() == [1, 2]


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 0), (1, 1, 1), (2, 3, 4, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_shapes_are_kept(shape: tuple[int, ...], order: str) -> None:
    values = np.ones(shape, np.float32, order=order)  # type: ignore[call-overload]
    for array in (values, values.astype(">f4"), values.astype(BF16)):
        result, stats = narrow_with_stats(array, "f16")
        assert result.shape == shape
        assert isinstance(result, np.ndarray)
        assert stats.count == values.size
        assert widen(result).shape == shape
    out = np.zeros(shape, BF16)
    assert narrow(values, out=out) is out
    assert bits(out) == [0x3F80] * values.size


def test_64_dimensions() -> None:
    values = np.full((1,) * 64, 0.5, np.float32)
    assert narrow(values).shape == values.shape
    assert narrow(values[::-1]).shape == values.shape


def test_large_awkward_arrays_go_through_in_parts() -> None:
    # More than the few mebibytes that are copied at a time, along the first axis and not.
    wide = np.arange(3 * 700_001, dtype=np.float32).reshape(3, 700_001)
    for array in (wide[:, ::-1], wide.T, wide.astype(">f4"), wide[None, :, ::2]):
        result, stats = narrow_with_stats(array, "bf16")
        expected, expected_stats = narrow_with_stats(np.array(array, np.float32, order="C"), "bf16")
        assert np.array_equal(result.view(np.uint16), expected.view(np.uint16))
        assert stats == expected_stats


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "values.bin"
    VALUES.tofile(path)
    mapped = np.memmap(path, np.float32, mode="r", shape=VALUES.shape)
    assert bits(narrow(mapped)) == bits(narrow(VALUES))


def test_scalars_and_lists_are_what_numpy_makes_of_them() -> None:
    assert bits(narrow(1.5)) == [0x3FC0]
    assert narrow(1.5).shape == ()
    assert bits(narrow([1.0, -2.0])) == [0x3F80, 0xC000]
    assert bits(narrow(np.float32(0.5))) == [0x3F00]
    assert bits(narrow(BF16.type(0.5), "f16")) == [0x3800]


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [
        ("bf16", BF16),
        ("bfloat16", BF16),
        (BF16, BF16),
        (BF16.type, BF16),
        ("f16", np.dtype("f2")),
        ("float16", np.dtype("f2")),
        ("half", np.dtype("f2")),
        (np.float16, np.dtype("f2")),
        (np.dtype(">f2"), np.dtype("f2")),
        ("f32", np.dtype("f4")),
        ("FP32", np.dtype("f4")),
    ],
)
def test_spellings_of_the_dtype(spelling: object, dtype: np.dtype[np.generic]) -> None:
    assert narrow(np.float64([1]), spelling).dtype == dtype


# out


@pytest.mark.parametrize("target", ["bf16", "f16", "f32"])
def test_out_is_filled_and_returned(target: str) -> None:
    expected = narrow(VALUES, target)
    for array in (VALUES, VALUES.astype(np.float64), VALUES.T.copy().T, VALUES.astype(">f4")):
        out = np.zeros(VALUES.shape, NUMPY[target])
        result, stats = narrow_with_stats(array, target, out=out)
        assert result is out
        assert bits(out) == bits(expected)
        assert stats.count == VALUES.size


def test_out_may_be_misaligned_and_part_of_a_larger_array() -> None:
    raw = np.full(2 * VALUES.size + 3, 0x5A, np.uint8)
    out = raw[1:-2].view(BF16).reshape(VALUES.shape)
    narrow(VALUES, out=out)
    assert bits(out) == bits(narrow(VALUES))
    assert raw[0] == raw[-1] == raw[-2] == 0x5A


@pytest.mark.parametrize("start", [0, 1, 500, 1000, 1516])
def test_out_may_overlap_the_input(start: int) -> None:
    memory = np.zeros(2 * VALUES.size, np.float32)
    memory[: VALUES.size] = VALUES.ravel()
    source = memory[: VALUES.size]
    expected = bits(narrow(source))
    out = memory.view(BF16)[2 * start : 2 * start + VALUES.size]
    narrow(source, out=out)
    assert bits(out) == expected


def test_narrowing_in_place_to_the_same_dtype_counts() -> None:
    values = VALUES.astype(np.float16)
    expected = bits(values)
    result, stats = narrow_with_stats(values, "f16", out=values)
    assert result is values
    assert bits(values) == expected
    assert stats.count == values.size


def _read_only() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    array = np.zeros((2, 3), BF16)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (np.zeros((3, 2), BF16), "has shape (3, 2), expected (2, 3)"),
        (np.zeros(6, BF16), "has shape (6,), expected (2, 3)"),
        (np.zeros((2, 3), np.float16), "has dtype float16, expected bfloat16"),
        (np.zeros((2, 3), np.uint16), "has dtype uint16, expected bfloat16"),
        (np.zeros((3, 2), BF16).T, "is not C-contiguous"),
        (np.zeros((2, 6), BF16)[:, ::2], "is not C-contiguous"),
        (_read_only(), "is read-only"),
        (bytearray(12), "is a bytearray, expected an ndarray"),
    ],
)
def test_an_out_that_does_not_fit_is_refused_untouched(out: object, said: str) -> None:
    before = bytes(out) if isinstance(out, bytearray) else out.tobytes()  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError) as caught:
        narrow(np.ones((2, 3), np.float32), "bf16", out=out)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert caught.value.argument == "out"
    after = bytes(out) if isinstance(out, bytearray) else out.tobytes()  # type: ignore[attr-defined]
    assert after == before


def test_a_big_endian_out_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="has dtype >f2, expected float16"):
        narrow(np.ones(2, np.float32), "f16", out=np.zeros(2, ">f2"))
