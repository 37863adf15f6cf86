"""``dmexp info``: what it says, where, and in which encodings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmexp
from cli_util import CORPUS, GOOD, TINY, dmexp_call, dmexp_process
from dmexp.cli import main

CONFIG = 'text = "a\\u001b[2Jb"\nname = "Größe 日本"\n'


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("info") / "tiny.bf16.dmexp"
    arguments = ["export", TINY, "-o", path, "--quiet", "--metadata", "licence=MIT"]
    assert main(list(map(os.fspath, arguments))) == 0
    return path


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Names and a config that no terminal should see as they are."""
    path = tmp_path_factory.mktemp("info") / "awkward.dmexp"
    dmexp.save_file(
        {"Größe.日本": np.ones(2, "f4"), "\u202egpj.exe": np.ones(2, "f4")},
        path,
        config=CONFIG,
        source="é → \u2067x",
        metadata={"note": "line 1\nline 2 \x9b"},
    )
    return path


def test_the_lines_for_a_person(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "info", exported)
    assert (done.status, done.err) == (0, "")
    lines = dict(line.split(": ", 1) for line in done.out.splitlines() if ": " in line)
    assert lines["file"] == str(exported)
    assert f"{exported.stat().st_size:,} bytes" in lines["size"]
    assert lines["format"] == "DMEXPRT v1"
    assert lines["writer"] == f"dmexp {dmexp.__version__}"
    assert lines["dtype"] == "bf16"
    assert lines["step"] == "0"
    assert lines["params"].endswith(" in 21 tensors")
    assert "65504" in lines["range note"]
    assert "6.1e-5" in lines["range note"]
    assert lines["checksum"].startswith("ok")
    assert lines["shapes"].startswith("config describes the tensors: yes")
    assert "  hidden_size = 64" in done.out
    assert "  licence = MIT" in done.out
    assert "model.layers.0" not in done.out


def test_p19_the_bytes_of_the_weights_as_stored_and_as_f32(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, "info", exported)
    lines = dict(line.split(": ", 1) for line in done.out.splitlines() if ": " in line)
    loaded = dmexp.load_file(exported)
    stored = dmexp.load_file(exported, dtype="stored")
    for name, arrays in (("payload", stored), ("memory as f32", loaded)):
        assert f"({sum(a.nbytes for a in arrays.values()):,} bytes)" in lines[name]
    document = json.loads(dmexp_call(capsys, "info", "--json", exported).out)
    assert document["payload_bytes"] == 2 * document["num_params"]


def test_tensors_lists_byte_ranges_that_hold_the_values(
    exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, "info", "--tensors", exported)
    row = next(line for line in done.out.splitlines() if line.startswith("model.norm.weight "))
    cells = row.replace(",", "").split()
    assert cells[1] == "[64]"
    start, end = int(cells[2]), int(cells[3])
    raw = np.frombuffer(exported.read_bytes()[start:end], np.uint16)
    expected = dmexp.load_file(exported, dtype="stored")["model.norm.weight"]
    np.testing.assert_array_equal(raw, expected.view(np.uint16))
    assert int(cells[4], 16) == dmexp.crc32(raw)


def test_json_holds_everything(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "info", "--json", exported)
    document = json.loads(done.out)
    info = dmexp.info(exported)
    assert document["num_params"] == info.num_params > 0
    assert document["num_tensors"] == len(document["tensors"]) == 21
    assert document["shapes"]["status"] == "yes"
    assert document["metadata"] == {"licence": "MIT"}
    assert document["checksum"] == "ok"
    assert document["ram_as_f32_bytes"] == 4 * document["num_params"]
    assert set(document["tensors"][0]) == {"name", "dims", "offset", "nbytes", "crc32"}


def test_no_verify_does_not_claim_a_checksum(
    tmp_path: Path, exported: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(exported.read_bytes())
    data[-1] ^= 1
    path = tmp_path / "damaged.dmexp"
    path.write_bytes(data)
    assert dmexp_call(capsys, "info", path).status == 1
    done = dmexp_call(capsys, "info", "--no-verify", path)
    assert done.status == 0
    assert "\nchecksum: not checked\n" in done.out


def test_an_unknown_family_is_not_claimed_to_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file({"w": np.ones(2, "f4")}, path, config='model_type = "x"\n')
    done = dmexp_call(capsys, "info", path)
    assert '\nshapes: not checked (model_type "x" is not known)\n' in done.out


def test_control_characters_are_escaped(awkward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "info", "--tensors", awkward)
    assert done.status == 0
    assert not set(done.out) & set("\x1b\x9b\u202e\u2067")
    assert "\\u202egpj.exe" in done.out
    assert "Größe.日本" in done.out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("arguments", [["info", "--tensors"], ["info", "--json"], ["verify"]])
def test_output_works_in_every_encoding(awkward: Path, encoding: str, arguments: list[str]) -> None:
    done = dmexp_process(*arguments, awkward, PYTHONIOENCODING=encoding)
    assert (done.status, done.err) == (0, "")


def test_help_works_in_ascii() -> None:
    for command in ("export", "info", "verify"):
        assert dmexp_process(command, "--help", PYTHONIOENCODING="ascii").status == 0


def test_a_reader_that_leaves_early_is_no_error(awkward: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dmexp", "info", str(awkward)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 1


def test_info_starts_without_what_it_does_not_need() -> None:
    code = (
        "import sys\n"
        "from dmexp.cli import main\n"
        f"status = main(['info', {str(GOOD / 'plain-bf16.dmexp')!r}])\n"
        "slow = {'rich', 'gguf', 'tokenizers', 'asyncio', 'subprocess', 'numpy', 'ml_dtypes'}\n"
        "print(status, sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    status, loaded = done.stderr.strip().split(" ", 1)
    assert status == "0"
    assert loaded == "[]"


def test_a_gguf_file_is_shown_from_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    path = CORPUS / "gguf" / "llama-gqa" / "llama-gqa.q8_0.gguf"
    done = dmexp_call(capsys, "info", "--tensors", path)
    assert (done.status, done.err) == (0, "")
    assert "\narchitecture: llama\n" in done.out
    assert "\nfile type: Q8_0 (quantized)\n" in done.out
    assert "\ncontracts: declared\n" in done.out
    assert "  llama.attention.head_count_kv = 2\n" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("blk.0.attn_q.weight "))
    assert "Q8_0" in row
    assert "model.layers.0.self_attn.q_proj.weight" in row
    assert done.out.endswith(f"dmexp export {path}\n")


def test_a_gguf_header_alone_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = CORPUS / "gguf" / "qwen3" / "qwen3.f32.gguf"
    expected = json.loads(dmexp_call(capsys, "info", "--json", whole).out)
    path = tmp_path / "head.gguf"
    path.write_bytes(whole.read_bytes()[: expected["data_offset"]])
    found = json.loads(dmexp_call(capsys, "info", "--json", path).out)
    assert found["tensors"] == expected["tensors"]
    assert found["num_tensors"] == 24


def test_a_long_value_is_cut_short_but_not_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file({"w": np.ones(1, "f4")}, path, metadata={"text": "x" * 500})
    assert f"text = {'x' * 200}... (500 characters" in dmexp_call(capsys, "info", path).out
    document = json.loads(dmexp_call(capsys, "info", "--json", path).out)
    assert document["metadata"]["text"] == "x" * 500
