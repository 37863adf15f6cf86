"""The vectors that came with the format: what every reader accepts, and what none does."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from cli_util import dmexp_call
from container_util import (
    GOOD,
    HOSTILE,
    NUMPY,
    Array,
    assert_same_tensors,
    manifest,
    read_lazily,
    refusal,
)
from dmexp.errors import DmexpError

GOOD_FILES = manifest(GOOD)
HOSTILE_FILES = manifest(HOSTILE)

# A tensor's own bytes do not show what the header claims of all of them together.
SEEN_ONLY_IN_THE_WHOLE = {"max-abs-wrong.dmexp"}
# `info` without verification and opening do not touch the payload.
SEEN_ONLY_IN_THE_PAYLOAD = {
    "crc.dmexp",
    "payload-bit.dmexp",
    "inf-in-payload.dmexp",
    "nan-in-payload.dmexp",
    "max-abs-wrong.dmexp",
}

good = pytest.mark.parametrize("name", sorted(GOOD_FILES))
hostile = pytest.mark.parametrize("name", sorted(HOSTILE_FILES))


def test_every_file_is_in_its_manifest() -> None:
    for directory, files in ((GOOD, GOOD_FILES), (HOSTILE, HOSTILE_FILES)):
        assert {path.name for path in directory.glob("*.dmexp")} == set(files)


def _assert_as_listed(found: dict[str, Array], listed: dict[str, Any], dtype: str) -> None:
    assert list(found) == [tensor["name"] for tensor in listed["tensors"]]
    key = "f32_crc32" if dtype == "f32" else "crc32"
    for tensor in listed["tensors"]:
        array = found[tensor["name"]]
        assert array.dtype == NUMPY[dtype]
        assert list(array.shape) == tensor["dims"]
        assert f"{zlib.crc32(array.tobytes()):08x}" == tensor[key]


@good
def test_load_file_gives_the_listed_values(name: str) -> None:
    listed = GOOD_FILES[name]
    _assert_as_listed(dmexp.load_file(GOOD / name), listed, "f32")
    _assert_as_listed(dmexp.load_file(GOOD / name, "stored"), listed, listed["dtype"])
    _assert_as_listed(dmexp.load_file(GOOD / name, listed["dtype"]), listed, listed["dtype"])


@good
def test_load_gives_the_same_from_every_kind_of_memory(name: str) -> None:
    data = (GOOD / name).read_bytes()
    shifted = memoryview(b"\0" + data)[1:]
    for memory in (data, bytearray(data), memoryview(data), shifted):
        for dtype in ("f32", "stored"):
            assert_same_tensors(dmexp.load(memory, dtype), dmexp.load_file(GOOD / name, dtype))


@good
def test_safe_open_gives_the_stored_values(name: str) -> None:
    listed = GOOD_FILES[name]
    _assert_as_listed(read_lazily(GOOD / name), listed, listed["dtype"])


@good
def test_arrays_over_unaligned_payloads_can_be_worked_with(name: str) -> None:
    wide = dmexp.load_file(GOOD / name)
    for tensor, array in read_lazily(GOOD / name).items():
        assert array.astype("f4").tobytes() == wide[tensor].tobytes()
        assert np.ascontiguousarray(array).tobytes() == array.tobytes()


@good
@pytest.mark.parametrize("threads", [1, 4])
def test_the_thread_count_changes_nothing(name: str, threads: int) -> None:
    expected = dmexp.load_file(GOOD / name)
    assert_same_tensors(dmexp.load_file(GOOD / name, threads=threads), expected)
    assert dmexp.info(GOOD / name, threads=threads) == dmexp.info(GOOD / name)


@good
def test_info_and_verify_say_what_is_listed(name: str) -> None:
    listed = GOOD_FILES[name]
    info = dmexp.info(GOOD / name)
    assert (info.dtype, info.num_params) == (listed["dtype"], listed["num_params"])
    assert info.flushed == listed["flushed"]
    assert (info.max_abs, info.min_nonzero_abs) == (listed["max_abs"], listed["min_nonzero_abs"])
    assert (info.checksum, info.format_version) == ("ok", 1)
    assert info.file_bytes == (GOOD / name).stat().st_size
    assert info.ram_as_f32_bytes == 4 * listed["num_params"]
    assert [(t.name, list(t.dims)) for t in info.tensors] == [
        (t["name"], t["dims"]) for t in listed["tensors"]
    ]
    data = (GOOD / name).read_bytes()
    for tensor, expected in zip(info.tensors, listed["tensors"], strict=True):
        stored = data[tensor.offset : tensor.offset + tensor.nbytes]
        assert f"{zlib.crc32(stored):08x}" == expected["crc32"]
    assert sum(tensor.nbytes for tensor in info.tensors) == info.payload_bytes
    assert 24 + info.header_bytes + info.payload_bytes == info.file_bytes
    assert dmexp.info(GOOD / name, verify=False).checksum == "not checked"

    report = dmexp.verify(GOOD / name)
    assert report.ok
    assert (report.dtype, report.num_params) == (listed["dtype"], listed["num_params"])
    assert report.num_tensors == len(listed["tensors"])


def test_a_config_that_describes_the_tensors_is_said_to() -> None:
    assert dmexp.verify(GOOD / "llama-tiny-f32.dmexp").shapes.status == "yes"
    assert "config against tensors" in dmexp.verify(GOOD / "llama-tiny-f32.dmexp").checks


def test_no_check_is_claimed_that_was_not_made() -> None:
    report = dmexp.verify(GOOD / "plain-f32.dmexp")
    assert report.shapes.status == "not checked"
    assert "config against tensors" not in report.checks
    # The file has no tensor checksums.
    assert "tensor checksums" not in report.checks


def _assert_refused(error: DmexpError, name: str, path: Path | None) -> None:
    listed = HOSTILE_FILES[name]
    assert error.code == listed["code"]
    for part in listed["message_contains"]:
        assert part in error.message
    assert error.path == (None if path is None else os.fspath(path))
    assert "\n" not in str(error)


WHOLE: list[Callable[[Path], Any]] = [
    dmexp.verify,
    dmexp.info,
    dmexp.load_file,
    lambda path: dmexp.load_file(path, "stored"),
]


@hostile
@pytest.mark.parametrize("call", WHOLE, ids=["verify", "info", "load_file", "load_file stored"])
def test_reading_the_whole_file_refuses(name: str, call: Callable[[Path], Any]) -> None:
    _assert_refused(refusal(call, HOSTILE / name), name, HOSTILE / name)


@hostile
def test_load_refuses_the_same_in_memory(name: str) -> None:
    data = (HOSTILE / name).read_bytes()
    for memory in (data, bytearray(data), memoryview(data)):
        _assert_refused(refusal(dmexp.load, memory), name, None)


@hostile
def test_reading_tensor_by_tensor_refuses_what_it_can_see(name: str) -> None:
    if name in SEEN_ONLY_IN_THE_WHOLE:
        assert read_lazily(HOSTILE / name).keys() == {"embedding.weight", "norm.weight"}
    else:
        _assert_refused(refusal(read_lazily, HOSTILE / name), name, HOSTILE / name)


@hostile
def test_opening_refuses_what_the_header_shows(name: str) -> None:
    if name in SEEN_ONLY_IN_THE_PAYLOAD:
        dmexp.safe_open(HOSTILE / name).close()
        dmexp.info(HOSTILE / name, verify=False)
    else:
        _assert_refused(refusal(dmexp.safe_open, HOSTILE / name), name, HOSTILE / name)
        error = refusal(dmexp.info, HOSTILE / name, verify=False)
        _assert_refused(error, name, HOSTILE / name)


@hostile
def test_without_verification_the_structure_is_still_checked(name: str) -> None:
    by_choice = SEEN_ONLY_IN_THE_PAYLOAD | {
        "llama-config-halved.dmexp",
        "llama-missing-tensor.dmexp",
    }
    if name in by_choice:
        dmexp.load_file(HOSTILE / name, verify=False)
        with dmexp.safe_open(HOSTILE / name, verify=False) as file:
            assert len(dict(file.items())) == len(file)
    else:
        error = refusal(dmexp.load_file, HOSTILE / name, verify=False)
        _assert_refused(error, name, HOSTILE / name)


@hostile
@pytest.mark.parametrize("command", ["verify", "info"])
def test_the_command_line_prints_one_line(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, command, HOSTILE / name)
    assert done.status == 1
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert "Traceback" not in done.err
    for part in HOSTILE_FILES[name]["message_contains"]:
        assert part in done.err


@good
def test_the_command_line_verifies_what_is_good(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, "verify", GOOD / name)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("verify: ok")


def test_checkpoints_exports_are_read_as_any_other_file() -> None:
    directory = GOOD.parent / "checkpoint"
    wide = dmexp.load_file(directory / "latest.f32.dmexp")
    for dtype in ("f16", "bf16"):
        narrow = dmexp.load_file(directory / f"latest.{dtype}.dmexp", "stored")
        assert_same_tensors(
            narrow, {name: array.astype(NUMPY[dtype]) for name, array in wide.items()}
        )
