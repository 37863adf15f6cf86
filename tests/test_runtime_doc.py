"""The page on the runtime runs as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmexp.runtime.config import FAMILIES
from dmexp.runtime.rope import SCALINGS
from readme_util import run_page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "runtime.md"


def test_the_examples_run_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert (tmp_path / "random.dmexp").exists()


def test_every_family_and_rotary_type_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in (*FAMILIES, *SCALINGS) if f"`{name}`" not in text]
    assert missing == []
