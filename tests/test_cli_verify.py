"""``dmexp verify``: one line a file, all files, and the statuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli_util import GOOD, HOSTILE, dmexp_call, dmexp_process

GOOD_FILES = sorted(path.name for path in GOOD.glob("*.dmexp"))
HOSTILE_CASES = json.loads((HOSTILE / "manifest.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", GOOD_FILES)
def test_a_good_file_is_one_line_on_stdout(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "verify", GOOD / name)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("verify: ok  ")
    assert done.out.count("\n") == 1


@pytest.mark.parametrize("name", sorted(HOSTILE_CASES))
def test_a_hostile_file_is_one_line_on_stderr(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = HOSTILE_CASES[name]
    done = dmexp_call(capsys, "verify", HOSTILE / name)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("dmexp: ")
    assert done.err.count("\n") == 1
    assert name in done.err
    assert [part for part in case["message_contains"] if part.lower() not in done.err.lower()] == []


@pytest.mark.parametrize("name", sorted(HOSTILE_CASES))
def test_a_hostile_file_has_its_code_in_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "verify", "--json", HOSTILE / name)
    assert (done.status, done.err) == (1, "")
    document = json.loads(done.out)
    assert document["error"]["code"] == HOSTILE_CASES[name]["code"]
    assert document["files"] == [
        {"path": str(HOSTILE / name), "ok": False, "error": document["error"]}
    ]


@pytest.mark.parametrize("name", sorted(HOSTILE_CASES))
def test_info_never_takes_a_hostile_header_for_a_good_one(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, "info", "--json", HOSTILE / name)
    document = json.loads(done.out)
    if done.status == 0:
        # What only the payload's values show is for verify to find.
        assert HOSTILE_CASES[name]["code"] in ("NON_FINITE", "FORMAT")
        assert document["checksum"] == "ok"
    else:
        assert document["error"]["code"] == HOSTILE_CASES[name]["code"]


def test_every_file_is_checked_also_after_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = GOOD / GOOD_FILES[0], GOOD / GOOD_FILES[1]
    bad = HOSTILE / "crc.dmexp"
    done = dmexp_call(capsys, "verify", first, bad, second, "missing.dmexp")
    assert done.status == 1
    assert [line.split("  ")[1] for line in done.out.splitlines()] == [str(first), str(second)]
    assert len(done.err.splitlines()) == 2
    assert done.err.splitlines()[1] == "dmexp: missing.dmexp: No such file or directory"


def test_json_lists_the_checks_that_were_made(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "verify", "--json", GOOD / "llama-tiny-f32.dmexp")
    (file,) = json.loads(done.out)["files"]
    assert file["ok"] is True
    assert file["shapes"]["status"] == "yes"
    assert len(file["checks"]) >= 5


def test_the_damaged_tensor_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    import dmexp

    path = tmp_path / "m.dmexp"
    dmexp.save_file({"a": np.ones(8, "f4"), "b": np.ones(8, "f4")}, path, dtype="f32")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # in the last tensor
    path.write_bytes(data)
    done = dmexp_call(capsys, "verify", path)
    assert done.status == 1
    assert "'b'" in done.err
    assert "'a'" not in done.err
    done = dmexp_call(capsys, "verify", "--json", path)
    assert json.loads(done.out)["error"]["tensor"] == "b"


def test_an_unreadable_name_reaches_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x\x1b[2J.dmexp"
    shutil.copy(HOSTILE / "crc.dmexp", path)
    done = dmexp_process("verify", path)
    assert done.status == 1
    assert "\x1b" not in done.err
    assert "\\x1b[2J" in done.err
