"""How long it takes to start: S9."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import data
import pytest
from bench_export import COMMAND, run
from board import Board
from race import Race

import dmexp

IMPORTS = {
    "dmexp": "import dmexp",
    # The names come at their first use, so the whole library is loaded too.
    "dmexp with save_file and load_file": "import dmexp; dmexp.save_file, dmexp.load_file",
}


def test_info(race: Race, board: Board, disk: Path) -> None:
    path = disk / "small.dmexp"
    dmexp.save_file({"w": data.normal(1024)}, path)
    assert "dtype: bf16" in run(COMMAND, "info", path)
    times = race(lambda: run(COMMAND, "info", path), rounds=15, python=lambda: run("pass"))
    board.at_most(
        "S9",
        "dmexp info, 1 tensor 2KiB, whole process",
        times.median("ours") * 1e3,
        120.0,
        unit="ms",
    )
    board.at_most("S9", "of which Python itself", times.median("python") * 1e3, None, unit="ms")


@pytest.mark.parametrize("what", IMPORTS)
def test_import(race: Race, board: Board, what: str) -> None:
    assert subprocess.run([sys.executable, "-c", IMPORTS[what]], check=False).returncode == 0
    times = race(
        lambda: run(IMPORTS[what]), rounds=15, numpy=lambda: run("import numpy, ml_dtypes")
    )
    board.at_most(
        "S9",
        f"import {what}",
        times.share("numpy"),
        1.3,
        peer="import numpy, ml_dtypes",
        seconds=times.medians(),
    )
