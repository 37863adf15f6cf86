"""``dmexp convert``: both ways out, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dmexp
from cli_util import TINY, dmexp_call


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from dmexp.cli import main

    path = tmp_path_factory.mktemp("convert") / "m.f32.dmexp"
    assert main(["export", str(TINY), "-o", str(path), "--dtype", "f32", "--quiet"]) == 0
    return path


def test_another_dtype_is_the_same_as_exporting_to_it(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.f16.dmexp"
    done = dmexp_call(capsys, "convert", exported, "-o", out, "--dtype", "half")
    assert done.status == 0
    lines = dict(line.split(": ", 1) for line in done.out.splitlines())
    assert lines["wrote"] == str(out)
    assert lines["dtype"] == "f16, from f32"
    assert lines["read it back with"] == f"dmexp info {out}"
    assert done.err.startswith("note: ")
    direct = tmp_path / "direct.dmexp"
    assert dmexp_call(capsys, "export", TINY, "-o", direct, "--dtype", "f16").status == 0
    want = dmexp.load_file(direct, dtype="stored")
    for name, values in dmexp.load_file(out, dtype="stored").items():
        np.testing.assert_array_equal(values.view("u2"), want[name].view("u2"))


def test_a_directory_that_diff_calls_identical(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "hf"
    done = dmexp_call(capsys, "convert", exported, "-o", out)
    assert done.status == 0
    assert "config.json" in done.out
    assert {"config.json", "model.safetensors"} <= {path.name for path in out.iterdir()}
    assert dmexp_call(capsys, "diff", out / "model.safetensors", TINY).status == 0


def test_shards_and_json(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "hf"
    done = dmexp_call(capsys, "convert", exported, "-o", out, "--shard-size", "100kB", "--json")
    document = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert sum(name.endswith(".safetensors") for name in document["files"]) >= 3
    assert document["changed"] == 0


def test_out_is_kept_without_force(
    exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.dmexp"
    out.write_text("mine")
    done = dmexp_call(capsys, "convert", exported, "-o", out)
    assert done.status == 1
    assert "--force" in done.err
    assert out.read_text() == "mine"
    assert dmexp_call(capsys, "convert", exported, "-o", out, "--force", "--quiet").status == 0
    assert dmexp.verify(out).ok


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-o", "x", "--dtype", "f8"],
        ["-o", "x", "--shard-size", "0"],
        ["-o", "x", "--shard-size", "many"],
    ],
)
def test_usage_errors(
    exported: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dmexp_call(capsys, "convert", exported, *arguments).status == 2
