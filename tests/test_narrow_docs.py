"""The examples in the docstrings, and that there are some."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

from dmexp import Crc32, crc32, crc32_combine, narrow, narrow_with_stats, widen


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
