"""The examples in the docstrings and in docs/narrowing.md, and that there are some."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from dmexp import Crc32, crc32, crc32_combine, narrow, narrow_with_stats, widen
from readme_util import blocks, run_page


@pytest.mark.parametrize(
    "item",
    [narrow, narrow_with_stats, widen, crc32, crc32_combine, Crc32],
    ids=lambda i: i.__name__,
)
def test_examples_hold(item: Any) -> None:
    test = doctest.DocTestParser().get_doctest(item.__doc__, {}, item.__name__, None, None)
    assert test.examples
    output: list[str] = []
    doctest.DocTestRunner().run(test, out=output.append)
    assert output == []


def test_the_page_on_narrowing_runs_as_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "narrowing.md").read_text(encoding="utf-8")
    assert sum(block.language == "pycon" for block in blocks(page)) >= 4
    run_page(page, tmp_path)
