"""The text of strings and numbers in a header, against the serializer that fixed it."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pytest
import tomli

from container_util import VECTORS
from dmexp._toml_text import float_text, string_text

TABLE: dict[str, Any] = json.loads((VECTORS / "toml_text.json").read_text("utf-8"))


def _float(pattern: int) -> float:
    return float(np.array(pattern, "<u4").view("<f4"))


@pytest.mark.parametrize(("text", "expected"), TABLE["strings"])
def test_a_string_is_printed_as_the_first_writer_prints_it(text: str, expected: str) -> None:
    assert string_text(text) == expected


@pytest.mark.parametrize(("pattern", "expected"), TABLE["floats"])
def test_a_float_is_printed_as_the_first_writer_prints_it(pattern: str, expected: str) -> None:
    assert float_text(_float(int(pattern, 16))) == expected


@pytest.mark.parametrize("text", [text for text, _ in TABLE["strings"]])
def test_a_string_reads_back(text: str) -> None:
    assert tomli.loads(f"x = {string_text(text)}\n") == {"x": text}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", '"plain"'),
        ("a\tb", '"a\\tb"'),
        ("C:\\x\\y", "'C:\\x\\y'"),
        ('say "hi"', "'say \"hi\"'"),
        ("\"'", '""""\'"""'),
        ("\\'", "'''\\''''"),
        ("a\n", '"""\na\n"""'),
        ("a\n\\", "'''\na\n\\'''"),
        ('a\n"""', "'''\na\n\"\"\"'''"),
        ("a\r", '"a\\r"'),
        ("a\r\n", '"""\na\\r\n"""'),
        ("\0", '"\\u0000"'),
        ("'''\\", "\"'''\\\\\""),
        ("'''\\\n", '"""\n\'\'\'\\\\\n"""'),
    ],
)
def test_each_form_is_taken_where_it_is_due(text: str, expected: str) -> None:
    assert string_text(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.001, "0.0010000000474974513"),
        (0.05, "0.05000000074505806"),
        (0.15, "0.15000000596046448"),
        (0.1, "0.10000000149011612"),
        (0.5, "0.5"),
        (65504.0, "65504.0"),
        (2.0**-24, "0.00000005960464477539063"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e38, "99999996802856920000000000000000000000.0"),
    ],
)
def test_floats_are_f32_in_the_digits_of_f64(value: float, expected: str) -> None:
    assert float_text(value) == expected


def _sample() -> list[float]:
    random = np.random.default_rng(11)
    patterns = random.integers(0, 2**32, 40_000, dtype=np.uint64).astype("<u4")
    subnormal = random.integers(0, 2**23, 2000, dtype=np.uint64).astype("<u4")
    powers = np.arange(255, dtype="<u4") << 23
    every = np.concatenate([patterns, subnormal, powers, powers + 1]).view("<f4")
    return [float(value) for value in every[np.isfinite(every)]]


def test_floats_have_the_fewest_digits_that_read_back() -> None:
    exact = Context(prec=800)
    for value in _sample():
        text = float_text(value)
        shortest = Decimal(repr(value))
        digits = len(shortest.as_tuple().digits)
        # Of two texts of that length that are equally near, the larger one.
        nearest = Decimal(value).quantize(shortest, ROUND_HALF_UP, exact)
        assert float(text) == value
        assert Decimal(text) == (nearest if float(nearest) == value else shortest)
        assert len(Decimal(text).normalize(exact).as_tuple().digits) <= digits
        assert "e" not in text
        assert "." in text


def test_no_float_is_longer_than_the_room_kept_for_it() -> None:
    from dmexp._emit import _WIDEST_FLOAT

    magnitudes = {abs(value) for value in _sample()} | {_float(1), _float(0x7F7FFFFF)}
    assert max(len(float_text(value)) for value in magnitudes) <= len(_WIDEST_FLOAT)
