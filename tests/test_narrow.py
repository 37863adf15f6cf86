"""Narrowing, value by value: bits and counts."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest

from dmexp import narrow, narrow_with_stats, widen
from dmexp.errors import ValueOverflowError
from narrow_util import BF16, NUMPY, bits, edge_values, f32, round_fraction

# f32 bits, bf16 bits, f16 bits. The edges that docs/narrowing.md names.
TABLE = [
    (0x00000000, 0x0000, 0x0000),
    (0x80000000, 0x8000, 0x8000),  # -0.0 stays -0.0
    (0x3F800000, 0x3F80, 0x3C00),  # 1
    (0x3F828000, 0x3F82, 0x3C14),  # 1.01953125: a tie, down to even
    (0x3F838000, 0x3F84, 0x3C1C),  # the next tie, up to even
    (0x3F828001, 0x3F83, 0x3C14),  # just above a tie
    (0x7F7F7FFF, 0x7F7F, 0x7C00),  # the last that bf16 holds
    (0x7F7F8000, 0x7F80, 0x7C00),  # 3.396178e38: the first that it does not
    (0x7F7FFFFF, 0x7F80, 0x7C00),  # the largest f32
    (0xFF7FFFFF, 0xFF80, 0xFC00),
    (0x00008000, 0x0000, 0x0000),  # 2^-134: a tie, to zero
    (0x00008001, 0x0001, 0x0000),
    (0x80008001, 0x8001, 0x8000),
    (0x00800000, 0x0080, 0x0000),  # the smallest normal bf16
    (0x477FEFFF, 0x4780, 0x7BFF),  # 65519.996: f16 holds it as 65504
    (0x477FF000, 0x4780, 0x7C00),  # 65520: it does not
    (0x33000000, 0x3300, 0x0000),  # 2^-25: a tie, to zero
    (0x33000001, 0x3300, 0x0001),  # the next above it
    (0x38800000, 0x3880, 0x0400),  # the smallest normal f16
    (0x387FFFFF, 0x3880, 0x0400),
    (0x387FC000, 0x3880, 0x03FF),  # the largest subnormal f16
    (0x7F800000, 0x7F80, 0x7C00),
    (0xFF800000, 0xFF80, 0xFC00),
    # NaNs become quiet, keep the sign and lose the payload.
    (0x7FC00000, 0x7FC0, 0x7E00),
    (0xFFC00000, 0xFFC0, 0xFE00),
    (0x7F800001, 0x7FC0, 0x7E00),
    (0xFF800001, 0xFFC0, 0xFE00),
    (0x7FBFFFFF, 0x7FC0, 0x7E00),
    (0x7FFF7FFF, 0x7FC0, 0x7E00),
    (0x7FFF8000, 0x7FC0, 0x7E00),  # from here on plain rounding would wrap to -0
    (0x7FFFFFFF, 0x7FC0, 0x7E00),
    (0xFFFFFFFF, 0xFFC0, 0xFE00),
]


@pytest.mark.parametrize(("source", "bf16", "f16"), TABLE, ids=lambda value: f"{value:#x}")
def test_table_of_edges(source: int, bf16: int, f16: int) -> None:
    assert bits(narrow(f32(source), "bf16", overflow="inf")) == [bf16]
    assert bits(narrow(f32(source), "f16", overflow="inf")) == [f16]


def test_bf16_equals_ml_dtypes_on_every_upper_half_and_boundary_lower_half() -> None:
    values = edge_values()
    with warnings.catch_warnings(action="ignore"):
        expected = values.astype(BF16)
    assert bits(narrow(values, "bf16", overflow="inf")) == bits(expected)


def test_f16_equals_numpy_on_all_that_is_not_nan() -> None:
    values = edge_values()
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    assert bits(narrow(values, "f16", overflow="inf")) == bits(expected)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_f64_is_rounded_once(dtype: str) -> None:
    rng = np.random.default_rng(1)
    narrower = rng.integers(0, 2**64, 3000, np.uint64).view(np.float64)
    # Around the range of each target, and values a hair off the ties of f32 and the targets.
    around = rng.normal(size=3000) * 2.0 ** rng.integers(-160, 130, 3000)
    ties = np.ldexp(1 + rng.integers(0, 2**12, 3000) / 2**12, rng.integers(-150, 127, 3000))
    off = ties * (1 + rng.integers(-1, 2, 3000) * 2.0**-45)
    values = np.concatenate([narrower, around, ties, off])
    values = values[np.isfinite(values)]
    expected = [round_fraction(float(value), dtype) for value in values]
    assert bits(narrow(values, dtype, overflow="inf")) == expected


def test_f64_example_of_the_format() -> None:
    # By way of f32 it would be a tie and become 0x3f80.
    assert bits(narrow(np.float64([1 + 2**-8 + 2**-40]))) == [0x3F81]


@pytest.mark.parametrize("source", ["f16", "bf16"])
@pytest.mark.parametrize("target", ["f16", "bf16", "f32"])
def test_every_16_bit_value_to_every_dtype(source: str, target: str) -> None:
    values = np.arange(0x10000, dtype=np.uint16).view(NUMPY[source])
    wide = values.astype(np.float32)
    result, stats = narrow_with_stats(values, target, overflow="inf")
    if source == target:
        assert bits(result) == list(range(0x10000))
        return
    finite = ~np.isnan(wide)
    with np.errstate(all="ignore"):
        expected = wide.astype(NUMPY[target])
    assert np.array_equal(
        result.view(f"u{result.itemsize}")[finite], expected.view(f"u{result.itemsize}")[finite]
    )
    quiet = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000}[target]
    top = 1 << (8 * result.itemsize - 1)
    assert {*bits(result[~finite])} == {quiet, quiet | top}
    assert stats.nan == int((~finite).sum())
    assert stats.inf == 2


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_widened_and_narrowed_back_is_the_same(dtype: str) -> None:
    values = np.arange(0x10000, dtype=np.uint16).view(NUMPY[dtype])
    values = values[~np.isnan(widen(values))]
    assert len(values) > 63_000
    assert bits(narrow(widen(values), dtype)) == bits(values)


def test_a_copy_to_the_same_dtype_keeps_nan_payloads() -> None:
    patterns = np.array([0x7F81, 0xFFFF, 0x7FC1, 0x0001], np.uint16)
    result, stats = narrow_with_stats(patterns.view(BF16), "bf16")
    assert bits(result) == patterns.tolist()
    assert (stats.nan, stats.subnormal) == (3, 1)


# Counts.


def test_counts_of_a_handful() -> None:
    values = f32(
        0x00000000,  # zero: not flushed
        0x80000000,
        0x33000000,  # flushed
        0xB3000000,  # flushed to -0
        0x33000001,  # subnormal, the smallest
        0x387FC000,  # subnormal, the largest
        0x38800000,  # the smallest normal
        0x477FEFFF,  # 65504
        0x477FF000,  # overflows
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0xFFFFFFFF,
    )
    _, stats = narrow_with_stats(values, "f16", overflow="inf")
    assert stats._asdict() == {
        "count": 13,
        "flushed": 2,
        "subnormal": 2,
        "overflowed": 1,
        "nan": 2,
        "inf": 2,
        "max_abs": 65504.0,
        "min_nonzero_abs": 2.0**-24,
    }


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_counts_equal_numpy_on_edges(dtype: str) -> None:
    values = edge_values()
    result, stats = narrow_with_stats(values, dtype, overflow="inf")
    wide = np.abs(result.astype(np.float32))
    finite = wide[np.isfinite(wide)]
    nonzero = finite[finite > 0]
    smallest_normal = np.float32(ml_dtypes.finfo(NUMPY[dtype]).smallest_normal)
    assert stats.count == values.size
    assert stats.flushed == np.count_nonzero((wide == 0) & (values != 0))
    assert stats.subnormal == np.count_nonzero(nonzero < smallest_normal)
    assert stats.overflowed == np.count_nonzero(np.isinf(wide) & np.isfinite(values))
    assert stats.nan == np.count_nonzero(np.isnan(values))
    assert stats.inf == np.count_nonzero(np.isinf(values))
    assert stats.max_abs == float(finite.max())
    assert stats.min_nonzero_abs == float(nonzero.min())


@pytest.mark.parametrize("odd", [np.nan, np.inf, 0.0, -0.0, 1e-30, 1e-45, 65520.0, 1e38])
@pytest.mark.parametrize("position", [0, 1023, 1024, 5000])
def test_one_odd_value_among_ordinary_ones_is_counted(odd: float, position: int) -> None:
    values = np.full(5001, 0.25, np.float32)
    values[position] = odd
    result, stats = narrow_with_stats(values, "f16", overflow="inf")
    alone, of_one = narrow_with_stats(values[position : position + 1], "f16", overflow="inf")
    assert bits(result) == [*[0x3400] * position, *bits(alone), *[0x3400] * (5000 - position)]
    for name in ("flushed", "subnormal", "overflowed", "nan", "inf"):
        assert getattr(stats, name) == getattr(of_one, name)
    assert stats.max_abs == 0.25
    assert stats.min_nonzero_abs == 0.25


def test_non_finite_values_enter_neither_extreme() -> None:
    values = np.float32([np.inf, np.nan, -np.inf, 1e38, 0.0])
    _, stats = narrow_with_stats(values, "f16", overflow="inf")
    assert (stats.max_abs, stats.min_nonzero_abs) == (0.0, 0.0)


def test_nothing_is_counted_in_nothing() -> None:
    _, stats = narrow_with_stats(np.float32([]), "bf16")
    assert not any(stats._asdict().values())


def test_stats_compare_print_copy_and_refuse_assignment() -> None:
    import copy

    _, stats = narrow_with_stats(np.float32([0.5, 1.5, 0]), "bf16")
    again = type(stats)(count=3, max_abs=1.5, min_nonzero_abs=0.5)
    assert stats == again == copy.deepcopy(stats)
    assert hash(stats) == hash(again)
    assert stats != type(stats)(count=4, max_abs=1.5, min_nonzero_abs=0.5)
    assert repr(stats) == (
        "NarrowStats(count=3, flushed=0, subnormal=0, overflowed=0, nan=0, inf=0, "
        "max_abs=1.5, min_nonzero_abs=0.5)"
    )
    with pytest.raises(AttributeError):
        stats.count = 7  # type: ignore[misc]


# Overflow.


@pytest.mark.parametrize(
    ("value", "dtype", "suggestion"),
    [
        (65520.0, "f16", "bf16"),
        (-(2.0**100), "f16", "bf16"),
        (float(np.finfo(np.float32).min), "bf16", "f32"),
        (float(np.finfo(np.float32).max), "f16", "f32"),
    ],
)
def test_a_finite_value_that_would_become_infinite_is_refused(
    value: float, dtype: str, suggestion: str
) -> None:
    values = np.full((3, 700), 0.5, np.float32)
    values[0, 3] = np.nan  # not the culprit: it passes
    values[0, 4] = np.inf
    values[2, 5] = value
    with pytest.raises(ValueOverflowError) as caught:
        narrow(values, dtype)
    error = caught.value
    assert error.index == (2, 5)
    assert error.value == value
    assert error.dtype == dtype
    assert error.suggestion == suggestion
    assert error.code == "NON_FINITE"
    assert "[2, 5]" in str(error)
    assert f"Use dtype {suggestion!r}" in str(error)
    passed, stats = narrow_with_stats(values, dtype, overflow="inf")
    assert np.isinf(passed[2, 5])
    assert stats.overflowed == 1


def test_what_no_dtype_holds_gets_no_suggestion() -> None:
    with pytest.raises(ValueOverflowError, match=r"index \[\]: the value 1e\+300") as caught:
        narrow(np.float64(1e300))
    assert caught.value.suggestion is None
    assert "Use dtype" not in str(caught.value)


def test_65519_996_is_legal() -> None:
    assert narrow(f32(0x477FEFFF), "f16").tolist() == [65504.0]


@pytest.mark.parametrize("overflow", ["raise", "inf"])
def test_nan_and_infinity_of_the_input_pass(overflow: str) -> None:
    values = np.float32([np.nan, np.inf, -np.inf])
    assert bits(narrow(values, "bf16", overflow=overflow)) == [0x7FC0, 0x7F80, 0xFF80]


def test_out_holds_the_whole_result_when_a_value_overflows() -> None:
    out = np.zeros(3, np.float16)
    with pytest.raises(ValueOverflowError):
        narrow(np.float32([1, 1e6, 2]), "f16", out=out)
    assert out.tolist() == [1, np.inf, 2]


def test_no_numpy_warning_leaks() -> None:
    # Warnings are errors here; NumPy's own cast of these would warn of overflow.
    values = np.float64([1e300, 70000, np.nan, 1e-320])
    for source in (values, values.astype(">f8"), values[::-1]):
        narrow(source, "f16", overflow="inf")
        with pytest.raises(ValueOverflowError):
            narrow(source, "bf16")
    signalling = np.array([0x7F81, 0x7F7F], np.uint16).view(BF16)
    with pytest.raises(ValueOverflowError):
        narrow(signalling, "f16")
