"""Dispatch, exit statuses, and the one place where exceptions become lines."""

from __future__ import annotations

import argparse
import json
import types
from typing import Any

import pytest

from dmexp import errors
from dmexp.cli import _errors, _main, main


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the test's function be the command ``info``."""

    def install(action: Any) -> None:
        module = types.ModuleType("dmexp.cli.info")

        def add_parser(commands: Any) -> None:
            commands.add_parser("info").add_argument("--json", action="store_true")

        module.add_parser = add_parser  # type: ignore[attr-defined]
        module.run = action  # type: ignore[attr-defined]
        monkeypatch.setattr(_main.importlib, "import_module", lambda name: module)

    return install


def _raiser(error: BaseException) -> Any:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


def test_the_status_of_the_command_is_the_status_of_the_program(command: Any) -> None:
    command(lambda args: 7)
    assert main(["info"]) == 7


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (errors.FormatError("bad key", path="a.dmexp"), 1, "dmexp: a.dmexp: bad key\n"),
        (errors.FormatError("name '\x1b[2J'\nend"), 1, "dmexp: name '\\x1b[2J'\\nend\n"),
        (
            FileNotFoundError(2, "No such file or directory", "x"),
            1,
            "dmexp: x: No such file or directory\n",
        ),
        (OSError("odd"), 1, "dmexp: odd\n"),
        (MemoryError(), 1, "dmexp: not enough memory\n"),
        (KeyboardInterrupt(), 130, "dmexp: interrupted\n"),
    ],
)
def test_failures_are_one_line_on_stderr(
    command: Any,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    line: str,
) -> None:
    command(_raiser(error))
    assert main(["info"]) == status
    assert capsys.readouterr() == ("", line)


def test_a_bug_is_named_and_not_a_traceback(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    command(_raiser(RuntimeError("boom")))
    assert main(["info"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("dmexp: internal error")
    assert "RuntimeError: boom" in err
    assert err.count("\n") == 1


def test_a_bug_can_be_looked_at(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DMEXP_TRACEBACK", "1")
    command(_raiser(RuntimeError("boom")))
    with pytest.raises(RuntimeError, match="boom"):
        main(["info"])


def test_json_errors_go_to_stdout_with_code_and_facts(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    error = errors.ChecksumError(
        "bad", path="f", stored="00000000", computed="ffffffff", tensor="w"
    )
    command(_raiser(error))
    assert main(["info", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {
            "code": "CHECKSUM",
            "message": "f: bad",
            "path": "f",
            "stored": "00000000",
            "computed": "ffffffff",
            "tensor": "w",
        }
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (IsADirectoryError(21, "Is a directory", "d"), "OS_ERROR"),
        (MemoryError("1 GiB"), "OUT_OF_MEMORY"),
        (KeyboardInterrupt(), "INTERRUPTED"),
        (ZeroDivisionError("x"), "INTERNAL"),
    ],
)
def test_every_failure_has_a_code(error: BaseException, code: str) -> None:
    assert _errors.describe(error)["code"] == code


def test_a_fact_cannot_hide_the_code() -> None:
    facts = _errors.describe(errors.DmexpError("m", code="lie", name="x"))
    assert (facts["code"], facts["name"]) == ("ERROR", "x")


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["info", "--nonsense"], ["--nonsense"]])
def test_bad_usage_is_2_and_goes_to_stderr(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: dmexp")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    import dmexp

    assert main(["--version"]) == 0
    assert capsys.readouterr() == (f"dmexp {dmexp.__version__}\n", "")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [name for name in _main.COMMANDS if f"\n    {name}" not in out] == []


@pytest.mark.parametrize("name", list(_main.COMMANDS))
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: dmexp {name} ")
    assert len(out) > 300
    assert err == ""


def test_polite_kill_unwinds_with_the_usual_status() -> None:
    with pytest.raises(SystemExit) as stop:
        _main._terminated(15, None)
    assert stop.value.code == 143
