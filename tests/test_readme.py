"""The README's tour runs as printed, and the pages speak of things that exist."""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from readme_util import blocks, commands, run_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    return tmp_path


def test_the_tour_of_the_readme_runs_as_printed(place: Path) -> None:
    assert run_page((ROOT / "README.md").read_text(encoding="utf-8"), place) > 10


def test_a_tour_that_lies_is_found(place: Path) -> None:
    page = "```console\n$ dmexp --version\ndmexp 99.0\n```\n"
    with pytest.raises(AssertionError, match=r"99\.0"):
        run_page(page, place)
    with pytest.raises(AssertionError, match="Expected"):
        run_page("```pycon\n>>> 1 + 1\n3\n```\n", place)


def test_blocks_and_commands_are_told_apart() -> None:
    page = "text\n```console\n$ dmexp a\nout\n$ dmexp b\n```\n```sh\nrm x\n```\n"
    first, second = blocks(page)
    assert (first.language, first.line, second.language) == ("console", 3, "sh")
    assert commands(first) == [("dmexp a", "out\n"), ("dmexp b", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        if (file and not (page.parent / file).exists()) or (not file and anchor not in anchors):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


def test_the_file_by_eye_in_the_format_page_is_a_whole_file(tmp_path: Path) -> None:
    import dmexp

    page = (ROOT / "docs" / "format.md").read_text(encoding="utf-8")
    header = next(block.text for block in blocks(page) if block.language == "toml").encode()
    payload_text, prefix_text = (block.text for block in blocks(page) if block.language == "text")
    payload = _bytes(payload_text)
    prefix = _bytes(prefix_text)
    assert prefix == b"DMEXPRT\x01" + struct.pack(
        "<IQI", len(header), len(payload), zlib.crc32(payload)
    )
    path = tmp_path / "eye.dmexp"
    path.write_bytes(prefix + header + payload)
    assert dmexp.verify(path).ok
    tensors = dmexp.load_file(path)
    assert tensors["norm.weight"].tolist() == [[1, -2, 0.5], [0, 5.15625, 1.1059455573558807e-09]]
    assert tensors["loop_block.residual_scale"].tolist() == [1]
    again = tmp_path / "again.dmexp"
    dmexp.save_file(
        tensors,
        again,
        config="d_model = 768\n",
        source="checkpoints/latest.bin@step20",
        step=20,
        compat="dormouse",
    )
    assert again.read_bytes() == path.read_bytes()


def _bytes(text: str) -> bytes:
    """The pairs of hex digits at the start of each line."""
    lines = (re.match(r"(?:[0-9a-f]{2} {1,2})+", line) for line in text.splitlines())
    return b"".join(bytes.fromhex(line[0]) for line in lines if line)
