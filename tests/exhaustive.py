"""Narrow all 2^32 float32 values to bf16 and f16 on every instruction set of this CPU.

bf16 is compared with ml_dtypes bit for bit. f16 is compared with NumPy bit for bit on all that is
not a NaN; a NaN must become the quiet one of its sign. The counts of every 2^24 values are compared
with counts taken from the reference. Run by ``make exhaustive``; takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

CHUNK = 1 << 24
# NumPy type, bits of infinity, bits of the smallest normal, the quiet NaN.
TARGETS = {
    "bf16": (np.dtype(ml_dtypes.bfloat16), 0x7F80, 0x0080, 0x7FC0),
    "f16": (np.dtype(np.float16), 0x7C00, 0x0400, 0x7E00),
}


def expected(values: Array, patterns: Array, dtype: str) -> Array:
    """The bits that another library gives."""
    numpy_dtype, _, _, quiet = TARGETS[dtype]
    with warnings.catch_warnings(action="ignore"):
        bits: Array = values.astype(numpy_dtype).view(np.uint16)
    if dtype == "f16":
        nan = (patterns & 0x7FFFFFFF) > 0x7F800000
        if nan.any():
            bits = np.where(nan, (patterns >> 16 & 0x8000) | quiet, bits).astype(np.uint16)
    return bits


def counts(results: Array, first: int, dtype: str) -> dict[str, float]:
    """What the statistics must be, from the reference's bits and the patterns' arithmetic."""
    numpy_dtype, infinity, min_normal, _ = TARGETS[dtype]
    histogram = np.bincount(results, minlength=1 << 16).reshape(2, 1 << 15).sum(axis=0)
    # CHUNK patterns from `first` on have one sign: count those that are zero, infinite, NaN.
    low = first & 0x7FFFFFFF
    zeros = int(low == 0)
    infinities = int(low <= 0x7F800000 < low + CHUNK)
    nans = max(0, low + CHUNK - max(low, 0x7F800001))
    magnitudes = np.arange(1 << 15, dtype=np.uint16).view(numpy_dtype)
    finite = np.flatnonzero(histogram[:infinity])
    nonzero = finite[finite > 0]
    return {
        "count": CHUNK,
        "flushed": int(histogram[0]) - zeros,
        "subnormal": int(histogram[1:min_normal].sum()),
        "overflowed": int(histogram[infinity]) - infinities,
        "nan": nans,
        "inf": infinities,
        "max_abs": float(magnitudes[finite[-1]]) if finite.size else 0.0,
        "min_nonzero_abs": float(magnitudes[nonzero[0]]) if nonzero.size else 0.0,
    }


def sweep() -> int:
    """Compare everything in this process, on the instruction set that DMEXP_CPU names."""
    from dmexp import narrow_with_stats
    from dmexp._native import cpu_tiers

    tier, _ = cpu_tiers()
    failures = 0
    for dtype, (numpy_dtype, *_) in TARGETS.items():
        began = time.monotonic()
        mismatches = wrong_counts = 0
        totals: dict[str, int] = {}
        out = np.empty(CHUNK, numpy_dtype)
        for first in range(0, 1 << 32, CHUNK):
            patterns = np.arange(first, first + CHUNK, dtype=np.uint32)
            values = patterns.view(np.float32)
            _, stats = narrow_with_stats(values, dtype, out=out, overflow="inf")
            reference = expected(values, patterns, dtype)
            different = np.flatnonzero(out.view(np.uint16) != reference)
            if different.size:
                mismatches += different.size
                at = int(different[0])
                print(
                    f"{tier} {dtype}: {int(patterns[at]):#010x} became "
                    f"{int(out.view(np.uint16)[at]):#06x}, expected {int(reference[at]):#06x}"
                )
            wanted = counts(reference, first, dtype)
            if stats._asdict() != wanted:
                wrong_counts += 1
                print(f"{tier} {dtype}: from {first:#010x} on {stats}, expected {wanted}")
            for name in ("flushed", "subnormal", "overflowed", "nan", "inf"):
                totals[name] = totals.get(name, 0) + getattr(stats, name)
        seen = ", ".join(f"{name} {total:,}" for name, total in totals.items())
        print(
            f"{tier:8} {dtype:4}: {1 << 32:,} values, {mismatches:,} mismatches, "
            f"counts of {(1 << 32) // CHUNK} runs, {wrong_counts} wrong "
            f"({time.monotonic() - began:.0f} s)\n{'':15}{seen}",
            flush=True,
        )
        failures += mismatches + wrong_counts
    return 1 if failures else 0


def main() -> int:
    """Sweep in one process for each instruction set."""
    from dmexp._native import cpu_tiers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tier", action="append", help="only this one (may be repeated)")
    arguments = parser.parse_args()
    if arguments.here:
        return sweep()
    print(f"ml_dtypes {ml_dtypes.__version__}, NumPy {np.__version__}")
    failed = []
    for tier in arguments.tier or cpu_tiers()[1]:
        environment = {**os.environ, "DMEXP_CPU": tier}
        command = [sys.executable, __file__, "--here"]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(tier)
    print(f"FAILED on {', '.join(failed)}" if failed else "all equal on every tier")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
