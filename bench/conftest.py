"""One run of all benchmarks: the race, the board, and the table at the end."""

from __future__ import annotations

import functools
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402 - the directory is not a package

UNSET = machine.unpin()

import peers  # noqa: E402 - loads NumPy, which reads the variables that were unset
import supply as supply_  # noqa: E402
from board import SECTIONS, Board  # noqa: E402
from race import Race  # noqa: E402

BOARD = Board()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help="tiny sizes, one round, no verdict")
    parser.addoption("--results", type=Path, default=None, help="directory for the JSON")


@pytest.fixture(scope="session")
def smoke(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--smoke"))


@pytest.fixture(scope="session")
def supply() -> Callable[[], supply_.Supply | None]:
    """Prepared when first asked for."""
    return functools.cache(supply_.prepare)


@pytest.fixture
def race(benchmark: Any, smoke: bool, supply: Callable[[], supply_.Supply | None]) -> Race:
    return Race(benchmark, smoke, supply)


@pytest.fixture(scope="session")
def board() -> Board:
    return BOARD


@pytest.fixture(scope="session")
def scale(smoke: bool) -> int:
    """What sizes are divided by."""
    return 4096 if smoke else 1


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory on the disk that pytest was given; emptied at the end."""
    path = tmp_path_factory.mktemp("bench")
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def torch() -> Any:
    return peers.torch


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    write = terminalreporter.write_line
    smoke = bool(config.getoption("--smoke"))
    about = machine.describe()
    write("")
    write(f"{about['cpu']}, {about['cpus']} CPUs, {about['instruction_set']}, {about['system']}")
    write(", ".join(f"{name} {found}" for name, found in about["versions"].items()))
    if UNSET:
        write(f"unset in this process: {', '.join(UNSET)}")
    if peers.torch is None:
        write(f"rows that compare with torch were not measured: {peers.torch_fault}")
    write("")
    write(BOARD.table(verdicts=not smoke))
    never = [name for name in SECTIONS if not any(row.section == name for row in BOARD.rows)]
    if never:
        write(f"not run: {', '.join(never)}")
    results = config.getoption("--results")
    if results is not None and not smoke:
        path = results / f"{about['date']}-{machine.slug(about['cpu'])}.json"
        BOARD.write(path, about)
        _renew(HERE / "README.md", about)
        write(f"written to {path} and to the README beside it")


def _renew(readme: Path, about: dict[str, Any]) -> None:
    """Put the table of this run between the marks in the README."""
    versions = ", ".join(f"{name} {found}" for name, found in about["versions"].items())
    gibibytes = (about["memory_bytes"] or 0) / 2**30
    lines = [
        f"{about['date']}: {about['cpu']}, {about['cpus']} CPUs, {gibibytes:.0f} GiB of memory, "
        f"tier `{about['instruction_set']}`, {about['system']}, Python {about['python']}; {versions}.",
        "",
        BOARD.table(),
    ]
    marks = r"(<!-- latest run -->\n).*?(<!-- end -->)"
    body = "\n".join(lines) + "\n"
    text = readme.read_text("utf-8")
    readme.write_text(re.sub(marks, lambda m: m[1] + body + m[2], text, flags=re.DOTALL), "utf-8")
