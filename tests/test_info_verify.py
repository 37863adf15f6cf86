"""`info` and `verify`: what a file says, what its payload shows, and what neither claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import (
    GOOD,
    HOSTILE,
    Array,
    f32,
    noise,
    plain,
    refusal,
    split,
)

ARRAYS: dict[str, Array] = {
    "a": f32([[1.0, -2.0, 0.5], [0.0, 5.15625, 2.0**-130]]),
    "empty": np.zeros((2, 0), "<f4"),
    "scalar": np.array(7, "<f4"),
}
ABOUT: dict[str, Any] = {
    "source": "from\nhere",
    "step": 9,
    "config": "a = 1\n",
    "metadata": {"k": [1, "v"]},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", **ABOUT)
    return path


def test_info_gives_every_fact(path: Path) -> None:
    info = dmexp.info(path)
    _, header, payload = split(path.read_bytes())
    assert (info.path, info.file_bytes) == (str(path), path.stat().st_size)
    assert (info.format_version, info.dtype) == (1, "f32")
    assert (info.source, info.step) == ("from\nhere", 9)
    assert (info.num_params, info.num_tensors) == (7, 3)
    assert (info.flushed, info.subnormal) == (0, 1)
    assert (info.max_abs, info.min_nonzero_abs) == (7.0, 2.0**-130)
    assert (info.checksum, info.config, info.metadata) == ("ok", "a = 1\n", {"k": [1, "v"]})
    assert info.writer == f"dmexp {dmexp.__version__}"
    assert (info.header_bytes, info.payload_bytes) == (len(header), len(payload))
    assert info.ram_as_f32_bytes == 28
    assert info.extra == {}
    assert info.shapes.status == "not checked"
    start = 24 + len(header)
    assert [tuple(tensor)[:4] for tensor in info.tensors] == [
        ("a", (2, 3), start, 24),
        ("empty", (2, 0), start + 24, 0),
        ("scalar", (), start + 24, 4),
    ]
    assert all(tensor.crc32 is not None for tensor in info.tensors)


def test_ram_as_f32_counts_every_value(tmp_path: Path) -> None:
    dmexp.save_file({"x": noise(1, 100)}, tmp_path / "x.dmexp", dtype="bf16")
    info = dmexp.info(tmp_path / "x.dmexp")
    assert (info.payload_bytes, info.ram_as_f32_bytes) == (200, 400)


def test_what_a_compat_file_does_not_say_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", compat="dormouse")
    info = dmexp.info(path)
    assert (info.subnormal, info.writer, info.metadata) == (None, None, {})
    assert [tensor.crc32 for tensor in info.tensors] == [None, None, None]


def test_info_without_verification_reads_no_payload(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    payload_at = len(data) - 28
    damaged = tmp_path / "damaged.dmexp"
    damaged.write_bytes(data[:payload_at] + b"\xff" * 28)
    info = dmexp.info(damaged, verify=False)
    assert info.checksum == "not checked"
    assert info.max_abs == 7.0
    assert refusal(dmexp.info, damaged).code == "CHECKSUM"
    # Reads beyond the header are what a hole in the file would show.
    sparse = tmp_path / "sparse.dmexp"
    with sparse.open("wb") as file:
        header = plain({"w": [2**33]}, np.zeros(0), num_params=str(2**33))[24:]
        file.write(data[:8] + len(header).to_bytes(4, "little") + (2**35).to_bytes(8, "little"))
        file.write(b"\0" * 4 + header)
        file.truncate(24 + len(header) + 2**35)
    assert dmexp.info(sparse, verify=False).payload_bytes == 2**35
    with dmexp.safe_open(sparse) as opened:
        assert opened.keys() == ["w"]


def test_verify_lists_what_it_checked(path: Path, tmp_path: Path) -> None:
    report = dmexp.verify(path)
    assert report.ok
    assert (report.path, report.file_bytes) == (str(path), path.stat().st_size)
    assert (report.dtype, report.num_params, report.num_tensors) == ("f32", 7, 3)
    assert report.checks == (
        "prefix",
        "length",
        "header",
        "tensor table",
        "payload checksum",
        "tensor checksums",
        "finite values",
        "recomputed counts",
    )
    compat = tmp_path / "compat.dmexp"
    dmexp.save_file(ARRAYS, compat, compat="dormouse")
    assert "tensor checksums" not in dmexp.verify(compat).checks
    dmexp.save_file({}, compat)
    assert "tensor checksums" not in dmexp.verify(compat).checks
    llama = dmexp.verify(GOOD / "llama-tiny-f32.dmexp")
    assert llama.checks[-1] == "config against tensors"
    assert llama.shapes.family == "llama"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_large_file_is_summed_the_same_by_any_number_of_threads(
    threads: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.dmexp"
    arrays = {f"t{nth}": noise(nth, 700_001) for nth in range(6)}
    arrays["t3"][123_456] = -99.5
    arrays["t5"][-1] = 2.0**-40
    report = dmexp.save_file(arrays, path, dtype="f32", sync=False)
    info = dmexp.info(path, threads=threads)
    assert (info.max_abs, info.min_nonzero_abs) == (99.5, 2.0**-40)
    assert info.subnormal == report.subnormal
    assert dmexp.verify(path, threads=threads).ok
    data = bytearray(path.read_bytes())
    for at, tensor in ((info.tensors[4].offset + 1_000_000, "t4"), (info.tensors[1].offset, "t1")):
        data[at] ^= 0x10
        path.write_bytes(data)
        error = refusal(dmexp.verify, path, threads=threads)
        assert (error.code, error.tensor) == ("CHECKSUM", tensor)


def test_checks_come_in_the_formats_order(tmp_path: Path) -> None:
    # A file with everything wrong at once names the outermost fault; put right one by one, each
    # of the others shows in its turn.
    path = tmp_path / "x.dmexp"
    values = f32([1, np.inf, 3])
    faults: list[tuple[str, dict[str, Any], dict[str, str]]] = [
        ("TRUNCATED", {"cut": 1}, {}),
        ("UNSUPPORTED", {"magic": b"DMEXPRT\x02"}, {}),
        ("FORMAT", {}, {"step": "-1"}),
        ("UNSUPPORTED_DTYPE", {}, {"dtype": '"f64"'}),
        ("SHAPE_MISMATCH", {}, {"dims": "4"}),
        ("FORMAT", {}, {"num_tensors": "2"}),
        ("SHAPE_MISMATCH", {}, {"config": "'model_type = \"gpt2\"'"}),
        ("CHECKSUM", {"crc32": 1}, {}),
        ("NON_FINITE", {}, {}),
    ]
    for nth in range(len(faults)):
        outer: dict[str, Any] = {}
        inner: dict[str, str] = {}
        for _, prefix, header in faults[nth:]:
            outer = prefix | outer
            inner = header | inner
        count = int(inner.pop("dims", "3"))
        data = plain({"w": [count]}, values, max_abs="3.0", **inner)
        if "magic" in outer:
            data = outer["magic"] + data[8:]
        if "crc32" in outer:
            data = data[:20] + b"\0\0\0\0" + data[24:]
        path.write_bytes(data[: len(data) - outer.get("cut", 0)])
        code = faults[nth][0]
        # The version stands before the length in the prefix, and is looked at first.
        assert refusal(dmexp.verify, path).code == ("UNSUPPORTED" if nth == 0 else code), nth
    clean = f32([1, 2, 3])
    path.write_bytes(plain({"w": [3]}, clean, max_abs="4.0"))
    assert refusal(dmexp.verify, path).key == "max_abs"
    path.write_bytes(plain({"w": [3]}, clean))
    assert dmexp.verify(path).ok


def test_an_empty_set_of_files_is_refused_by_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from dmexp.cli import main

    assert main(["verify"]) == 2
    assert "FILE" in capsys.readouterr().err


def test_paths_in_errors_are_the_callers_spelling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOSTILE)
    for spelling in ("crc.dmexp", "./crc.dmexp", b"crc.dmexp", Path("crc.dmexp")):
        for call in (dmexp.verify, dmexp.info, dmexp.load_file):
            error = refusal(call, spelling)
            assert error.path == os.fsdecode(spelling)
            assert str(error).startswith(f"{os.fsdecode(spelling)}: payload: checksum is 0x")


@pytest.mark.parametrize("content", [b"DMEXPRT\x01\0\0", "a\0b"])
def test_the_content_of_a_file_is_not_taken_for_a_path(content: bytes | str) -> None:
    for read in (dmexp.info, dmexp.verify, dmexp.load_file, dmexp.safe_open):
        with pytest.raises(dmexp.errors.InvalidArgumentError, match=r"dmexp\.load"):
            read(content)
