"""What building costs: the time of a cold build, and the size of the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from board import Board

ROOT = Path(__file__).parent.parent


def test_cold_build(board: Board, disk: Path, smoke: bool) -> None:
    """Everything is compiled; the crates were downloaded before."""
    if smoke:
        pytest.skip("takes a minute")
    if shutil.which("cargo") is None:
        pytest.skip("no Rust here")
    command = [sys.executable, "-m", "maturin", "build", "--release", "--strip", "--quiet"]
    subprocess.run(["cargo", "fetch", "--locked", "--quiet"], cwd=ROOT, check=True)
    start = time.perf_counter()
    subprocess.run(
        [*command, "--out", disk],
        cwd=ROOT,
        check=True,
        env={**os.environ, "CARGO_TARGET_DIR": str(disk / "target")},
    )
    seconds = time.perf_counter() - start
    (wheel,) = disk.glob("*.whl")
    board.at_most("build", "cold build of the wheel", seconds, None, unit="s")
    board.at_most("build", "wheel", wheel.stat().st_size / 1e6, None, unit="MB", note=wheel.name)
