"""What the command line does with streams that are closed, full or no files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dmexp
from cli_util import GOOD, TINY, dmexp_process

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams of a POSIX shell")

PLAIN = GOOD / "plain-bf16.dmexp"


def shell(line: str, *arguments: str | os.PathLike[str]) -> tuple[int, str]:
    """Status and stderr of a line in which ``dmexp`` is ``"$@"``."""
    words = [sys.executable, "-W", "error", "-m", "dmexp", *map(os.fspath, arguments)]
    done = subprocess.run(
        ["sh", "-c", line, "sh", *words], capture_output=True, check=False, timeout=120
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_closed_stdout_loses_the_output_and_nothing_else(more: list[str]) -> None:
    assert shell('"$@" >&-', "verify", PLAIN, *more) == (0, "")
    assert shell('"$@" >&- 2>&-', "verify", PLAIN, *more) == (0, "")
    assert shell('"$@" 2>&-', "verify", TINY, *more) == (1, "")


def test_a_file_that_is_written_while_stdout_is_closed_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "m.dmexp"
    assert shell('"$@" >&- 2>&-', "export", TINY, "-o", out)[0] == 0
    assert dmexp.verify(out)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.parametrize("file", [PLAIN, TINY])
def test_a_full_stdout_is_one_line_on_stderr(file: Path, more: list[str]) -> None:
    status, err = shell('"$@" >/dev/full', "info", file, *more)
    assert status == 1
    assert err.startswith("dmexp: ")
    assert err.count("\n") == 1
    assert ("No space left" in err) == (file == PLAIN)


@pytest.mark.parametrize("command", ["export", "diff"])
def test_a_pipe_is_refused_and_not_read(tmp_path: Path, command: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments: list[str | os.PathLike[str]] = (
        ["export", pipe] if command == "export" else ["diff", PLAIN, pipe]
    )
    done = dmexp_process(*arguments, "--json", cwd=tmp_path)
    assert done.status == 1
    error = json.loads(done.out)["error"]
    assert (error["code"], error["path"]) == ("UNSUPPORTED_FORMAT", str(pipe))
    assert "Save it to a file first" in error["message"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    for command, source in (("export", TINY), ("convert", PLAIN)):
        for name in ("none/m.dmexp", "none/hf"):
            done = dmexp_process(command, source, "-o", name, cwd=tmp_path)
            assert (done.status, done.out) == (1, "")
            assert done.err.splitlines()[-1] == (
                f"dmexp: {name}: the directory none does not exist; create it first"
            )
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are Unicode there")
def test_a_name_that_is_no_unicode_goes_in_and_out(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9.safetensors")
    source.write_bytes(TINY.read_bytes())
    out = tmp_path / os.fsdecode(b"\xff.dmexp")
    done = dmexp_process("export", source.name, "-o", out, cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert dmexp.info(out).source == "caf\N{REPLACEMENT CHARACTER}.safetensors"
