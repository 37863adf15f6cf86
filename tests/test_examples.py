"""The reader in examples/ is independent, short, and gets every bit."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dmexp
from cli_util import GOOD, ROOT, TINY
from dmexp.cli import main

READER = ROOT / "examples" / "read_dmexp.py"
FILES = sorted(GOOD.glob("*.dmexp")) + sorted((GOOD.parent / "checkpoint").glob("*.dmexp"))


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("read_dmexp", READER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _same(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    assert list(left) == list(right)
    for name, values in left.items():
        assert values.shape == right[name].shape, name
        np.testing.assert_array_equal(values.view(np.uint32), right[name].view(np.uint32), name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_reads_the_corpus_as_dmexp_does(path: Path, reader: ModuleType) -> None:
    header, tensors = reader.read_dmexp(str(path))
    assert header["num_tensors"] == len(tensors)
    _same(tensors, dmexp.load_file(path))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_it_reads_what_dmexp_exports(dtype: str, tmp_path: Path, reader: ModuleType) -> None:
    out = tmp_path / "m.dmexp"
    assert main(["export", str(TINY), "-o", str(out), "--dtype", dtype, "--quiet"]) == 0
    header, tensors = reader.read_dmexp(str(out))
    assert header["dtype"] == dtype
    _same(tensors, dmexp.load_file(out))


def test_it_finds_damage(tmp_path: Path, reader: ModuleType) -> None:
    data = bytearray(FILES[0].read_bytes())
    data[-1] ^= 1
    path = tmp_path / "damaged.dmexp"
    path.write_bytes(data)
    with pytest.raises(SystemExit, match="checksum"):
        reader.read_dmexp(str(path))
    path.write_bytes(data[:-1])
    with pytest.raises(SystemExit, match="not a whole"):
        reader.read_dmexp(str(path))


def test_it_is_short_and_uses_numpy_and_the_standard_library_only() -> None:
    text = READER.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy"}


def test_the_example_model_is_small_and_is_what_its_config_says() -> None:
    config = json.loads((TINY.parent / "config.json").read_text(encoding="utf-8"))
    assert config["model_type"] == "llama"
    assert TINY.stat().st_size < 500_000
