"""Peak memory: bounded by blocks and single tensors, not by files and not by what headers claim."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dmexp
from container_util import f32, pack, refusal, run, table, top

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells a process its own peak memory"
)

MIB = 1 << 20

# A process's peak as the kernel counts it, which can be set back to what is used now.
PEAK = """
import sys
from pathlib import Path
import numpy as np
import dmexp

def peak():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024

def forget():
    Path("/proc/self/clear_refs").write_text("5")

def raised_by(work):
    forget()
    before = peak()
    work()
    return peak() - before
"""

SAVE = """
path, count, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
base = np.random.default_rng(1).standard_normal(4 << 20).astype("f4")

def tensors():
    for n in range(count):
        yield f"layers.{n}.weight", base * np.float32(1 + n)

# What the first use of anything costs is not counted.
dmexp.save([("warm", base)], dtype=dtype)
dmexp.load(dmexp.save({"warm": base[:1000]}))
print(raised_by(lambda: dmexp.save_file(tensors(), path, dtype=dtype, sync=False)))
"""

READ = """
path = sys.argv[1]
dmexp.load(dmexp.save({"warm": np.ones(1000, "f4")}))

def work():
    with dmexp.safe_open(path) as file:
        array = file["layers.5.weight"]
        assert array.nbytes <= 16 << 20
        assert float(array[:1000].astype("f8").sum()) != 0.0

print(raised_by(work))
"""

VERIFY = """
path = sys.argv[1]
dmexp.load(dmexp.save({"warm": np.ones(1000, "f4")}))
print(raised_by(lambda: dmexp.verify(path)))
"""

LOAD = """
path = sys.argv[1]
dmexp.load(dmexp.save({"warm": np.ones(1000, "f4")}))
print(raised_by(lambda: dmexp.load_file(path, sys.argv[2])))
"""


def _measured(path: Path, count: int, dtype: str) -> dict[str, int]:
    """MiB by which each of the ways through a file raised the peak. The file is removed."""
    try:
        found = {"save": int(run(PEAK + SAVE, path, count, dtype))}
        assert dmexp.info(path, verify=False).num_tensors == count
        found["read one"] = int(run(PEAK + READ, path))
        found["verify"] = int(run(PEAK + VERIFY, path))
    finally:
        path.unlink(missing_ok=True)
    return {name: nbytes // MIB for name, nbytes in found.items()}


def test_a_gibibyte_is_saved_and_read_in_little_memory(tmp_path: Path) -> None:
    found = _measured(tmp_path / "x.dmexp", 64, "bf16")
    assert found["save"] < 128
    assert found["read one"] < 32
    assert found["verify"] < 32


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_four_gibibytes_are_saved_and_read_in_little_memory(tmp_path: Path, dtype: str) -> None:
    found = _measured(tmp_path / "x.dmexp", 256, dtype)
    print(dtype, found)
    assert found["save"] < 128
    assert found["read one"] < 32
    assert found["verify"] < 32


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_one_tensor_beyond_every_32_bit_number(tmp_path: Path, dtype: str) -> None:
    # More than 2^32 bytes as f32 and as bf16; only the pages with values in them are there.
    count = 2**31 + 12_345
    marks = {0: 1.0, 2**30 + 7: -2.5, 2**31 - 1: 3.0, 2**31: 0.5, count - 1: 4.0}
    array = np.zeros(count, "<f4")
    for place, value in marks.items():
        array[place] = value
    path = tmp_path / "x.dmexp"
    report = dmexp.save_file({"large": array, "after": f32([7])}, path, dtype=dtype, sync=False)
    try:
        assert (report.num_params, report.max_abs, report.min_nonzero_abs) == (count + 1, 7.0, 0.5)
        assert dmexp.verify(path).num_params == count + 1
        with dmexp.safe_open(path) as file:
            large = file["large"]
            assert {place: float(large[place]) for place in marks} == marks
            assert file["after"].astype("f4").tolist() == [7.0]
        # The same bad value at the far end.
        array[count - 2] = np.inf
        error = refusal(dmexp.save_file, {"large": array}, path, dtype=dtype, sync=False)
        assert error.index == (count - 2,)
    finally:
        path.unlink()


def test_loading_needs_the_arrays_and_little_more(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file({"w": np.ones(32 << 20, "f4")}, path, sync=False)
    # 64 MiB stored, 128 MiB as float32.
    assert int(run(PEAK + LOAD, path, "stored")) // MIB < 64 + 32
    assert int(run(PEAK + LOAD, path, "f32")) // MIB < 128 + 32
    path.unlink()


CLAIMS = """
def refused(path):
    try:
        dmexp.load_file(path)
    except dmexp.errors.DmexpError as error:
        return error.code
    raise AssertionError(f"{path} was accepted")

# What the first use of anything costs is not counted.
refused(sys.argv[1])
for path in sys.argv[1:]:
    forget()
    before = peak()
    code = refused(path)
    print(code, (peak() - before) >> 20, Path(path).stat().st_size >> 20)
"""


def test_claims_cost_no_memory(tmp_path: Path) -> None:
    huge = str(2**63 - 1)
    llama = (
        "'''\nmodel_type = \"llama\"\nhidden_size = 4096\nnum_hidden_layers = 1000000000\n"
        "num_attention_heads = 32\nintermediate_size = 11008\nvocab_size = 32000\n'''"
    )
    files = {
        "dims": pack(top(num_params=str(2**40), num_tensors="1") + table("w", [2**40])),
        "counts": pack(top(num_params=huge, num_tensors=huge, flushed=huge) + "tensors = []\n"),
        "prefix": pack(top(), header_bytes=2**32 - 1, payload_bytes=2**60),
        "zero dims": pack(top(num_tensors="1") + table("w", [0, 2**60, 2**60])),
        "ranks": pack(top(num_tensors="1") + table("w", [1] * 60)),
        "layers": pack(top(num_params="1", num_tensors="1", config=llama) + table("w", [1]), b"\0" * 4),
    }  # fmt: skip
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    paths = [tmp_path / name for name in files]
    for line in run(PEAK + CLAIMS, *paths).splitlines():
        code, raised, _ = line.split()
        assert code in {"SHAPE_MISMATCH", "FORMAT", "TRUNCATED", "OVERFLOW"}
        assert int(raised) < 8


def test_a_large_header_costs_memory_by_its_own_length(tmp_path: Path) -> None:
    text = top() + "tensors = []\n"
    long_ = {
        "digits": text.replace("step = 0", f"step = {'1' * (4 * MIB)}"),
        "nested": text + "x = " + "[" * (4 * MIB),
        "dotted": text + ".".join("a" * (2 * MIB)) + " = 1",
        "blank": "\n" * (4 * MIB),
        "name": top(num_tensors="2") + 2 * table("n" * (4 * MIB), [0]),
        "config": text.replace('config = ""', f"config = 'x = {'[' * (4 * MIB)}'"),
        "not a value": text + "x = " + "a" * (4 * MIB),
        "fraction": text + "x = 0." + "1" * (4 * MIB),
        "octal": text + "x = [\n  -0o" + "7" * (4 * MIB),
        "tables": text + "".join(f"[a{n}]\n" for n in range(400_000)),
        "tables of tables": text + "[[a]]\n" + "".join(f" [a.b{n}]\n" for n in range(300_000)),
    }
    for name, header in long_.items():
        (tmp_path / name).write_bytes(pack(header))
    paths = [tmp_path / name for name in long_]
    for line in run(PEAK + CLAIMS, *paths).splitlines():
        code, raised, length = (int(n) if n.isdigit() else n for n in line.split())
        assert code == "FORMAT"
        assert isinstance(raised, int)
        assert isinstance(length, int)
        # The bytes, the text, and what a parser makes of it.
        assert raised <= 12 * (length + 1)
