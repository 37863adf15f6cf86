"""Save then load is identity, whatever the tensors, and the way there changes nothing."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import tomli
from hypothesis import given, settings
from hypothesis.extra import numpy as npst

import dmexp
from container_util import NUMPY, Array, assert_same_tensors, header_of
from dmexp._toml_text import float_text, string_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
DTYPES = st.sampled_from(["f32", "f16", "bf16"])
DIMS = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def stored_arrays(draw: st.DrawFn, dtype: str) -> Array:
    """Any finite values of a stored dtype, by their bits."""
    dims = draw(DIMS)
    width = NUMPY[dtype].itemsize
    patterns = draw(npst.arrays(f"<u{width}", dims))
    values: Array = np.array(patterns).view(NUMPY[dtype])
    values[~np.isfinite(values.astype("<f4"))] = 0
    return values


@st.composite
def models(draw: st.DrawFn) -> tuple[str, dict[str, Array]]:
    dtype = draw(DTYPES)
    return dtype, draw(st.dictionaries(NAMES, stored_arrays(dtype), max_size=6))


@given(models(), TEXT, st.integers(0, 2**63 - 1), st.sampled_from([None, "dormouse"]))
def test_save_then_load_is_identity(
    model: tuple[str, dict[str, Array]], source: str, step: int, compat: str | None
) -> None:
    dtype, arrays = model
    data = dmexp.save(arrays, dtype=dtype, source=source, step=step, compat=compat)
    assert_same_tensors(dmexp.load(data, "stored"), arrays)
    assert_same_tensors(
        dmexp.load(data), {name: array.astype("<f4") for name, array in arrays.items()}
    )
    header = header_of(data)
    assert (header.source, header.step, header.dtype) == (source, step, dtype)
    # What was read can be written again, to the same bytes.
    again = dmexp.load(data, "stored")
    assert dmexp.save(again.items(), dtype=dtype, source=source, step=step, compat=compat) == data


LEAVES = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.datetimes(),
    st.dates(),
    st.times(),
)
VALUES = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXT, below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_metadata_comes_back(metadata: dict[str, Any]) -> None:
    found = header_of(dmexp.save({"w": np.float32(1)}, metadata=metadata))
    assert found.metadata == metadata
    assert found.extra == {}
    assert len(found.index) == 1


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_a_config_mapping_comes_back(config: dict[str, Any]) -> None:
    data = dmexp.save({}, config={"not a family": config})
    assert header_of(data).config_dict == {"not a family": config}


@given(TEXT)
def test_any_text_reads_back_from_toml(text: str) -> None:
    assert tomli.loads(f"x = {string_text(text)}\n") == {"x": text}


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_any_f32_reads_back_from_its_text(value: float) -> None:
    text = float_text(value)
    assert np.float32(text).tobytes() == np.float32(value).tobytes()
    assert set(text) <= set("-.0123456789")


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 400_000), max_size=5),
    st.sampled_from(["<f4", "<f8", "<f2", ">f4"]),
    DTYPES,
    st.integers(1, 4),
)
def test_threads_and_kind_of_source_change_nothing(
    sizes: list[int], source: str, target: str, threads: int
) -> None:
    random = np.random.default_rng(sum(sizes))
    arrays = {
        f"t{nth}": random.standard_normal(size).astype(source) for nth, size in enumerate(sizes)
    }
    expected = dmexp.save(arrays, dtype=target, threads=1)
    assert dmexp.save(arrays, dtype=target, threads=threads) == expected
    assert dmexp.save(iter(arrays.items()), dtype=target, threads=threads) == expected
    assert_same_tensors(dmexp.load(expected, threads=threads), dmexp.load(expected, threads=1))
