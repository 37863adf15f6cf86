"""The command `dmexp export` as a whole process: S8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import data
import files
import peers
import pytest
import safetensors.numpy
from board import Board
from race import Race

import dmexp

COMMAND = "import sys; from dmexp.cli import entry; sys.argv[0] = 'dmexp'; entry()"
TARGETS = {1: 1.6, 2: 2.4}

SCRIPT = """
import sys, time
import torch
from safetensors.torch import load_file, save_file
torch.set_num_threads(2)
start = time.perf_counter()
tensors = {name: tensor.to(torch.bfloat16) for name, tensor in load_file(sys.argv[1]).items()}
save_file(tensors, sys.argv[2])
print(time.perf_counter() - start)
"""


def run(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", *map(str, words)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return done.stdout


def export(source: Path, target: Path, threads: int) -> None:
    run(COMMAND, "export", source, "-o", target, "--threads", threads, "--quiet")


@pytest.mark.parametrize("threads", TARGETS)
def test_export(race: Race, board: Board, disk: Path, scale: int, threads: int) -> None:
    source = disk / "source.safetensors"
    ours, theirs = disk / "ours.dmexp", disk / "theirs.safetensors"
    model = data.model(max(data.MIB, data.GIB // scale))
    safetensors.numpy.save_file(model, source)
    export(source, ours, threads)
    found = dmexp.load_file(ours, "stored")
    assert all(
        found[name].tobytes() == array.astype(peers.BFLOAT16).tobytes()
        for name, array in model.items()
    )
    del found, model
    inside: list[float] = []
    candidates: dict[str, Any] = {}
    if peers.torch is not None:
        candidates["script"] = lambda: inside.append(float(run(SCRIPT, source, theirs)))

    def clear(_: str) -> None:
        files.remove(ours)
        files.remove(theirs)

    times = race(lambda: export(source, ours, threads), before=clear, supplied=True, **candidates)
    files.remove(source)
    clear("")
    what = f"cached 1GiB safetensors file, 200 tensors, {threads} thread{'s' * (threads > 1)}"
    if not inside:
        board.missing("S8", what, "no torch")
        return
    board.at_least(
        "S8",
        what,
        times.speedup("script"),
        TARGETS[threads],
        peer="script: load_file, torch .to on 2 threads, save_file; whole process",
        seconds=times.medians(),
    )
    inside.sort()
    work = inside[len(inside) // 2]
    board.at_least(
        "S8",
        what,
        work / times.median("ours"),
        None,
        peer="the same script without its start-up, ours with it",
        seconds={**times.medians(), "script_work": work},
    )


def test_small_model(race: Race, board: Board, disk: Path, smoke: bool) -> None:
    """A model of 9.2 million parameters against the rate of a large one, plus starting."""
    source, target = disk / "small.safetensors", disk / "small.dmexp"
    model = data.small_model()
    values = sum(array.size for array in model.values())
    assert len(model) == 54
    assert abs(values - 9.2e6) < 1e5
    safetensors.numpy.save_file(model, source)
    empty = disk / "empty.safetensors"
    safetensors.numpy.save_file({"w": model["norm.weight"]}, empty)
    export(source, target, 1)
    assert dmexp.verify(target).num_params == values
    large = data.model(data.MIB if smoke else data.GIB // 4)
    large_values = sum(array.size for array in large.values())

    def clear(_: str) -> None:
        for path in (target, disk / "large.dmexp", disk / "empty.dmexp"):
            files.remove(path)

    times = race(
        lambda: export(source, target, 1),
        before=clear,
        supplied=True,
        start=lambda: export(empty, disk / "empty.dmexp", 1),
        large=lambda: dmexp.save_file(large, disk / "large.dmexp", threads=1),
    )
    expected = times.median("start") + times.median("large") * values / large_values
    board.at_most(
        "S8",
        f"54 tensors, {values:,} values, 1 thread",
        times.median("ours") / expected,
        1.5,
        peer="export of one tiny tensor + the rate of save_file",
        seconds=times.medians(),
    )
