"""Widening: every value of both narrow dtypes, every layout, bits with a dtype beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmexp import narrow, widen
from dmexp.errors import InvalidArgumentError, UnsupportedDtypeError
from narrow_util import BF16, NUMPY, bits, layouts

ALL = np.arange(0x10000, dtype=np.uint16)


def test_every_bf16_value_is_shifted() -> None:
    assert bits(widen(ALL.view(BF16))) == (ALL.astype(np.uint32) << 16).tolist()


def test_every_f16_value_equals_numpy_and_nans_are_quiet() -> None:
    halves = ALL.view(np.float16)
    wide = widen(halves)
    nan = np.isnan(halves)
    assert bits(wide[~nan]) == bits(halves[~nan].astype(np.float32))
    sign = (ALL[nan].astype(np.uint32) & 0x8000) << 16
    payload = (ALL[nan].astype(np.uint32) & 0x3FF) << 13
    assert bits(wide[nan]) == (sign | payload | 0x7FC00000).tolist()


def test_float32_is_copied_bit_for_bit() -> None:
    values = np.array([0x7F800001, 0xFFFFFFFF, 1, 0x80000000], np.uint32).view(np.float32)
    wide = widen(values)
    assert bits(wide) == bits(values)
    assert not np.shares_memory(wide, values)


@pytest.mark.parametrize("source", ["bf16", "f16", "f32"])
def test_every_layout_equals_its_contiguous_copy(source: str) -> None:
    values = np.random.default_rng(4).normal(size=(19, 23)).astype(NUMPY[source])
    expected = widen(values.copy())
    assert bits(expected) == bits(values.astype(np.float32))
    for name, array in layouts(values).items():
        wide = widen(array)
        assert type(wide) is np.ndarray, name
        assert wide.dtype == np.float32, name
        assert wide.shape == values.shape, name
        assert wide.flags.c_contiguous, name
        assert bits(wide) == bits(expected), name


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_uint16_bits_are_read_as_what_dtype_says(dtype: str) -> None:
    patterns = np.array([[0x3F80, 0xC000], [0x0001, 0x7C00]], np.uint16)
    expected = bits(widen(patterns.view(NUMPY[dtype])))
    for array in layouts(patterns).values():
        if array.dtype.isnative:
            assert bits(widen(array, dtype)) == expected
    assert bits(widen(patterns, NUMPY[dtype])) == expected


def test_big_endian_f16_bits_are_read_in_their_order() -> None:
    swapped = np.array([0x3C00, 0xC000], ">u2")
    assert widen(swapped, "f16").tolist() == [1, -2]


def test_a_dtype_that_the_array_has_anyway_may_be_named() -> None:
    assert widen(np.float16([1.5]), "half").tolist() == [1.5]
    assert widen(narrow(np.float32([1.5])), "bf16").tolist() == [1.5]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    for array in (np.ones(shape, BF16), np.ones(shape, ">f2")):
        wide = widen(array)
        assert isinstance(wide, np.ndarray)
        assert wide.shape == shape
        assert wide.tolist() == np.ones(shape).tolist()


@pytest.mark.parametrize("dtype", [None, "f32"])
def test_uint16_that_says_nothing_of_its_bits_is_refused(dtype: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Pass dtype='bf16' or dtype='f16'") as caught:
        widen(ALL, dtype)
    assert caught.value.argument == "dtype"


@pytest.mark.parametrize("array", [np.float16([1]), np.ones(1, BF16), np.float32([1])])
def test_a_dtype_that_contradicts_the_array_is_refused(array: Any) -> None:
    other = "f16" if array.dtype == BF16 else "bf16"
    with pytest.raises(InvalidArgumentError, match=f"dtype is '{other}', but the array is"):
        widen(array, other)


def test_float64_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnsupportedDtypeError, match=r"narrow\(array, 'f32'\)"):
        widen(np.float64([1]))
