"""A null in `config.json`: no TOML says it, and leaving it out can change what a loader builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dmexp
from dmexp._convert import convert
from dmexp._export import export
from dmexp.loaders import open_source
from dmexp.loaders._nulls import null_places, put_back
from hf_util import LLAMA, llama, single

NULLS = {"sliding_window": None, "rope_scaling": None, "inner": {"a/b": None, "~": None, "c": 1}}
PLACES = ["/sliding_window", "/rope_scaling", "/inner/a~1b", "/inner/~0"]


def out_of(folder: Path, tmp_path: Path) -> Path:
    with open_source(folder) as source:
        export(source, tmp_path / "m.dmexp", dtype="f32", sync=False)
    return tmp_path / "m.dmexp"


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_nulls_come_out_again(tmp_path: Path, kind: str) -> None:
    folder = single(tmp_path / "m", llama(), LLAMA | NULLS)
    file = out_of(folder if kind == "directory" else folder / "model.safetensors", tmp_path)
    with dmexp.safe_open(file) as opened:
        assert opened.header.metadata["config_nulls"] == PLACES
        assert "sliding_window" not in opened.header.config
    convert(file, tmp_path / "again.dmexp", dtype="bf16")
    convert(tmp_path / "again.dmexp", tmp_path / "out", dtype="f32")
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert config == LLAMA | NULLS
    # A directory that was edited since says what it says now.
    (tmp_path / "out" / "config.json").write_text(json.dumps(LLAMA | {"x": None}), "utf-8")
    with open_source(tmp_path / "out") as source:
        assert source.info.metadata == {"config_nulls": ["/x"]}
    (tmp_path / "out" / "config.json").write_text(json.dumps(LLAMA), "utf-8")
    with open_source(tmp_path / "out") as source:
        assert source.info.metadata == {}


def test_a_config_without_nulls_adds_nothing(tmp_path: Path) -> None:
    with open_source(single(tmp_path / "m", llama(), LLAMA)) as source:
        assert source.info.metadata == {}


def test_places_are_pointers() -> None:
    assert null_places(NULLS) == PLACES
    assert null_places({"": None, "list": [{"a": None}, None]}) == ["/"]
    config: dict[str, Any] = {"inner": {"c": 1}}
    put_back(config, PLACES)
    assert config == NULLS


@pytest.mark.parametrize(
    "places",
    [None, 5, "/a", {"a": 1}, [1, None, [], ""], ["a", "/a", "/a/b", "/t/x/y", "/l/0", "//"]],
)
def test_what_a_header_holds_there_may_be_anything(places: Any) -> None:
    config: dict[str, Any] = {"a": 1, "t": {"x": "text"}, "l": [{}]}
    put_back(config, places)
    assert config == {"a": 1, "t": {"x": "text"}, "l": [{}]}
