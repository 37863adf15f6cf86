"""``dmexp contracts``: the listing, one file's steps, the lint, and the record of an import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_util import CORPUS, TINY, dmexp_call
from dmexp import contracts

QWEN = CORPUS / "gguf" / "qwen35" / "qwen35.f32.gguf"


def test_list_shows_every_contract_and_how_it_is_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = dmexp_call(capsys, "contracts", "list", "--json")
    document = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert document["contracts"] == [one.as_dict() for one in contracts.list()]
    named = {one["architecture"] for one in document["contracts"]} | set(document["renames_only"])
    assert named == set(contracts.architectures())
    text = dmexp_call(capsys, "contracts", "list").out
    assert f"{len(document['contracts']):,} contracts of " in text
    assert " verified against files that the exporter wrote" in text


def test_list_of_one_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "list", "llama")
    rows = [line.split() for line in done.out.splitlines() if line.startswith("llama ")]
    assert ["llama", "blk.{i}.attn_q.weight", "@.self_attn.q_proj.weight"] in [
        row[:3] for row in rows
    ]


def test_list_of_an_architecture_that_only_renames(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        dmexp_call(capsys, "contracts", "list", "mpt").out == "1 architecture only renames: mpt\n"
    )
    done = dmexp_call(capsys, "contracts", "list", "mpt", "--json")
    assert json.loads(done.out)["renames_only"] == ["mpt"]
    summary = dmexp_call(capsys, "contracts", "list", "qwen35").out.splitlines()[-1]
    assert " contracts of 1 architecture: " in summary


def test_no_file_is_shown_by_the_table_of_fak(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "show", QWEN, "--convention", "fak")
    assert (done.status, done.out) == (1, "")
    assert "no file is read by the table of fak" in done.err


def test_an_unknown_architecture_of_a_file_is_refused_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(QWEN.read_bytes().replace(b"qwen35", b"qwem35"))
    done = dmexp_call(capsys, "contracts", "show", path)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"dmexp: {path}: no contracts are declared for architecture")
    assert "'qwen35'" in done.err


def test_list_of_fak_has_its_15_and_its_2(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "list", "--convention", "fak", "--json")
    named = [one["architecture"] for one in json.loads(done.out)["contracts"]]
    assert named.count("qwen35") == 15
    assert len(named) == 17


def test_show_of_a_file_needs_its_header_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offset = json.loads(dmexp_call(capsys, "info", "--json", QWEN).out)["data_offset"]
    path = tmp_path / "head.gguf"
    path.write_bytes(QWEN.read_bytes()[:offset])
    done = dmexp_call(capsys, "contracts", "show", path, "--json")
    assert json.loads(done.out)["transforms"] == contracts.transform_ids(QWEN)
    text = dmexp_call(capsys, "contracts", "show", path).out
    row = next(line for line in text.splitlines() if line.startswith("blk.0.ssm_a "))
    assert row.split()[1] == "value-head-deinterleave+invert-neg-exp-decay"
    assert text.endswith(" of 43 tensors are more than renamed\n")


def test_show_of_one_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "show", QWEN, "blk.0.ssm_a")
    assert "invert-neg-exp-decay" in done.out
    assert "1 of 1 tensors" in done.out
    done = dmexp_call(capsys, "contracts", "show", QWEN, "blk.0.nothing")
    assert done.status == 1
    assert "blk.0.nothing" in done.err


def test_show_of_an_architecture_prints_the_whole_record(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = dmexp_call(capsys, "contracts", "show", "qwen35", "blk.0.ssm_a")
    assert done.status == 0
    for words in (
        "qwen35: blk.{i}.ssm_a\n",
        "becomes: @.linear_attn.A_log\n",
        "domain in the file: finite and strictly negative\n",
        "proof: verified",
    ):
        assert words in done.out
    done = dmexp_call(capsys, "contracts", "show", "qwen35", "output.weight")
    assert done.out.startswith("a plain rename")


def test_an_unknown_architecture_is_refused_with_close_spellings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = dmexp_call(capsys, "contracts", "show", "quen35", "--json")
    error = json.loads(done.out)["error"]
    assert (done.status, error["code"]) == (1, "UNKNOWN_ARCHITECTURE")
    assert "qwen35" in error["close"]


def test_a_file_that_is_not_there_is_no_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "show", "nowhere.gguf")
    assert (done.status, done.err) == (1, "dmexp: nowhere.gguf: No such file or directory\n")


def test_lint_is_clean_and_every_mutant_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    done = dmexp_call(capsys, "contracts", "lint")
    assert (done.status, done.out) == (0, "lint: ok\n")
    done = dmexp_call(capsys, "contracts", "lint", "--mutations", "qwen35")
    assert done.status == 0
    assert "NOTHING" not in done.out
    assert done.out.endswith(" mutants noticed\n")


def test_a_finding_makes_lint_fail(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = contracts.Finding("missing-id", "llama", "blk.{i}.x", "a contract needs an id")
    monkeypatch.setattr(contracts, "lint", lambda names: [finding])
    done = dmexp_call(capsys, "contracts", "lint")
    assert done.status == 1
    assert done.out.splitlines() == [str(finding), "lint: 1 findings"]


def test_provenance_is_the_same_from_every_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = dmexp_call(capsys, "contracts", "provenance", QWEN)
    record = json.loads(done.out)
    assert record["architecture"] == "qwen35"
    assert record["domain_checks"]
    assert all(check["rejected"] == 0 for check in record["domain_checks"])
    copy = tmp_path / "other name.gguf"
    copy.write_bytes(QWEN.read_bytes())
    out = tmp_path / "record.json"
    assert dmexp_call(capsys, "contracts", "provenance", copy, "-o", out).status == 0
    assert out.read_text(encoding="utf-8") == done.out
    assert dmexp_call(capsys, "contracts", "provenance", copy, "-o", out).status == 1
    header = dmexp_call(capsys, "contracts", "provenance", QWEN, "--header-only").out
    assert json.loads(header)["transforms"] == record["transforms"]
    assert json.loads(header)["tensor_summaries"] == []


def test_export_writes_the_same_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, record = tmp_path / "m.dmexp", tmp_path / "record.json"
    done = dmexp_call(capsys, "export", QWEN, "-o", out, "--provenance", record, "--quiet")
    assert done.status == 0
    alone = dmexp_call(capsys, "contracts", "provenance", QWEN).out
    assert record.read_text(encoding="utf-8") == alone


def test_a_source_without_steps_has_no_provenance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.dmexp"
    done = dmexp_call(capsys, "export", TINY, "-o", out, "--provenance", tmp_path / "r.json")
    assert done.status == 1
    assert "safetensors" in done.err
    assert list(tmp_path.iterdir()) == []
