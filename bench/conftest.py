"""One file of benchmarks: the race, the board, and the table at the end."""

from __future__ import annotations

import functools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402 - the directory is not a package

machine.unpin()

import peers  # noqa: E402 - loads NumPy, which reads the variables that were unset
import supply as supply_  # noqa: E402
from board import Board  # noqa: E402
from race import Race  # noqa: E402

BOARD = Board()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help="tiny sizes, one round, no verdict")
    parser.addoption("--rows", type=Path, default=None, help="write the rows there, print none")


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


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    rows = config.getoption("--rows")
    if rows is not None:
        rows.write_text(json.dumps([asdict(row) for row in BOARD.rows]))
        return
    write = terminalreporter.write_line
    write("")
    write(machine.summary(machine.describe()))
    if peers.torch is None:
        write(f"rows that compare with torch were not measured: {peers.torch_fault}")
    write("")
    write(BOARD.table(verdicts=not config.getoption("--smoke")))
