"""Fuzz the safetensors reader: ``python -m fuzz.fuzz_safetensors --minutes 10`` from the tests directory."""

from __future__ import annotations

from fuzz.runner import run
from fuzz.seeds import safetensors_seeds
from fuzz.targets import check_safetensors

if __name__ == "__main__":
    raise SystemExit(run("safetensors", check_safetensors, safetensors_seeds()))
