"""``dmexp diff``: what is printed, and the exit status that scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dmexp
from cli_util import TINY, dmexp_call


def _file(path: Path, **arrays: np.ndarray) -> Path:
    dmexp.save_file(arrays, path, dtype="f32")
    return path


@pytest.fixture
def ones(tmp_path: Path) -> Path:
    return _file(tmp_path / "a.dmexp", w=np.ones(4, "f4"), b=np.zeros((2, 2), "f4"))


def test_a_checkpoint_and_its_f32_export_are_identical(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.dmexp"
    assert dmexp_call(capsys, "export", TINY, "-o", out, "--dtype", "f32").status == 0
    done = dmexp_call(capsys, "diff", TINY, out)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("result: identical: zero differences\n")
    assert f"a: {TINY} (safetensors file)" in done.out


def test_a_changed_value_is_placed_and_measured(
    tmp_path: Path, ones: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _file(tmp_path / "b.dmexp", w=np.float32([1, 1, 1.5, 1]), b=np.zeros((2, 2), "f4"))
    done = dmexp_call(capsys, "diff", ones, other)
    assert done.status == 1
    row = next(line for line in done.out.splitlines() if line.startswith("w "))
    assert row.split() == ["w", "differs", "0.5", "0.125", "0.333", "1", "of", "4", "4.19e+06"]
    assert "\nb " not in done.out
    assert done.out.endswith("result: 1 tensors differ\n")


def test_tolerance_decides_the_status(
    tmp_path: Path, ones: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _file(tmp_path / "b.dmexp", w=np.float32([1, 1, 1.5, 1]), b=np.zeros((2, 2), "f4"))
    assert dmexp_call(capsys, "diff", ones, other, "--tolerance", "0.4").status == 1
    done = dmexp_call(capsys, "diff", ones, other, "--tolerance", "0.5")
    assert done.status == 0
    assert done.out.endswith("result: equal within 0.5\n")


def test_missing_extra_and_reshaped_are_told_apart(
    tmp_path: Path, ones: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = _file(tmp_path / "b.dmexp", b=np.zeros(4, "f4"), new=np.zeros(1, "f4"))
    done = dmexp_call(capsys, "diff", ones, other, "--tolerance", "1e30")
    assert done.status == 1
    lines = done.out.splitlines()
    assert any(line.split() == ["w", "only", "in", "a", "[4]"] for line in lines)
    assert any(line.split() == ["new", "only", "in", "b", "[1]"] for line in lines)
    assert any(line.startswith("b ") and "reshaped [2, 2] and [4]" in line for line in lines)


def test_json_and_quiet(tmp_path: Path, ones: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = _file(tmp_path / "b.dmexp", w=np.ones(4, "f4"))
    done = dmexp_call(capsys, "diff", ones, other, "--json")
    document = json.loads(done.out)
    assert (done.status, document["equal"]) == (1, False)
    assert document["counts"]["missing"] == 1
    done = dmexp_call(capsys, "diff", ones, other, "--quiet")
    assert (done.status, done.out, done.err) == (1, "", "")


def test_all_lists_equal_tensors_too(ones: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "diff", ones, ones, "--all")
    assert done.status == 0
    assert any(line.startswith("w ") for line in done.out.splitlines())


@pytest.mark.parametrize("tolerance", ["-1", "nan", "inf", "x"])
def test_a_tolerance_that_is_none_is_a_usage_error(
    ones: Path, tolerance: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dmexp_call(capsys, "diff", ones, ones, f"--tolerance={tolerance}").status == 2
