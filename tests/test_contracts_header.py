"""Ids from the header alone, and the record of what was undone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts_util import F32, FILES, label, pair
from dmexp import contracts
from dmexp.errors import ContractError, TruncatedError, UnknownArchitectureError
from dmexp.loaders.gguf import GgufHeader, read_header
from gguf_util import Gguf, entry, f32, string


def _cut(path: Path, target: Path) -> Path:
    """A copy that ends where the tensor data begins."""
    target.write_bytes(path.read_bytes()[: read_header(path).data_offset])
    return target


def _header_only(target: Path, architecture: str, tensors: dict[str, tuple[int, ...]]) -> Path:
    """A header written by hand, with no data behind it."""
    body = b"".join(
        string(name)
        + len(dims).to_bytes(4, "little")
        + b"".join(dim.to_bytes(8, "little") for dim in reversed(dims))
        + (0).to_bytes(4, "little")
        + (0).to_bytes(8, "little")
        for name, dims in tensors.items()
    )
    head = b"GGUF" + (3).to_bytes(4, "little") + len(tensors).to_bytes(8, "little")
    target.write_bytes(
        head
        + (1).to_bytes(8, "little")
        + entry("general.architecture", "string", architecture)
        + body
    )
    return target


@pytest.mark.parametrize("path", FILES, ids=label)
def test_ids_need_the_header_only(path: Path, tmp_path: Path) -> None:
    cut = _cut(path, tmp_path / "cut.gguf")
    assert cut.stat().st_size < path.stat().st_size
    found = contracts.transform_ids(cut)
    assert found == contracts.transform_ids(path)
    assert list(found) == list(pair(path).dims)


@pytest.mark.parametrize("path", F32, ids=label)
def test_ids_are_those_of_the_plan(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    found = contracts.transform_ids(path)
    for output in made.outputs:
        for name in output.inputs:
            assert found[name] == output.transform
    for external, _ in made.dropped:
        assert found[external].startswith("drop-")


def test_ids_of_qwen35() -> None:
    path = next(path for path in F32 if path.parent.name == "qwen35")
    found = contracts.transform_ids(path)
    assert found["blk.0.ssm_a"] == "value-head-deinterleave+invert-neg-exp-decay"
    assert found["blk.0.attn_qkv.weight"] == "qkv-value-rows-deinterleave"
    assert found["blk.0.ssm_conv1d.weight"] == "qkv-value-rows-deinterleave"
    assert found["blk.0.attn_gate.weight"] == "value-head-deinterleave"
    assert found["blk.0.ssm_out.weight"] == "value-cols-deinterleave"
    assert found["blk.0.post_attention_norm.weight"] == "gain-minus-one"
    assert found["blk.0.ssm_norm.weight"] == ""
    assert found["blk.1.attn_q.weight"] == ""
    assert found["blk.2.nextn.enorm.weight"] == "gain-minus-one"


@pytest.mark.parametrize("part", [0, 1])
def test_any_part_of_a_split_model_answers_for_all(part: int, tmp_path: Path) -> None:
    name = "blk.0.attn_{}_b.weight"
    head: list[Any] = [("general.architecture", "string", "deepseek2")]
    head += [("deepseek2.attention.head_count", "u32", 1)]
    paths = []
    for index, letter in enumerate("kv"):
        split = [("split.no", "u16", index), ("split.count", "u16", 2)]
        split += [("split.tensors.count", "i32", 2)]
        tensor = f32(name.format(letter), np.zeros((1, 3, 3)))
        path = tmp_path / f"model-0000{index + 1}-of-00002.gguf"
        paths.append(Gguf((head if index == 0 else []) + split, [tensor]).write(path))
    found = contracts.transform_ids(paths[part])
    assert found == dict.fromkeys(map(name.format, "kv"), "merge-kv-b")
    paths[1 - part].unlink()
    with pytest.raises(TruncatedError, match="split in 2 parts"):
        contracts.transform_ids(paths[part])


def test_a_file_cut_inside_the_header_is_refused(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(FILES[0].read_bytes()[:200])
    with pytest.raises(TruncatedError):
        contracts.transform_ids(cut)


def test_an_undeclared_architecture_has_no_ids(tmp_path: Path) -> None:
    path = _header_only(tmp_path / "x.gguf", "qwen9", {"token_embd.weight": (4, 8)})
    with pytest.raises(UnknownArchitectureError, match="'qwen9'"):
        contracts.transform_ids(path)


def test_an_undeclared_name_is_refused_not_skipped(tmp_path: Path) -> None:
    path = _header_only(tmp_path / "x.gguf", "llama", {"blk.0.mystery.weight": (4, 8)})
    with pytest.raises(ContractError, match=r"declares no tensor 'blk\.0\.mystery\.weight'"):
        contracts.transform_ids(path)


def test_steps_without_an_inverse_have_ids(tmp_path: Path) -> None:
    path = _header_only(tmp_path / "x.gguf", "bitnet", {"blk.0.attn_v.weight": (4, 8)})
    assert contracts.transform_ids(path) == {"blk.0.attn_v.weight": "unquantize-ternary"}


# --- provenance ----------------------------------------------------------------------------------


def _record(path: Path, *, values: bool = False) -> dict[str, Any]:
    file = pair(path)
    return contracts.provenance(read_header(path), read=file.stored.__getitem__ if values else None)


def _qwen35() -> Path:
    return next(path for path in F32 if path.parent.name == "qwen35")


@pytest.mark.parametrize("path", F32, ids=label)
def test_the_record_is_the_same_every_time(path: Path) -> None:
    first, second = (contracts.provenance_json(_record(path, values=True)) for _ in range(2))
    assert first == second
    assert json.loads(first)["schema"] == "dmexp-model-load-provenance/1"
    assert first.endswith("}\n")


@pytest.mark.parametrize("path", F32, ids=label)
def test_the_record_has_no_path_and_no_time(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "renamed.gguf"
    copy.write_bytes(path.read_bytes())
    text = contracts.provenance_json(contracts.provenance(read_header(copy)))
    assert text == contracts.provenance_json(_record(path))
    assert "renamed" not in text
    assert str(tmp_path) not in text
    assert "202" not in text.replace(json.loads(text)["manifest_digest"], "")


def test_the_header_alone_leaves_values_out() -> None:
    record = _record(_qwen35())
    assert record["domain_checks"] == []
    assert record["tensor_summaries"] == []
    assert list(record) == [
        "schema", "architecture", "convention", "status", "gguf_version", "manifest_digest", "types",
        "transforms", "dropped", "domain_checks", "tensor_summaries",
    ]  # fmt: skip
    assert record["architecture"] == "qwen35"
    assert record["types"] == {"F32": 43}


def test_transforms_are_folded_with_tensors_and_layers() -> None:
    record = _record(_qwen35())
    rows = {(one["transform"], one["external"]): one for one in record["transforms"]}
    norm = rows["gain-minus-one", "blk.{i}.attn_norm.weight"]
    assert (norm["tensors"], norm["layers"]) == (3, 3)
    last = rows["gain-minus-one", "output_norm.weight"]
    assert (last["tensors"], last["layers"]) == (1, 0)
    decay = rows["value-head-deinterleave+invert-neg-exp-decay", "blk.{i}.ssm_a"]
    assert decay["canonical"] == "@.linear_attn.A_log"
    assert decay["source_domain"] == "finite and strictly negative"
    assert decay["domain_validated"]
    assert not decay["lossless"]
    assert decay["status"] == "verified"
    assert all(one["transform"] for one in record["transforms"])


def test_domains_are_checked_and_counted() -> None:
    record = _record(_qwen35(), values=True)
    checks = {one["expected"]: one for one in record["domain_checks"]}
    decay = checks["finite and strictly negative"]
    assert (decay["tensors"], decay["rejected"], decay["first_failure"]) == (1, 0, None)


def test_a_rejected_tensor_is_placed_and_its_value_withheld() -> None:
    path = _qwen35()
    stored = dict(pair(path).stored)
    stored["blk.0.ssm_a"] = np.array([-1, -1, 0.123456, -1, -1, -1], np.float32)
    record = contracts.provenance(read_header(path), read=stored.__getitem__)
    (check,) = [one for one in record["domain_checks"] if one["rejected"]]
    assert check["first_failure"] == {"tensor": "blk.0.ssm_a", "index": [2]}
    assert "0.123" not in contracts.provenance_json(record)
    names = {one["canonical"] for one in record["tensor_summaries"]}
    assert "model.layers.0.linear_attn.A_log" not in names


def test_summaries_describe_the_canonical_tensors() -> None:
    path = next(path for path in F32 if path.parent.name == "llama-gqa")
    file, record = pair(path), _record(path, values=True)
    by_name = {one["canonical"]: one for one in record["tensor_summaries"]}
    assert set(by_name) == set(file.checkpoint)
    name = "model.layers.1.self_attn.k_proj.weight"
    wanted, summary = file.checkpoint[name], by_name[name]
    assert summary["dims"] == list(wanted.shape)
    assert summary["finite"] == summary["values"] == wanted.size
    assert summary["first_non_finite"] == -1
    assert np.float32(summary["min"]) == wanted.min()
    assert np.float32(summary["max"]) == wanted.max()
    digest = hashlib.sha256(name.encode())
    for dim in wanted.shape:
        digest.update(dim.to_bytes(8, "little"))
    digest.update(wanted.astype("<f4").tobytes())
    assert summary["sha256"] == digest.hexdigest()


def test_the_manifest_digest_depends_on_names_types_and_dims_not_on_order() -> None:
    rows = [("a", "F32", (2, 3)), ("b", "F16", (4,))]
    digest = contracts.manifest_digest(rows)
    assert digest.startswith("sha256:")
    assert digest == contracts.manifest_digest(rows[::-1])
    for other in (("a", "F32", (3, 2)), ("a", "F16", (2, 3)), ("c", "F32", (2, 3))):
        assert contracts.manifest_digest([other, rows[1]]) != digest


def test_dropped_tensors_are_listed_with_their_reason() -> None:
    path = next(path for path in F32 if path.parent.name == "gemma4")
    record = _record(path, values=True)
    assert [one["external"] for one in record["dropped"]] == ["rope_freqs.weight"]
    assert "partial rotary" in record["dropped"][0]["reason"]


def test_a_gguf_header_has_what_provenance_needs() -> None:
    header: GgufHeader = read_header(FILES[0])
    assert contracts.provenance(header)["gguf_version"] == header.version
