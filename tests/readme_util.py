"""Run the fenced blocks of a Markdown page, in order, in one place.

- ``console``: each line that starts with ``$ `` is a command; the lines up to the next one are its
  output, stdout and stderr together. ``...`` stands for any text.
- ``pycon``: a doctest; all of a page share their names.
- ``python``: run as it stands, in the same namespace.

Blocks of any other language are for reading only.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Every fenced block with a language, with the line on which its text starts."""
    return [
        Block(found[1], found[2], page.count("\n", 0, found.start(2)) + 1)
        for found in _FENCE.finditer(page)
    ]


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with its expected output."""
    pieces = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert pieces[0].strip() == "", f"line {block.line}: output before the first command"
    return [(line, output) for line, _, output in (piece.partition("\n") for piece in pieces[1:])]


def run_page(page: str, place: Path) -> int:
    """Run the page's blocks with ``place`` as the current directory; how many commands it was."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    here = Path.cwd()
    os.chdir(place)
    try:
        for block in blocks(page):
            if block.language == "console":
                for command, expected in commands(block):
                    _check(command, expected, block.line)
                    count += 1
            elif block.language == "pycon":
                count += _doctest(block, names)
            elif block.language == "python":
                exec(compile(block.text, f"line {block.line}", "exec"), names)
                count += 1
    finally:
        os.chdir(here)
    return count


def _check(command: str, expected: str, line: int) -> None:
    words = shlex.split(command)
    python = {"dmexp": [sys.executable, "-m", "dmexp"], "python": [sys.executable]}
    assert words[0] in python, f"line {line}: only dmexp and python can be run, not {words[0]}"
    done = subprocess.run(
        [*python[words[0]], *words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    if not doctest.OutputChecker().check_output(expected, done.stdout, _OPTIONS):
        raise AssertionError(
            f"line {line}: $ {command}\n--- the page says\n{expected}\n--- it printed\n{done.stdout}"
        )


def _doctest(block: Block, names: dict[str, Any]) -> int:
    test = doctest.DocTestParser().get_doctest(block.text, names, "page", None, block.line)
    runner = doctest.DocTestRunner(optionflags=_OPTIONS)
    report: list[str] = []
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)
    names.update(test.globs)
    return len(test.examples)
