"""What reaches a terminal: no control characters, any encoding, plain layout."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dmexp.cli import _text
from dmexp.cli._range import range_note


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain name", "plain name"),
        ("Größe.日本", "Größe.日本"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("bell\x07", "bell\\x07"),
        ("del\x7f", "del\\x7f"),
        ("c1\x9b0m", "c1\\x9b0m"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("iso\u2066late\u2069", "iso\\u2066late\\u2069"),
        ("mark\u200f\u061c", "mark\\u200f\\u061c"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("line\u2028sep", "line\\u2028sep"),
        ("tag\U000e0041", "tag\\U000e0041"),
    ],
)
def test_control_and_bidi_characters_become_escapes(raw: str, shown: str) -> None:
    assert _text.printable(raw) == shown


def test_a_block_keeps_line_feeds_and_tabs_only() -> None:
    assert _text.printable_block("a = 1\r\n\tb\x1b[2J\rc") == "a = 1\n\tb\\x1b[2J\\rc"


def test_no_unsafe_character_survives() -> None:
    import unicodedata

    everything = "".join(
        map(chr, (*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE0100)))
    )
    left = {
        char
        for char in _text.printable(everything)
        if unicodedata.category(char) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(char)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    }
    assert left == set()


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB (1,024 bytes)"),
        (1310720, "1.25 MiB (1,310,720 bytes)"),
        (5 << 40, "5 TiB (5,497,558,138,880 bytes)"),
        (5000 << 40, "5000 TiB (5,497,558,138,880,000 bytes)"),
    ],
)
def test_sizes_are_exact_and_readable(count: int, shown: str) -> None:
    assert _text.bytes_text(count) == shown


def test_table_pads_to_the_widest_cell() -> None:
    text = _text.table(("name", "n"), [("a", "1"), ("long name", "1,000")], right="<>")
    assert text.splitlines() == ["name           n", "a              1", "long name  1,000"]


def test_json_is_ascii_and_takes_numpy_and_paths(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": "Größe\x1b", "n": np.int64(3), "x": np.float32(0.5), "path": Path("a")}
    _text.print_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert "\x1b" not in printed
    assert json.loads(printed) == {"name": "Größe\x1b", "n": 3, "x": 0.5, "path": "a"}


def test_json_never_holds_what_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    inf, nan = float("inf"), float("nan")
    _text.print_json({"a": inf, "b": [-inf, (nan, 1.5)], "c": np.float32("nan"), "d": None})
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))
    assert printed == {"a": "inf", "b": ["-inf", ["nan", 1.5]], "c": "nan", "d": None}


@pytest.mark.parametrize(
    ("dtype", "largest", "smallest", "words"),
    [
        ("bf16", 0.0, 0.0, ["every value is zero"]),
        ("bf16", 3.5, 0.25, ["f16 would hold", "3.5", "65504", "none is below 6.1e-5"]),
        ("bf16", 3.5, 1e-7, ["f16 would hold", "65504", "6.1e-5", "1e-07"]),
        ("bf16", 70000.0, 0.25, ["f16 cannot hold", "7e+04", "65504"]),
        ("f32", 70000.0, 0.25, ["f16 cannot hold", "65504", "bf16"]),
        ("f16", 3.5, 0.25, ["3.5", "65504", "none is below 6.1e-5"]),
        ("f16", 65504.0, 0.25, ["65504", "the most that f16 holds"]),
        ("f16", 3.5, 2.0**-24, ["subnormal", "6.1e-5"]),
        ("f16", 3.5, 2.0**-14, ["none is below 6.1e-5"]),
    ],
)
def test_range_note_compares_with_the_limits_of_f16(
    dtype: str, largest: float, smallest: float, words: list[str]
) -> None:
    note = range_note(dtype, largest, smallest)
    assert [word for word in words if word not in note] == []
