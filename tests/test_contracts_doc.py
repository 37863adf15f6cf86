"""The page on contracts runs as printed, and its tables hold."""

from __future__ import annotations

import re
import shutil
from dataclasses import fields
from pathlib import Path

from dmexp import contracts, errors
from readme_util import run_page

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
CORPUS = Path(__file__).parent / "corpus" / "gguf"


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_page_runs_as_printed(tmp_path: Path) -> None:
    shutil.copy(CORPUS / "qwen35" / "qwen35.f32.gguf", tmp_path / "model.gguf")
    assert run_page(PAGE, tmp_path) > 25


def test_every_code_exists() -> None:
    codes = {getattr(errors, name).code for name in errors.__all__}
    found = set(re.findall(r"\| `([A-Z_]+)` \|", _section("What is refused")))
    assert len(found) == 4
    assert found <= codes


def test_the_table_of_refusals_is_complete() -> None:
    table = _section("What is refused").partition("| architecture | why |")[2]
    rows = [row.split(" | ")[0] for row in re.findall(r"^\| ([a-z].*) \|$", table, re.MULTILINE)]
    named = {name for row in rows for name in row.split(", ")}
    refused = {one.architecture for one in contracts.list() if not one.invertible and one.canonical}
    assert named == refused


def test_the_fields_are_those_of_the_record() -> None:
    rows = re.findall(r"^\| (`.*`) \| ", _section("What a contract records"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {one.name for one in fields(contracts.Contract)} - {"convention"}


def test_the_calls_exist() -> None:
    rows = re.findall(r"^\| (`\w+\(.*`) \| ", _section("From Python"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row)}
    assert len(named) == 10
    assert named <= set(contracts.__all__)


def test_the_example_of_an_architecture_uses_steps_that_exist() -> None:
    from dmexp.contracts._declare import declare

    example = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]
    assert len(declare("example", "Example", example).rules) == 7


def test_every_section_is_listed() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    listed = re.findall(r"^- \[(.*)\]\(#(.*)\)$", PAGE, re.MULTILINE)
    assert [title for title, _ in listed] == titles
    for title, anchor in listed:
        assert re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-") == anchor
