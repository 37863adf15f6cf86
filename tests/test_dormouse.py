"""Dormouse's training checkpoints: the original's bytes, and what stays behind is said."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli

import dmexp
from dmexp._export import export
from dmexp.errors import (
    ShapeMismatchError,
    TensorNotFoundError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedFormatError,
)
from dmexp.families.dormouse import expected
from dmexp.loaders import open_source
from dmexp.loaders.dormouse import open_dormouse
from dormouse_util import MODEL, arrays, burnpack, container, run, snapshot

CORPUS = Path(__file__).parent / "corpus" / "dmexp"


# The format's own vectors.


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_original_s_export_comes_out_byte_for_byte(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CORPUS)
    with open_source("checkpoint/latest.bin") as source:
        report = export(source, tmp_path / "out.dmexp", dtype=dtype, compat="dormouse")
    original = (CORPUS / "checkpoint" / f"latest.{dtype}.dmexp").read_bytes()
    assert (tmp_path / "out.dmexp").read_bytes() == original
    assert report.shapes.status == "yes"


def test_without_the_switch_the_same_tensors_carry_our_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CORPUS)
    with open_source("checkpoint/latest.bin") as source:
        export(source, tmp_path / "out.dmexp", dtype="f32")
    ours = dmexp.load_file(tmp_path / "out.dmexp")
    original = dmexp.load_file("checkpoint/latest.f32.dmexp")
    assert list(ours) == list(original)
    assert all(ours[name].tobytes() == original[name].tobytes() for name in original)
    with dmexp.safe_open(tmp_path / "out.dmexp") as file:
        assert file.header.writer is not None
        assert file.header.source == "checkpoint/latest.bin@step20"


def test_the_corpus_is_in_visit_order_and_its_config_describes_it() -> None:
    with open_dormouse(CORPUS / "checkpoint" / "latest.bin") as source:
        found = {entry.name: entry.dims for entry in source.entries()}
        table = expected(tomli.loads(source.info.config))
        assert list(found.items()) == list(table.items())
        assert source.info.step == 20
        assert source.info.config_origin == str(CORPUS / "checkpoint" / "latest.config.toml")


@pytest.mark.parametrize("call", [dmexp.load_file, dmexp.safe_open, dmexp.info, dmexp.verify])
def test_a_checkpoint_where_an_export_is_expected_gets_the_command_that_converts_it(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(CORPUS)
    with pytest.raises(UnsupportedFormatError, match="training checkpoint") as caught:
        call("checkpoint/latest.bin")
    assert "optimizer" in caught.value.message
    words = shlex.split(caught.value.command)
    assert words == ["dmexp", "export", "checkpoint/latest.bin"]
    from dmexp.cli import main

    assert main([*words[1:], "-o", str(tmp_path / "out.dmexp"), "--quiet"]) == 0
    assert dmexp.verify(tmp_path / "out.dmexp")


# Reading.


def test_tensors_come_in_the_order_of_their_data_and_in_place(tmp_path: Path) -> None:
    model = arrays()
    with open_dormouse(run(tmp_path, container(burnpack(model)), snapshot())) as source:
        assert [entry.name for entry in source.entries()] == ["z.first", "a.second", "m.third"]
        for name, array in model.items():
            found = source.read(name)
            assert found.tobytes() == array.tobytes()
            assert found.shape == array.shape
            assert not found.flags.owndata
            assert not found.flags.writeable


def test_every_dtype_is_named(tmp_path: Path) -> None:
    model = {
        "h": np.float16([1]),
        "d": np.float64([1]),
        "i": np.int64([1]),
        "b": np.array([True, False]),
    }
    with open_dormouse(run(tmp_path, container(burnpack(model)), snapshot())) as source:
        assert [entry.dtype for entry in source.entries()] == ["f16", "f64", "i64", "bool"]
        assert source.read("i").tolist() == [1]
        assert source.read("b").tolist() == [True, False]
        with pytest.raises(UnsupportedDtypeError, match="'i' \\(i64\\), 'b' \\(bool\\)"):
            export(source, tmp_path / "out.dmexp")


def test_the_label_is_the_path_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path, container(burnpack(arrays()), step=123), snapshot())
    monkeypatch.chdir(tmp_path)
    with open_dormouse("./latest.bin") as source:
        assert source.info.label == "./latest.bin@step123"
    with open_dormouse(path) as source:
        assert source.info.label == f"{path}@step123"


def test_the_save_before_uses_the_snapshot_of_its_run(tmp_path: Path) -> None:
    data = container(burnpack(arrays()))
    run(tmp_path, data, snapshot())
    with open_dormouse(run(tmp_path, data, name="latest.prev")) as source:
        assert source.info.config_origin == str(tmp_path / "latest.config.toml")


def test_arrays_outlive_the_source_and_a_shrunken_file_is_an_error(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot())
    source = open_dormouse(path)
    first = source.read("z.first")
    with pytest.raises(TensorNotFoundError):
        source.read("nothing")
    if os.name != "nt":
        os.truncate(path, 4096 if path.stat().st_size > 4096 else 300)
        with pytest.raises(TruncatedError):
            source.read("a.second")
    source.close()
    assert first.shape == (3, 4)


# What stays behind is said.


def test_a_memory_in_a_sidecar_is_said_and_recorded(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot(engram_rows=1))
    with open_dormouse(path) as source:
        (notice,) = source.info.notices
        assert "engram_rows = 1" in notice
        assert "latest.ngram" in notice
        assert source.info.metadata == {
            "dormouse": {"memory": "sidecar", "sidecar": "latest.ngram"}
        }


def test_the_record_of_the_sidecar_reaches_the_header(tmp_path: Path) -> None:
    table = expected(MODEL | {"engram_rows": 1})
    model = {name: np.full(dims, 0.5, np.float32) for name, dims in table.items()}
    path = run(tmp_path, container(burnpack(model)), snapshot(engram_rows=1))
    with open_source(path) as source:
        report = export(source, tmp_path / "out.dmexp")
    assert any("sidecar" in notice for notice in report.notices)
    with dmexp.safe_open(tmp_path / "out.dmexp") as file:
        assert file.metadata()["dormouse"]["memory"] == "sidecar"


@pytest.mark.parametrize("rows", [2, 10, 25000])
def test_a_memory_inside_is_not_worth_a_word(rows: int, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot(engram_rows=rows))
    with open_dormouse(path) as source:
        assert source.info.notices == []
        assert source.info.metadata == {}


def test_dropped_keys_a_teacher_and_a_latch_are_said(tmp_path: Path) -> None:
    data = container(burnpack(arrays()), teacher=b"t" * 9, flags=1)
    with open_dormouse(run(tmp_path, data, snapshot(my_key=5))) as source:
        assert "'my_key'" in source.info.notices[0]
        assert "teacher" in source.info.notices[1]
        assert source.info.metadata == {"dormouse": {"fp32_factors_latched": True}}


def test_damage_after_the_model_is_said_and_does_not_stop_the_export(tmp_path: Path) -> None:
    data = container(burnpack(arrays()), optimizer=b"o" * 500)[:-100]
    with open_dormouse(run(tmp_path, data, snapshot())) as source:
        assert "model section itself is whole" in source.info.notices[0]
        assert source.read("z.first").tobytes() == arrays()["z.first"].tobytes()


def test_halving_the_width_in_the_snapshot_is_refused_at_export(tmp_path: Path) -> None:
    table = expected(MODEL)
    model = {name: np.ones(dims, np.float32) for name, dims in table.items()}
    path = run(tmp_path, container(burnpack(model)), snapshot(d_model=4))
    with open_source(path) as source, pytest.raises(ShapeMismatchError, match=r"embedding\.weight"):
        export(source, tmp_path / "out.dmexp")
    assert not (tmp_path / "out.dmexp").exists()
