"""Properties of narrowing and of the checksum that hold for any input."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from dmexp import Crc32, crc32, crc32_combine, narrow, narrow_with_stats, widen
from narrow_util import NUMPY, bits

Array = np.ndarray[Any, Any]

_SHAPES = st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
_SOURCES = st.sampled_from(["f32", "f64", "f16", "bf16"])
_TARGETS = st.sampled_from(["bf16", "f16", "f32"])


@st.composite
def _arrays(draw: st.DrawFn) -> Array:
    """Any bits, in any dtype, shape and layout."""
    dtype = NUMPY[draw(_SOURCES)]
    shape = draw(_SHAPES)
    count = int(np.prod(shape))
    raw = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    array = np.frombuffer(raw, dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    steps = draw(st.tuples(*[st.sampled_from([1, 1, -1, 2, -2])] * array.ndim))
    array = array[tuple(slice(None, None, step) for step in steps)] if steps else array
    if dtype != NUMPY["bf16"] and draw(st.booleans()):
        array = array.astype(dtype.newbyteorder(">"), order="K")
    return array


@given(_arrays(), _TARGETS)
def test_any_layout_equals_its_plain_copy(array: Array, target: str) -> None:
    plain = np.array(array, array.dtype.newbyteorder("="), order="C")
    result, stats = narrow_with_stats(array, target, overflow="inf")
    expected, expected_stats = narrow_with_stats(plain, target, overflow="inf")
    assert result.shape == array.shape
    assert bits(result) == bits(expected)
    assert stats == expected_stats


@given(_arrays(), _TARGETS)
def test_counts_add_up(array: Array, target: str) -> None:
    result, stats = narrow_with_stats(array, target, overflow="inf")
    assert stats.count == array.size
    with np.errstate(invalid="ignore"):
        wide = widen(result)
        assert stats.nan == np.count_nonzero(np.isnan(wide))
        assert stats.inf + stats.overflowed == np.count_nonzero(np.isinf(wide))
    assert (stats.max_abs == 0) == (stats.min_nonzero_abs == 0)
    assert stats.min_nonzero_abs <= stats.max_abs


@given(_arrays(), _TARGETS, st.data())
def test_pieces_equal_the_whole(array: Array, target: str, data: st.DataObject) -> None:
    flat = array.reshape(-1)
    cut = data.draw(st.integers(0, flat.size))
    whole = narrow(flat, target, overflow="inf")
    pieces = [narrow(part, target, overflow="inf") for part in (flat[:cut], flat[cut:])]
    assert bits(whole) == bits(pieces[0]) + bits(pieces[1])


@given(_arrays(), _TARGETS)
def test_narrowing_twice_is_narrowing_once(array: Array, target: str) -> None:
    once = narrow(array, target, overflow="inf")
    again, stats = narrow_with_stats(widen(once), target, overflow="inf")
    quiet = ~np.isnan(widen(once))
    assert np.array_equal(
        once.view(f"u{once.itemsize}")[quiet], again.view(f"u{once.itemsize}")[quiet]
    )
    assert (stats.flushed, stats.overflowed) == (0, 0)


@given(st.lists(st.binary(max_size=300)))
def test_checksum_of_pieces_equals_that_of_the_whole(pieces: list[bytes]) -> None:
    whole = zlib.crc32(b"".join(pieces))
    value, combined, crc = 0, 0, Crc32()
    for piece in pieces:
        value = crc32(piece, value)
        combined = crc32_combine(combined, crc32(piece), len(piece))
        crc.update(piece)
    assert value == combined == crc.value == whole
