"""``dmexp export`` as a person and a script meet it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmexp
from cli_util import TINY, dmexp_call, dmexp_process
from dmexp.cli.export import default_out


def _npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def test_the_report_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tiny.dmexp"
    done = dmexp_call(capsys, "export", TINY, "-o", out)
    assert done.status == 0
    lines = dict(line.split(": ", 1) for line in done.out.splitlines())
    info = dmexp.info(out)
    assert lines["wrote"] == str(out)
    assert f"{out.stat().st_size:,} bytes" in lines["size"]
    assert "x smaller than the source" in lines["size"]
    assert lines["dtype"] == "bf16"
    assert lines["params"] == f"{info.num_params:,} in 21 tensors"
    assert f"{info.max_abs:.6g}" in lines["magnitudes"]
    assert f"{info.min_nonzero_abs:.6g}" in lines["magnitudes"]
    assert lines["flushed"] == f"{info.flushed:,} non-zero values became zero"
    assert lines["subnormal"].startswith(f"{info.subnormal:,} values ")
    assert lines["shapes"] == "config describes the tensors: yes (llama)"
    assert lines["read it back with"] == f"dmexp info {out}"


def test_json_is_the_whole_of_stdout(tmp_path: Path) -> None:
    done = dmexp_process("export", TINY, "-o", tmp_path / "m.dmexp", "--json")
    document = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert document["num_tensors"] == 21
    assert document["shapes"]["status"] == "yes"
    assert [tensor["name"] for tensor in document["tensors"]] == list(
        dmexp.load_file(tmp_path / "m.dmexp")
    )
    assert document["file_bytes"] == (tmp_path / "m.dmexp").stat().st_size


def test_quiet_prints_nothing(tmp_path: Path) -> None:
    done = dmexp_process("export", TINY, "-o", tmp_path / "m.dmexp", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize(
    ("spelling", "stored"),
    [
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("f16", "f16"),
        ("fp16", "f16"),
        ("float16", "f16"),
        ("half", "f16"),
        ("F32", "f32"),
        ("fp32", "f32"),
        ("float32", "f32"),
    ],
)
def test_dtype_spellings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spelling: str, stored: str
) -> None:
    out = tmp_path / "m.dmexp"
    assert dmexp_call(capsys, "export", TINY, "-o", out, "--dtype", spelling).status == 0
    assert dmexp.info(out).dtype == stored


@pytest.mark.parametrize("spelling", ["f64", "int8", "", "bf16 "])
def test_other_dtypes_are_refused_naming_the_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spelling: str
) -> None:
    done = dmexp_call(capsys, "export", TINY, "-o", tmp_path / "m", "--dtype", spelling)
    assert done.status == 2
    assert all(name in done.err for name in ("'f32'", "'f16'", "'bf16'"))
    assert list(tmp_path.iterdir()) == []


def test_the_default_name_is_stem_and_dtype_here(tmp_path: Path) -> None:
    done = dmexp_process("export", TINY, "--dtype", "f16", cwd=tmp_path)
    assert done.status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model.f16.dmexp"]


@pytest.mark.parametrize(
    ("source", "out"),
    [
        ("a/model.safetensors", "model.bf16.dmexp"),
        ("latest.bin", "latest.bf16.dmexp"),
        ("m-00001-of-00003.gguf", "m.bf16.dmexp"),
        ("noext", "noext.bf16.dmexp"),
        ("v1.5.gguf", "v1.5.bf16.dmexp"),
    ],
)
def test_default_names(source: str, out: str) -> None:
    assert default_out(Path(source), "bf16") == Path(out)


def test_a_directory_gives_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "SmolLM2-1.7B").mkdir()
    assert default_out(tmp_path / "SmolLM2-1.7B", "f16") == Path("SmolLM2-1.7B.f16.dmexp")
    monkeypatch.chdir(tmp_path / "SmolLM2-1.7B")
    assert default_out(Path("."), "f16") == Path("SmolLM2-1.7B.f16.dmexp")


def test_an_existing_file_is_kept_without_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.dmexp"
    out.write_text("mine")
    done = dmexp_call(capsys, "export", TINY, "-o", out)
    assert (done.status, done.out) == (1, "")
    assert "--force" in done.err
    assert out.read_text() == "mine"
    done = dmexp_call(capsys, "export", TINY, "-o", out, "--json")
    assert json.loads(done.out)["error"]["code"] == "EXISTS"
    assert dmexp_call(capsys, "export", TINY, "-o", out, "--force").status == 0
    assert dmexp.verify(out).ok


def test_header_options_reach_the_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.dmexp"
    arguments = ["--source", "the lab", "--step", "7", "--metadata", "a=1=2", "--metadata", "b="]
    assert dmexp_call(capsys, "export", TINY, "-o", out, *arguments).status == 0
    info = dmexp.info(out)
    assert (info.source, info.step) == ("the lab", 7)
    assert {key: info.metadata[key] for key in "ab"} == {"a": "1=2", "b": ""}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--metadata", "novalue"],
        ["--metadata", "=v"],
        ["--metadata", "a=1", "--metadata", "a=2"],
        ["--step", "-1"],
        ["--step", "x"],
        ["--step", "9223372036854775808"],
        ["--threads", "0"],
        ["--compat", "other"],
    ],
)
def test_bad_option_values_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    done = dmexp_call(capsys, "export", TINY, "-o", tmp_path / "m", *arguments)
    assert (done.status, done.out) == (2, "")
    assert "usage: dmexp export" in done.err
    assert list(tmp_path.iterdir()) == []


def test_an_integer_tensor_is_refused_with_the_exclude_that_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _npz(tmp_path / "m.npz", weight=np.ones(3, "f4"), position_ids=np.arange(4))
    out = tmp_path / "m.dmexp"
    done = dmexp_call(capsys, "export", source, "-o", out)
    assert done.status == 1
    assert "position_ids" in done.err
    assert "--exclude" in done.err
    assert not out.exists()
    assert dmexp_call(capsys, "export", source, "-o", out, "--exclude", "position_ids").status == 0
    assert list(dmexp.load_file(out)) == ["weight"]


def test_include_then_exclude(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = np.ones(1, "f4")
    source = _npz(tmp_path / "m.npz", **{"a.w": one, "a.b": one, "c.w": one})
    out = tmp_path / "m.dmexp"
    done = dmexp_call(capsys, "export", source, "-o", out, "--include", "a.*", "--exclude", "*.b")
    assert done.status == 0
    assert list(dmexp.load_file(out)) == ["a.w"]


def test_a_value_that_does_not_fit_names_the_dtype_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _npz(tmp_path / "m.npz", w=np.array([1, 70000], "f4"))
    done = dmexp_call(capsys, "export", source, "-o", tmp_path / "o", "--dtype", "f16", "--json")
    error = json.loads(done.out)["error"]
    assert (done.status, error["code"], error["suggestion"]) == (1, "NON_FINITE", "bf16")
    assert not (tmp_path / "o").exists()


def test_a_missing_source_is_one_line(tmp_path: Path) -> None:
    done = dmexp_process("export", "nowhere.safetensors", cwd=tmp_path)
    assert (done.status, done.out) == (1, "")
    assert done.err == "dmexp: nowhere.safetensors: No such file or directory\n"


def _large(path: Path) -> Path:
    """64 MiB, so that the export lasts long enough to be seen."""
    return _npz(path, **{f"w{i}": np.full(1 << 20, i, "f4") for i in range(16)})


@pytest.mark.skipif(os.name == "nt", reason="pty is POSIX only")
def test_a_terminal_gets_a_bar_on_stderr_and_nothing_else_on_stdout(
    tmp_path: Path,
) -> None:
    code = (
        "import dmexp.cli._progress as p, sys\n"
        "p.SHOW_AFTER_SECONDS = p.UPDATE_EVERY_SECONDS = 0.0\n"
        "from dmexp.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    source = _large(tmp_path / "m.npz")
    command = [sys.executable, "-c", code, "export", str(source), "-o", str(tmp_path / "o.dmexp")]
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=child,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(child)
    seen = b""
    while process.poll() is None or select.select([parent], [], [], 0)[0]:
        if select.select([parent], [], [], 0.05)[0]:
            try:
                seen += os.read(parent, 65536)
            except OSError:  # the other end is gone
                break
    os.close(parent)
    assert process.stdout is not None
    out = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait() == 0
    assert "exporting o.dmexp" in seen.decode()
    assert "MiB" in seen.decode()
    assert out.startswith("wrote: ")
    assert "exporting" not in out


def test_no_bar_when_piped(tmp_path: Path) -> None:
    done = dmexp_process("export", _large(tmp_path / "m.npz"), "-o", tmp_path / "o.dmexp")
    assert (done.status, done.err) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX only")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_export_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, number: int, status: int
) -> None:
    # The signal is sent by the process itself at a known moment, in the middle of the payload.
    code = (
        f"NUMBER = {number:d}\n"
        "import os, signal, sys\n"
        # Whoever runs the tests in the background may have told them to ignore interrupts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from dmexp.cli import _main, export\n"
        "class Bar:\n"
        "    def __enter__(self): return lambda done, total: done and os.kill(os.getpid(), NUMBER)\n"
        "    def __exit__(self, *_): return None\n"
        "export.progress_bar = lambda label, wanted: Bar()\n"
        "sys.argv[0] = 'dmexp'\n"
        "_main.entry()\n"
    )
    source = _large(tmp_path / "m.npz")
    out = tmp_path / "o.dmexp"
    out.write_text("old")
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", code, "export", str(source), "-o", str(out), "--force"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert out.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (1.96, "1.96x smaller than"),
        (0.5, "2x larger than"),
        (0.9999, "about as large as"),
        (1.004, "about as large as"),
    ],
)
def test_the_ratio_to_the_source_is_said_in_words(ratio: float, words: str) -> None:
    from dmexp.cli.export import _ratio_text

    assert _ratio_text(ratio) == words
