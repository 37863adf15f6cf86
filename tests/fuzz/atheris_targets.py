"""The same targets under atheris, which steers by coverage.

From the tests directory, with ``pip install atheris``::

    python -m fuzz.atheris_targets gguf fuzz/corpus/gguf -max_total_time=600
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["dmexp.loaders", "dmexp.contracts"]):
    from fuzz.targets import check_gguf, check_safetensors

TARGETS = {"gguf": check_gguf, "safetensors": check_safetensors}


def main() -> None:
    target = TARGETS[sys.argv.pop(1)]
    path = Path(tempfile.mkdtemp()) / "input"

    def one(data: bytes) -> None:
        path.write_bytes(data)
        target(path)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
