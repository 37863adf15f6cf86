"""All benchmarks: each file in a process of its own, and one table of all of them.

What a process allocated and freed before decides what memory it gets next, and with it much of what
is measured: a new result of tens of MiB costs half or double after another file's benchmarks.

    python bench/run.py [--smoke] [--results DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
from board import SECTIONS, Board, Row

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description="Run every benchmark.")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, one round, no verdict")
    parser.add_argument("--results", type=Path, help="directory for the JSON")
    options = parser.parse_args()
    about = machine.describe()
    board = Board()
    failed = []
    for file in sorted(HERE.glob("bench_*.py")):
        if file.name == "bench_decode.py":
            # A script of its own.
            continue
        with tempfile.TemporaryDirectory() as directory:
            rows = Path(directory) / "rows.json"
            command = [sys.executable, "-m", "pytest", "-c", HERE / "pytest.ini", file]
            command += ["--rows", rows, *(["--smoke"] if options.smoke else [])]
            if subprocess.run(list(map(str, command)), check=False).returncode:
                failed.append(file.name)
            if rows.exists():
                board.rows += [Row(**row) for row in json.loads(rows.read_text())]
    print()
    print(machine.summary(about))
    print()
    print(board.table(verdicts=not options.smoke))
    never = [name for name in SECTIONS if not any(row.section == name for row in board.rows)]
    if never:
        print(f"not run: {', '.join(never)}")
    if failed:
        print(f"failed: {', '.join(failed)}")
        return 1
    if options.results is not None and not options.smoke:
        path = options.results / f"{about['date']}-{machine.slug(about['cpu'])}.json"
        board.write(path, about)
        board.put_into(HERE / "README.md", about)
        print(f"written to {path} and to the README beside it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
