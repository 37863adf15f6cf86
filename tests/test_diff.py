"""Two checkpoints compared, with differences of known size."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmexp._diff import BLOCK_VALUES, DiffReport, TensorDiff, diff
from dmexp.errors import InvalidArgumentError
from dmexp.loaders import open_source
from families_util import CHECKPOINTS
from hf_util import LLAMA, Arrays, corpus, llama, safetensors_bytes, sharded, single

BF16 = ml_dtypes.bfloat16


class Memory:
    """A source of arrays in memory."""

    def __init__(self, arrays: dict[str, Any], config: str = "") -> None:
        from dmexp.loaders import SourceInfo, TensorEntry

        self.info = SourceInfo(path=Path("memory"), kind="memory", config=config)
        self.arrays = {name: np.asarray(array) for name, array in arrays.items()}
        names = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
        self._entries = [
            TensorEntry(name, array.shape, names.get(array.dtype.name, array.dtype.name))
            for name, array in self.arrays.items()
        ]

    def entries(self) -> Any:
        return self._entries

    def read(self, name: str) -> np.ndarray[Any, Any]:
        return self.arrays[name]

    def close(self) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...


def one(a: Any, b: Any) -> TensorDiff:
    (found,) = diff(Memory({"w": a}), Memory({"w": b})).tensors
    return found


def compare(a: Path, b: Path, tolerance: float = 0.0) -> DiffReport:
    with open_source(a) as first, open_source(b) as second:
        return diff(first, second, tolerance)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_equals_itself(name: str) -> None:
    report = compare(corpus(name), corpus(name) / "model.safetensors")
    assert report.equal
    assert report.counts()["same"] == len(report.tensors)
    assert all(t.differing == 0 and t.max_abs == 0 for t in report.tensors)
    assert report.config_differences == []


def test_shards_equal_one_file(tmp_path: Path) -> None:
    assert compare(single(tmp_path / "a"), sharded(tmp_path / "b")).equal


def test_missing_extra_and_reshaped_are_told_apart(tmp_path: Path) -> None:
    other = llama()
    other["model.norm.weight"] = other["model.norm.weight"].reshape(4, 4)
    other["new.weight"] = other.pop("lm_head.weight")
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    a.write_bytes(safetensors_bytes(llama()))
    b.write_bytes(safetensors_bytes(other))
    report = compare(a, b, tolerance=1e30)
    by_name = {tensor.name: tensor for tensor in report.beyond}
    assert {name: tensor.status for name, tensor in by_name.items()} == {
        "lm_head.weight": "missing",
        "model.norm.weight": "reshaped",
        "new.weight": "extra",
    }
    assert by_name["model.norm.weight"].dims == ((16,), (4, 4))
    assert by_name["lm_head.weight"].dims == ((32, 16), None)
    assert by_name["new.weight"].dtype == (None, "f32")
    assert report.tensors[-1].name == "new.weight"
    assert not report.equal


def test_differences_of_known_size() -> None:
    a = np.float32([1, 2, -4, 0, 8])
    b = np.float32([1, 2.5, -3, 0, 8])
    found = one(a, b)
    assert (found.status, found.count, found.differing) == ("differs", 5, 2)
    assert found.max_abs == 1.0
    assert found.mean_abs == 1.5 / 5
    assert found.max_relative == 0.25
    # -4 and -3 are 2^22 steps apart, 2 and 2.5 are 2^21.
    assert found.max_ulps == 2**22


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16, np.float64])
def test_neighbours_are_one_ulp_apart_across_zero_too(dtype: Any) -> None:
    one_ = np.array([1.0, -1.0], dtype)
    up = np.nextafter(one_, np.array(2, dtype))
    assert one(one_, up).max_ulps == 1.0
    tiny = np.nextafter(np.array([0.0], dtype), np.array(1, dtype))
    assert one(tiny, -tiny).max_ulps == 2.0
    assert one(tiny, np.zeros(1, dtype)).max_ulps == 1.0


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_rounding_costs_at_most_half_an_ulp_of_the_narrower_dtype(dtype: Any) -> None:
    wide = np.random.default_rng(5).uniform(0.01, 9, 10_000).astype(np.float32)
    found = one(wide, wide.astype(dtype))
    assert 0.49 < found.max_ulps <= 0.5
    assert found.max_relative <= np.ldexp(1.0, -8 if dtype is BF16 else -11)
    swapped = one(wide.astype(dtype), wide)
    assert swapped.max_ulps == found.max_ulps


def test_ulps_of_subnormals_of_the_narrower_dtype() -> None:
    wide = np.float32([2.0**-24 * 1.5])
    assert one(wide, wide.astype(np.float16)).max_ulps == 0.5


def test_nan_equals_nan_and_nothing_else() -> None:
    quiet = np.uint32([0x7FC00000, 0xFFC00001]).view(np.float32)
    other = np.uint32([0x7F800001, 0x7FC00000]).view(np.float32)
    assert one(quiet, other).status == "same"
    found = one(np.float32([np.nan, 1, 2]), np.float32([0, 1, 3]))
    assert (found.differing, found.nan_mismatches, found.max_abs) == (2, 1, 1.0)
    assert found.mean_abs == 0.5
    assert not found.within(1e30)


def test_infinities() -> None:
    inf = np.float32([np.inf, -np.inf])
    assert one(inf, inf.copy()).status == "same"
    found = one(inf, -inf)
    assert (found.differing, found.max_abs, found.max_relative) == (2, math.inf, math.inf)
    assert (found.mean_abs, found.max_ulps) == (math.inf, math.inf)
    beside = one(np.float32([np.inf, 1]), np.float32([np.inf, 1.5]))
    assert (beside.differing, beside.max_abs, beside.mean_abs) == (1, 0.5, 0.25)
    assert not found.within(1e300)
    assert json.loads(json.dumps(found.as_dict()))["max_abs"] == "inf"


def test_zeros_of_unlike_sign_differ_unless_a_tolerance_is_given() -> None:
    found = one(np.float32([0.0, 1]), np.float32([-0.0, 1]))
    assert (found.status, found.differing, found.zero_signs) == ("differs", 0, 1)
    assert not found.within(0)
    assert found.within(1e-300)


def test_a_tolerance_is_absolute_and_inclusive() -> None:
    a, b = Memory({"w": np.float32([1])}), Memory({"w": np.float32([1.25])})
    assert diff(a, b, 0.25).equal
    assert not diff(a, b, 0.2499).equal
    assert not diff(a, b).equal


@pytest.mark.parametrize("tolerance", [-1.0, math.nan, math.inf])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(InvalidArgumentError):
        diff(Memory({}), Memory({}), tolerance)


def test_integers_are_compared_as_they_are() -> None:
    a = np.int64([2**60, 5])
    found = one(a, a + np.int64([1, 0]))
    assert (found.status, found.differing) == ("differs", 1)
    assert one(np.array([True, False]), np.array([True, True])).differing == 1


def test_scalars_and_empty_tensors() -> None:
    assert one(np.float32(1), np.float32(2)).max_abs == 1.0
    found = one(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    assert (found.status, found.count, found.mean_abs) == ("same", 0, 0.0)


@pytest.mark.parametrize("order", ["F", "strided", "reversed"])
def test_memory_order_does_not_matter(order: str) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    laid = {
        "F": np.asfortranarray(a),
        "strided": np.repeat(a, 2, axis=1)[:, ::2],
        "reversed": a[::-1].copy()[::-1],
    }[order]
    assert not (laid.flags.c_contiguous and order == "F")
    assert one(a, laid).status == "same"
    changed = laid.copy()
    changed[2, 1] += 1
    assert one(a, changed).differing == 1


def test_a_difference_in_the_last_block_is_found() -> None:
    a = np.zeros(2 * BLOCK_VALUES + 3, np.float32)
    b = a.copy()
    b[-1] = 2
    found = one(a, b)
    assert (found.differing, found.max_abs) == (1, 2.0)
    assert found.mean_abs == 2.0 / a.size


def test_memory_beside_the_arrays_is_bounded() -> None:
    a = np.ones(8 * BLOCK_VALUES, np.float32)
    b = a + np.float32(1)
    tracemalloc.start()
    try:
        one(a, b)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * 8 * BLOCK_VALUES


def test_configs_are_compared_by_key_and_do_not_decide(tmp_path: Path) -> None:
    changed = {**LLAMA, "hidden_act": "silu", "max_position_embeddings": 128}
    report = compare(single(tmp_path / "a"), single(tmp_path / "b", None, changed))
    assert report.equal
    assert report.config_differences == ["hidden_act", "max_position_embeddings"]


def test_p74_a_gguf_file_of_the_same_model_shows_no_difference_but_what_was_undone() -> None:
    report = compare(corpus("llama-gqa"), corpus("llama-gqa") / "llama-gqa.f32.gguf")
    assert report.equal
    assert report.counts()["same"] == len(report.tensors) == 21
    assert any("rotary-unpermute (4)" in notice for notice in report.notices)


def test_progress_ends_at_the_whole() -> None:
    seen: list[tuple[int, int | None]] = []
    arrays: Arrays = {"a": np.ones(BLOCK_VALUES + 1), "b": np.ones(2)}
    diff(Memory(arrays), Memory(arrays), progress=lambda done, total: seen.append((done, total)))
    total = BLOCK_VALUES + 3
    assert seen == [(BLOCK_VALUES + 1, total), (total, total)]


def test_the_report_is_plain_data(tmp_path: Path) -> None:
    report = compare(single(tmp_path / "a"), single(tmp_path / "b", llama(seed=4)))
    data = json.loads(json.dumps(report.as_dict()))
    assert data["equal"] is False
    assert data["counts"]["differs"] == 12
    assert data["tensors"][0]["name"] == "lm_head.weight"
    assert data["paths"] == [str(tmp_path / "a"), str(tmp_path / "b")]
