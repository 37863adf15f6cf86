"""Narrow all 2^32 float32 values to bf16 and f16 on every instruction set of this CPU.

bf16 is compared with ml_dtypes bit for bit. f16 is compared with NumPy bit for bit on all that is
not a NaN; a NaN must become the quiet one of its sign. The counts of every 2^24 values are compared
with counts taken from the reference. Run by ``make exhaustive``; NumPy's float16 takes most of the
time, some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

RUN = 1 << 24
"""Values narrowed at a time: an output that is large enough for streaming stores."""

# NumPy type, bits of infinity, bits of the smallest normal, the quiet NaN.
TARGETS = {
    "bf16": (np.dtype(ml_dtypes.bfloat16), 0x7F80, 0x0080, 0x7FC0),
    "f16": (np.dtype(np.float16), 0x7C00, 0x0400, 0x7E00),
}


def expected(patterns: Array, dtype: str) -> Array:
    """The bits that another library gives."""
    numpy_dtype, _, _, quiet = TARGETS[dtype]
    with warnings.catch_warnings(action="ignore"):
        bits: Array = patterns.view(np.float32).astype(numpy_dtype).view(np.uint16)
    nan = (patterns & 0x7FFFFFFF) > 0x7F800000
    if dtype == "f16" and nan.any():
        bits = np.where(nan, (patterns >> 16 & 0x8000) | quiet, bits).astype(np.uint16)
    return bits


def counts(reference: Array, first: int, dtype: str) -> dict[str, float]:
    """What the statistics must be, from the reference's bits and the patterns' arithmetic."""
    numpy_dtype, infinity, min_normal, _ = TARGETS[dtype]
    histogram = np.bincount(reference, minlength=1 << 16).reshape(2, 1 << 15).sum(axis=0)
    # The RUN patterns from `first` on have one sign. How many are zero, infinite, NaN?
    low = first & 0x7FFFFFFF
    zeros = int(low == 0)
    infinities = int(low <= 0x7F800000 < low + RUN)
    nans = max(0, low + RUN - max(low, 0x7F800001))
    magnitudes = np.arange(1 << 15, dtype=np.uint16).view(numpy_dtype)
    finite = np.flatnonzero(histogram[:infinity])
    nonzero = finite[finite > 0]
    return {
        "count": RUN,
        "flushed": int(histogram[0]) - zeros,
        "subnormal": int(histogram[1:min_normal].sum()),
        "overflowed": int(histogram[infinity]) - infinities,
        "nan": nans,
        "inf": infinities,
        "max_abs": float(magnitudes[finite[-1]]) if finite.size else 0.0,
        "min_nonzero_abs": float(magnitudes[nonzero[0]]) if nonzero.size else 0.0,
    }


def work(shared: str) -> None:
    """Narrow the runs named on stdin; say for each how the result differs from the shared one."""
    from dmexp import narrow_with_stats

    memory = SharedMemory(shared, track=False) if sys.version_info >= (3, 13) else _attach(shared)
    reference = np.ndarray(RUN, np.uint16, memory.buf)
    outs = {dtype: np.empty(RUN, target[0]) for dtype, target in TARGETS.items()}
    for line in sys.stdin:
        dtype, first = json.loads(line)
        values = np.arange(first, first + RUN, dtype=np.uint32).view(np.float32)
        result, stats = narrow_with_stats(values, dtype, out=outs[dtype], overflow="inf")
        different = np.flatnonzero(result.view(np.uint16) != reference)
        example = None
        if different.size:
            at = int(different[0])
            example = [first + at, int(result.view(np.uint16)[at]), int(reference[at])]
        print(json.dumps([int(different.size), example, stats._asdict()]), flush=True)
    del reference
    memory.close()


def _attach(name: str) -> SharedMemory:
    # Before 3.13 every process that attaches wants to remove the memory at its end.
    from multiprocessing import resource_tracker

    memory = SharedMemory(name)
    resource_tracker.unregister(memory._name, "shared_memory")  # type: ignore[attr-defined]
    return memory


class Worker:
    """A process on one instruction set, and what was found of it."""

    def __init__(self, tier: str, shared: str) -> None:
        self.tier = tier
        self.mismatches = self.wrong_counts = 0
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", shared],
            env={**os.environ, "DMEXP_CPU": tier},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def check(self, dtype: str, first: int, wanted: dict[str, float]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([dtype, first]), file=self.process.stdin, flush=True)
        different, example, stats = json.loads(self.process.stdout.readline())
        self.mismatches += different
        if example is not None:
            source, found, reference = example
            print(
                f"{self.tier} {dtype}: {source:#010x} became {found:#06x}, "
                f"expected {reference:#06x}"
            )
        if stats != wanted:
            self.wrong_counts += 1
            print(f"{self.tier} {dtype}: from {first:#010x} on {stats}, expected {wanted}")


def sweep(workers: list[Worker], reference: Array, dtype: str) -> None:
    """Compare all values of one dtype, and print what was found."""
    began = time.monotonic()
    totals = dict.fromkeys(("flushed", "subnormal", "overflowed", "nan", "inf"), 0)
    before = [(worker.mismatches, worker.wrong_counts) for worker in workers]
    threads = os.cpu_count() or 1
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, 1 << 32, RUN):
            patterns = np.arange(first, first + RUN, dtype=np.uint32)
            parts = pool.map(lambda part: expected(part, dtype), np.split(patterns, 4 * threads))
            np.concatenate(list(parts), out=reference)
            wanted = counts(reference, first, dtype)
            for worker in workers:
                worker.check(dtype, first, wanted)
            for name in totals:
                totals[name] += int(wanted[name])
    for worker, (mismatches, wrong_counts) in zip(workers, before, strict=True):
        print(
            f"{worker.tier:8} {dtype:4}: {1 << 32:,} values, "
            f"{worker.mismatches - mismatches:,} mismatches; counts of {(1 << 32) // RUN} runs, "
            f"{worker.wrong_counts - wrong_counts} wrong"
        )
    seen = ", ".join(f"{name} {total:,}" for name, total in totals.items())
    print(f"{dtype} in total: {seen} ({time.monotonic() - began:.0f} s)", flush=True)


def main() -> int:
    """Sweep with one process for each instruction set."""
    from dmexp._native import cpu_tiers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--tier", action="append", help="only this one (may be repeated)")
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return 0
    print(f"ml_dtypes {ml_dtypes.__version__}, NumPy {np.__version__}", flush=True)
    memory = SharedMemory(create=True, size=2 * RUN)
    reference = np.ndarray(RUN, np.uint16, memory.buf)
    workers = [Worker(tier, memory.name) for tier in arguments.tier or cpu_tiers()[1]]
    try:
        for dtype in TARGETS:
            sweep(workers, reference, dtype)
    finally:
        for worker in workers:
            worker.process.communicate()
        del reference
        memory.close()
        memory.unlink()
    failed = [w.tier for w in workers if w.mismatches or w.wrong_counts or w.process.returncode]
    print(f"FAILED on {', '.join(failed)}" if failed else "all equal on every tier")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
