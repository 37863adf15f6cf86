"""Run the command line: as a process where streams and statuses matter, else in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dmexp.cli import main

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "examples" / "tiny-llama" / "model.safetensors"
CORPUS = Path(__file__).resolve().parent / "corpus"
GOOD = CORPUS / "dmexp" / "good"
HOSTILE = CORPUS / "dmexp" / "hostile"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


def dmexp_process(
    *arguments: str | os.PathLike[str], cwd: Path | None = None, **variables: str
) -> Done:
    """A new process with both streams piped, as in a script."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "dmexp", *map(os.fspath, arguments)],
        capture_output=True,
        cwd=cwd,
        env=os.environ | variables,
        check=False,
        timeout=120,
    )
    encoding = variables.get("PYTHONIOENCODING", "utf-8")
    return Done(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))


def dmexp_call(capsys: pytest.CaptureFixture[str], *arguments: str | os.PathLike[str]) -> Done:
    """The same in this process, without the start-up."""
    capsys.readouterr()
    status = main([os.fspath(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Done(status, out, err)
