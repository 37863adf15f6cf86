"""`save_file` from arrays in memory: S7, and its part of S14."""

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
from board import Board
from race import Race

import dmexp
from dmexp import _native

WHAT = "200 tensors, 1GiB f32 to 512MiB bf16"
# Threads: times torch with safetensors, times that with counts and isal.
TARGETS = {1: (1.15, 2.3), 2: (1.6, 3.5)}


@pytest.fixture(scope="module")
def model(scale: int) -> dict[str, Any]:
    return data.model(max(data.MIB, data.GIB // scale))


@pytest.mark.parametrize("synced", [False, True], ids=["cached", "synced"])
@pytest.mark.parametrize("threads", TARGETS)
def test_save_file(
    race: Race, board: Board, disk: Path, model: dict[str, Any], threads: int, synced: bool
) -> None:
    tensors = (
        {name: peers.torch_of(array) for name, array in model.items()} if peers.torch else None
    )
    ours, theirs, counted = disk / "x.dmexp", disk / "x.safetensors", disk / "y.safetensors"
    report = dmexp.save_file(model, ours, threads=threads, sync=False)
    largest = max(array.size for array in model.values())
    by_hand = peers.Counted(largest, "bf16")
    looking = peers.Counted(largest, "bf16", looks_first=True)
    crc32, *found = files.counted_save(model, tensors, counted, by_hand)
    assert crc32 == report.crc32
    for count in ("flushed", "subnormal"):
        assert sum(row[count] for row in found) == getattr(report, count)
    assert dmexp.verify(ours).ok

    def clear(_: str) -> None:
        for path in (ours, theirs, counted):
            files.remove(path)
        if synced:
            # What others left to be written would be charged to whoever syncs next.
            os.sync()

    def peer(save: Any, path: Path) -> Any:
        def work() -> None:
            save(path)
            if synced:
                files.sync(path)

        return work

    def counting(by: peers.Counted) -> Any:
        return peer(lambda path: files.counted_save(model, tensors, path, by), counted)

    candidates = {"counted": counting(by_hand), "looking": counting(looking)}
    if tensors is not None:
        candidates["torch"] = peer(lambda path: files.torch_save(tensors, path), theirs)
    with files.threads(threads):
        times = race(
            lambda: dmexp.save_file(model, ours, threads=threads, sync=synced),
            before=clear,
            supplied=True,
            **candidates,
        )
    against_torch, against_counted = TARGETS[threads]
    how = f"{WHAT}, {threads} thread{'s' * (threads > 1)}, {'synced' if synced else 'not synced'}"
    if tensors is None:
        board.missing("S7", how, "no torch")
    else:
        board.at_least(
            "S7",
            how,
            times.speedup("torch"),
            against_torch,
            peer="torch + safetensors (no counts, no checksum)",
            seconds=times.medians(),
        )
    equal = f"{'torch' if tensors else 'ml_dtypes'} + hand-tuned counts + isal + safetensors"
    board.at_least(
        "S7", how, times.speedup("counted"), against_counted, peer=equal, seconds=times.medians()
    )
    board.at_least(
        "S7",
        how,
        times.speedup("looking"),
        None,
        peer=f"{equal}, counts left out where the extremes allow it",
        seconds=times.medians(),
    )


def test_more_threads(race: Race, board: Board, disk: Path, model: dict[str, Any]) -> None:
    one, two = disk / "one.dmexp", disk / "two.dmexp"
    dmexp.save_file(model, one, threads=1, sync=False)
    dmexp.save_file(model, two, threads=2, sync=False)
    assert one.read_bytes() == two.read_bytes()

    def clear(_: str) -> None:
        files.remove(one)
        files.remove(two)

    times = race(
        lambda: dmexp.save_file(model, two, threads=2, sync=False),
        before=clear,
        supplied=True,
        one_thread=lambda: dmexp.save_file(model, one, threads=1, sync=False),
    )
    board.at_least(
        "S14",
        f"save_file, {WHAT}, same bytes",
        times.speedup("one_thread"),
        1.5,
        peer="1 thread",
        seconds=times.medians(),
    )


def test_parts(race: Race, board: Board, disk: Path, model: dict[str, Any]) -> None:
    """The whole against its parts: narrowing into nothing, and writing what is there."""
    path, alone = disk / "x.dmexp", disk / "alone"
    pieces = [
        (place, array.reshape(-1).view("u1"), "f32") for place, array in enumerate(model.values())
    ]
    nbytes = sum(array.nbytes for array in model.values()) // 2

    def compute() -> int:
        writer = _native.PayloadWriter(os.devnull, "bf16", 0, 1)
        assert writer.write(pieces) is None
        return writer.crc32()

    assert compute() == dmexp.save_file(model, path, sync=False).crc32

    def clear(_: str) -> None:
        files.remove(path)
        files.remove(alone)

    times = race(
        lambda: dmexp.save_file(model, path, threads=1, sync=False),
        before=clear,
        supplied=True,
        compute=compute,
        write=lambda: files.write_alone(nbytes, alone),
    )
    parts = times.median("compute") + times.median("write")
    board.at_most(
        "S7",
        f"{WHAT}, 1 thread",
        times.median("ours") / parts,
        1.15,
        peer="computing alone + writing alone",
        seconds=times.medians(),
    )


MEMORY = """
import sys, threading, time
sys.path[:0] = sys.argv[3:]
import numpy as np, dmexp, data

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

model = data.model(int(sys.argv[1]))
dmexp.save(dict(list(model.items())[:2]))
peak, done = [0], threading.Event()

def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous())
        time.sleep(0.001)

thread = threading.Thread(target=watch)
before = anonymous()
thread.start()
dmexp.save_file(model, sys.argv[2], threads=2, sync=False)
done.set()
thread.join()
print(max(0, peak[0] - before))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_memory(board: Board, disk: Path, scale: int) -> None:
    path = disk / "x.dmexp"
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", MEMORY, str(max(data.MIB, data.GIB // scale)), str(path)]
    found = [
        int(subprocess.run([*command, here, *sys.path], check=True, capture_output=True).stdout)
        for _ in range(3)
    ]
    files.remove(path)
    board.at_most(
        "S7", f"{WHAT}, 2 threads, extra anonymous memory", max(found) / data.MIB, 8.0, unit="MiB"
    )
