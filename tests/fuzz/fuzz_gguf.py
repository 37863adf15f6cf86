"""Fuzz the gguf reader: ``python -m fuzz.fuzz_gguf --minutes 10`` from the tests directory."""

from __future__ import annotations

from fuzz.runner import run
from fuzz.seeds import gguf_seeds
from fuzz.targets import check_gguf

if __name__ == "__main__":
    raise SystemExit(run("gguf", check_gguf, gguf_seeds()))
