"""The types that users see, and the stub against the binary."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SNIPPET = Path(__file__).with_name("typing_snippet.py")


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_strict_mypy_accepts_a_program_that_uses_every_public_name(tmp_path: Path) -> None:
    # From elsewhere and without the project's own settings, as at a user's desk.
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = true\ncache_dir = {tmp_path / 'cache'}\n")
    done = _run("-m", "mypy", "--config-file", str(config), str(SNIPPET), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_runs(tmp_path: Path) -> None:
    done = _run("-W", "error", str(SNIPPET), str(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "TRUNCATED"


def test_the_program_uses_every_public_name() -> None:
    import dmexp

    text = SNIPPET.read_text(encoding="utf-8")
    assert [
        name for name in dmexp.__all__ if f"dmexp.{name}" not in text and name != "errors"
    ] == []


def test_the_stub_is_the_binary(tmp_path: Path) -> None:
    done = _run("-m", "mypy.stubtest", "dmexp._native", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
