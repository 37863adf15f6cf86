"""The page on GGUF runs as printed, and its tables hold."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from dmexp import errors
from dmexp.loaders.gguf import _header
from dmexp.loaders.gguf._types import QUANTIZED_TYPES
from readme_util import run_page

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "gguf.md").read_text(encoding="utf-8")
CORPUS = Path(__file__).parent / "corpus" / "gguf"


def test_the_tour_runs_as_printed(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "llama-gqa" / "llama-gqa.f32.gguf", tmp_path / "model.gguf")
    assert run_page(PAGE, tmp_path) > 10
    assert PAGE.count("```pycon") == 6


def test_every_code_exists() -> None:
    codes = {getattr(errors, name).code for name in errors.__all__}
    table = PAGE.partition("## What is refused")[2].partition("\n## ")[0]
    found = set(re.findall(r"\| `([A-Z_]+)` \|", table))
    assert len(found) == 12
    assert found <= codes


def test_the_limits_are_those_of_the_code() -> None:
    assert f"{_header.KEY_LIMIT:,} keys or {_header.TENSOR_LIMIT:,} tensors" in PAGE
    low, high = _header.ALIGNMENT_RANGE
    assert f"powers of two from {low} to {high}; {_header.DEFAULT_ALIGNMENT} where" in PAGE


def test_the_types_are_those_of_the_code() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| quantized tensors"))
    families = {"Q": "Q2_K to Q6_K", "I": "IQ1_S to IQ4_XS"}
    for name in QUANTIZED_TYPES:
        covered = name in row or (families[name[0]] in row if name[0] in families else False)
        assert covered, name
