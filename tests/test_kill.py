"""`kill -9` at any moment of a save leaves the old target whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dmexp
from container_util import left_in, noise

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the system has no SIGKILL")

CHILD = """
import sys
import numpy as np, dmexp
target, kind, wait = sys.argv[1:]
values = np.random.default_rng(1).standard_normal(1 << 19).astype("f4")
arrays = {f"t{n}": values for n in range(16)}

def say(words):
    print(words, flush=True)
    if wait == "wait":
        sys.stdin.readline()

def pairs():
    for name, array in arrays.items():
        say(name)
        yield name, array

say("ready")
tensors = arrays if kind == "mapping" else pairs()
dmexp.save_file(tensors, target, dtype="bf16", progress=lambda done, total: say(done))
say("done")
"""

# A mapping is handed over in blocks of 32 MiB or more: its 32 MiB are said once.
LINES = {"iterable": 1 + 2 * 16, "mapping": 1 + 1}


def _killed_after(lines: int, target: Path, kind: str, wait: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, target, kind, wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for nth in range(lines):
            assert child.stdout.readline() != ""
            if wait == "wait" and nth < lines - 1:
                child.stdin.write("\n")
                child.stdin.flush()
        child.send_signal(signal.SIGKILL)
        # One that does not wait may be through already.
        assert child.wait(60) == -signal.SIGKILL or wait == "run"


def _assert_whole(target: Path) -> None:
    assert dmexp.verify(target).ok
    # A killed process cleans nothing up; what it leaves is never taken for a model.
    others = [name for name in left_in(target.parent) if name != target.name]
    assert all(name.startswith(".dmexp-") and name.endswith(".tmp") for name in others)
    assert len(others) <= 1
    for name in others:
        (target.parent / name).unlink()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.dmexp"
    dmexp.save_file({"old": noise(1, 100)}, path)
    return path


def test_a_save_killed_while_it_waits_between_blocks(target: Path) -> None:
    moments = random.Random(20).sample(range(2, LINES["iterable"] + 1), 5)
    old = target.read_bytes()
    for lines in moments:
        _killed_after(lines, target, "iterable", "wait")
        assert len(left_in(target.parent)) == 2
        assert target.read_bytes() == old
        _assert_whole(target)
    _killed_after(LINES["mapping"], target, "mapping", "wait")
    assert len(left_in(target.parent)) == 2
    assert target.read_bytes() == old
    _assert_whole(target)


def test_a_save_killed_while_it_runs(target: Path) -> None:
    moments = random.Random(21).sample(range(1, LINES["iterable"] - 4), 4)
    old = target.read_bytes()
    for lines in moments:
        _killed_after(lines, target, "iterable", "run")
        # The child did not wait for the signal, and may have put its own whole file there.
        if target.read_bytes() != old:
            assert dmexp.verify(target).num_tensors == 16
            target.write_bytes(old)
        _assert_whole(target)


def test_the_same_save_left_alone_replaces_the_target(target: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", CHILD, target, "iterable", "run"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert dmexp.verify(target).num_tensors == 16
    assert left_in(target.parent) == [target.name]
