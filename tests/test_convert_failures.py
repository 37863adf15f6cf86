"""A conversion to a directory that the system stops: the message names what the user named."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cli_util import GOOD
from dmexp import _hf_writer
from dmexp._convert import convert

PLAIN = GOOD / "plain-bf16.dmexp"


def _raiser(error: OSError) -> Any:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


@pytest.mark.parametrize("name", [None, "inside"])
def test_a_full_disk_names_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    def full(fd: int) -> None:
        inside = next(tmp_path.glob(".dmexp-*")) / "model.safetensors"
        raise OSError(errno.ENOSPC, "No space left on device", *([str(inside)] if name else []))

    monkeypatch.setattr(_hf_writer.os, "fsync", full)
    target = tmp_path / "out"
    with pytest.raises(OSError, match="No space left") as caught:
        convert(PLAIN, target)
    expected = target / "model.safetensors" if name else target
    assert caught.value.filename == str(expected)
    assert os.listdir(tmp_path) == []


def test_another_error_without_a_name_is_not_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hf_writer.os, "fsync", _raiser(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output") as caught:
        convert(PLAIN, tmp_path / "out")
    assert caught.value.filename is None
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionError) as caught:
        convert(PLAIN, tmp_path / "out")
    assert caught.value.filename == str(tmp_path / "out")
    assert os.listdir(tmp_path) == []
