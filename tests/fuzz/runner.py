"""Run a target on mutated seeds for some minutes, and keep what is worth keeping.

A find is an input that makes a target raise, hang, or take more memory than its size justifies.
Beside those, the smallest input is kept for every way in which a file can be refused, so that
the tests replay all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from fuzz.mutation import mutate
from fuzz.seeds import Seed

CORPUS = Path(__file__).parent / "corpus"

SECONDS_LIMIT = 20
"""For one input. They are at most a few hundred kilobytes long."""

BYTES_PER_BYTE = 64
BYTES_ANYWAY = 48 << 20
"""Memory that an input may take: so much for each of its bytes, beside a fixed amount for
windows, pieces of decoded blocks and modules that are imported on first use."""

LARGEST_KEPT_BYTES = 16_384
"""Ways to be refused are kept as examples of up to this size; finds whatever their size."""

Target = Callable[[Path], str]


class Hang(BaseException):
    """No answer in time. Not an `Exception`, so that no handler on the way swallows it."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise Hang


def run_one(target: Target, path: Path) -> str:
    """Run a target on one file under the limits. Raises what the target raises."""
    allowed = BYTES_ANYWAY + BYTES_PER_BYTE * path.stat().st_size
    tracemalloc.start()
    try:
        outcome = target(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= allowed, f"{peak} bytes of memory for a file of {path.stat().st_size}"
    return outcome


def run(name: str, target: Target, seeds: Sequence[Seed], argv: Sequence[str] | None = None) -> int:
    """The command line of both targets. Exit status 1 where there were finds."""
    parser = argparse.ArgumentParser(description=f"Fuzz the {name} reader.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="write examples into the corpus")
    options = parser.parse_args(argv)
    rng = random.Random(options.seed)
    outcomes: Counter[str] = Counter()
    ways: dict[str, bytes] = {}
    finds = 0
    end = time.monotonic() + 60 * options.minutes
    timed = hasattr(signal, "SIGALRM")
    if timed:
        signal.signal(signal.SIGALRM, _alarm)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "input"
        while time.monotonic() < end:
            seed = rng.choice(seeds)
            data = mutate(seed.data, rng, seed.header_bytes)
            path.write_bytes(data)
            if timed:
                signal.alarm(SECONDS_LIMIT)
            try:
                outcome = run_one(target, path)
            except (Hang, Exception):
                finds += 1
                outcome = "find"
                _keep(name, "find", data)
                traceback.print_exc()
            finally:
                if timed:
                    signal.alarm(0)
            outcomes[outcome] += 1
            if len(data) <= LARGEST_KEPT_BYTES and len(data) < len(ways.get(outcome, data + b" ")):
                ways[outcome] = data
    if options.keep:
        for outcome, data in ways.items():
            _keep(name, outcome, data)
    for outcome, count in outcomes.most_common():
        print(f"{count:10} {outcome}")
    print(f"{sum(outcomes.values()):10} inputs, {finds} finds", file=sys.stderr)
    return 1 if finds else 0


def _keep(name: str, outcome: str, data: bytes) -> None:
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(data).hexdigest()[:12]
    (folder / f"{outcome}-{digest}.bin").write_bytes(data)
