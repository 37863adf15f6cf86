"""Shards stream: memory is bounded by the largest tensor, not by the checkpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hf_util import shard_names, write_index

SHARDS, TENSORS, ROWS, COLUMNS = 3, 8, 4096, 1024
TENSOR_BYTES = 4 * ROWS * COLUMNS
TOTAL_BYTES = SHARDS * TENSORS * TENSOR_BYTES

SCRIPT = """
import resource, sys
from pathlib import Path
from dmexp._convert import convert
from dmexp._diff import diff
from dmexp._export import export
from dmexp.loaders import open_source

unit = 1 if sys.platform == "darwin" else 1024
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

folder, work = Path(sys.argv[1]), Path(sys.argv[2])
def run(what):
    if what == "export":
        with open_source(folder) as source:
            export(source, work / "m.dmexp", dtype="bf16", sync=False)
    elif what == "convert":
        convert(work / "m.dmexp", work / "out", sync=False)
    else:
        with open_source(folder) as a, open_source(work / "m.dmexp") as b:
            assert diff(a, b).equal

before = peak()
run(sys.argv[3])
print(peak() - before)
"""


def sparse_shards(folder: Path) -> Path:
    """Three shards of zeros that take no room on the disk."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "mine"}', "utf-8")
    weight_map = {}
    for number, name in enumerate(shard_names(SHARDS)):
        header = {}
        for tensor in range(TENSORS):
            key = f"layers.{number}.{tensor}.weight"
            weight_map[key] = name
            header[key] = {
                "dtype": "F32",
                "shape": [ROWS, COLUMNS],
                "data_offsets": [tensor * TENSOR_BYTES, (tensor + 1) * TENSOR_BYTES],
            }
        text = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + TENSORS * TENSOR_BYTES)
    write_index(folder, weight_map)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="the system has no such counter")
def test_memory_is_bounded_by_the_largest_tensor(tmp_path: Path) -> None:
    folder = sparse_shards(tmp_path / "m")
    for what in ("export", "convert", "diff"):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, folder, tmp_path, what],
            capture_output=True,
            text=True,
            check=True,
        )
        grown = int(done.stdout)
        # The whole is far above this bound, or the test would show nothing.
        assert grown < TENSOR_BYTES + (128 << 20) < TOTAL_BYTES // 2, what
