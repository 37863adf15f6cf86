"""From 1 MiB to 4 GiB: time by the byte, and peak memory: S13."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import data
import files
import pytest
from board import Board
from race import Race

import dmexp

SIZES = {"1MiB": 1, "4MiB": 4, "16MiB": 16, "64MiB": 64, "256MiB": 256, "1GiB": 1024, "4GiB": 4096}
FLAT_FROM = "64MiB"
TENSOR_BYTES = 8 << 20


def tensors(mebibytes: int, base: Any) -> dict[str, Any]:
    """A model of tensors of up to 8 MiB, over one piece of memory: the sizes differ, nothing else."""
    nbytes = mebibytes << 20
    count = max(1, nbytes // TENSOR_BYTES)
    each = base[: nbytes // count // 4]
    return {f"layers.{nth}.weight": each for nth in range(count)}


@pytest.fixture(scope="module")
def base() -> Any:
    return data.normal(TENSOR_BYTES // 4)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", ["save_file", "load_file", "verify"])
def test_time_by_the_byte(
    race: Race, board: Board, disk: Path, smoke: bool, base: Any, work: str, threads: int
) -> None:
    sizes = dict(list(SIZES.items())[:2]) if smoke else SIZES
    models = {size: tensors(mebibytes, base) for size, mebibytes in sizes.items()}
    paths = {size: disk / f"{size}.dmexp" for size in sizes}
    for size, path in paths.items():
        dmexp.save_file(models[size], path, threads=threads, sync=False)
    target = disk / "target.dmexp"

    def job(size: str) -> Any:
        if work == "save_file":
            return lambda: dmexp.save_file(models[size], target, threads=threads, sync=False)
        if work == "load_file":
            return lambda: dmexp.load_file(paths[size], "stored", threads=threads)
        return lambda: dmexp.verify(paths[size], threads=threads)

    assert dmexp.verify(paths["1MiB"]).num_params == 1 << 18
    candidates = {f"_{size}": job(size) for size in sizes if size != "1MiB"}
    times = race(
        job("1MiB"), before=lambda _: files.remove(target), supplied=True, warm=True, **candidates
    )
    seconds = {size: times.median("ours" if size == "1MiB" else f"_{size}") for size in sizes}
    by_mebibyte = {size: seconds[size] / sizes[size] for size in sizes}
    for path in (*paths.values(), target):
        files.remove(path)
    flat = list(sizes)[list(sizes).index(FLAT_FROM) if FLAT_FROM in sizes else 0 :]
    shown = ", ".join(f"{size} {by_mebibyte[size] * 1e6:.0f}" for size in sizes)
    board.at_most(
        "S13",
        f"{work}, slowest against fastest MiB from {FLAT_FROM} to 4GiB of f32, "
        f"{threads} thread{'s' * (threads > 1)}",
        max(by_mebibyte[size] for size in flat) / min(by_mebibyte[size] for size in flat),
        1.2,
        note=f"µs a MiB: {shown}",
        seconds=seconds,
    )


PEAK = """
import sys
sys.path[:0] = sys.argv[4:]
import numpy as np, dmexp, data, bench_growth
from pathlib import Path

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(sys.argv[3]))

base = data.normal(bench_growth.TENSOR_BYTES // 4)
dmexp.save(bench_growth.tensors(1, base))
model = bench_growth.tensors(int(sys.argv[1]), base)
Path("/proc/self/clear_refs").write_text("5")
before = anonymous()
dmexp.save_file(model, sys.argv[2], threads=2, sync=False)
assert dmexp.verify(sys.argv[2], threads=2).ok
print(anonymous() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_peak_memory(board: Board, disk: Path, smoke: bool) -> None:
    sizes = dict(list(SIZES.items())[:2]) if smoke else SIZES
    path = disk / "target.dmexp"
    found = {}
    for size, mebibytes in sizes.items():
        command = [sys.executable, "-c", PEAK, str(mebibytes), str(path), "VmHWM"]
        here = str(Path(__file__).parent)
        done = subprocess.run([*command, here, *sys.path], check=True, capture_output=True)
        found[size] = int(done.stdout) / data.MIB
        files.remove(path)
    shown = ", ".join(f"{size} {found[size]:.0f}" for size in sizes)
    flat = [found[size] for size in list(sizes)[-3:]]
    board.at_most(
        "S13",
        "save_file and verify, 2 threads: peak memory, pages of the file included, of the largest "
        "against the smallest from 256MiB to 4GiB",
        max(flat) - min(flat),
        8.0,
        unit="MiB",
        note=f"MiB: {shown}",
    )
