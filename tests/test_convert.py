"""Out of a `.dmexp` file again: a Hugging Face directory, or another dtype."""

from __future__ import annotations

import itertools
import json
import os
from datetime import date
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import tomli
from safetensors.numpy import load_file as load_safetensors

import dmexp
from dmexp._convert import ConvertReport, convert, shard_bytes
from dmexp._diff import diff
from dmexp._export import export
from dmexp._hf_writer import Planned, plan_shards, write_safetensors
from dmexp.errors import (
    DmexpError,
    InvalidArgumentError,
    ShapeMismatchError,
    TargetExistsError,
    ValueOverflowError,
)
from dmexp.loaders import open_source
from families_util import CHECKPOINTS, CORPUS
from hf_util import INDEX, LLAMA, Arrays, corpus, corpus_arrays, llama, same_bits, single


def exported(folder: Path, out: Path, dtype: str = "f32", **options: Any) -> Path:
    with open_source(folder) as source:
        export(source, out, dtype=dtype, **options)
    return out


def read_back(folder: Path) -> Arrays:
    """Every tensor, by the reference reader; shards by what the index says."""
    index = folder / INDEX
    if not index.exists():
        arrays: Arrays = load_safetensors(folder / "model.safetensors")
        return arrays
    weight_map = json.loads(index.read_text("utf-8"))["weight_map"]
    found: Arrays = {}
    for shard in sorted(set(weight_map.values())):
        held = load_safetensors(folder / shard)
        assert set(held) == {name for name, place in weight_map.items() if place == shard}
        found |= held
    assert set(found) == set(weight_map)
    return found


# --- there and back ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_corpus_goes_in_and_comes_out_without_a_difference(tmp_path: Path, name: str) -> None:
    file = exported(corpus(name), tmp_path / "m.dmexp")
    with dmexp.safe_open(file) as opened:
        assert str(opened.header.shapes).startswith("yes (")
    report = convert(file, tmp_path / "out")
    assert isinstance(report, ConvertReport)
    with open_source(corpus(name)) as before, open_source(tmp_path / "out") as after:
        found = diff(before, after)
        assert found.equal
        assert all(tensor.differing == 0 for tensor in found.tensors)
        metadata = {k: v for k, v in before.info.metadata.items() if k != "mixed_dtypes"}
        assert after.info.metadata == metadata
    arrays = read_back(tmp_path / "out")
    expected = corpus_arrays(name)
    assert arrays.keys() == expected.keys()
    for key, array in expected.items():
        assert same_bits(arrays[key], array.astype(np.float32)), key


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_config_comes_out_key_by_key(tmp_path: Path, name: str) -> None:
    convert(exported(corpus(name), tmp_path / "m.dmexp"), tmp_path / "out")
    before = json.loads((corpus(name) / "config.json").read_text("utf-8"))
    after = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    if "dtype" in before:
        before["dtype"] = "float32"
    assert after == before


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_the_stored_dtype_is_the_default_and_keeps_every_bit(tmp_path: Path, dtype: str) -> None:
    file = exported(corpus("llama-gqa"), tmp_path / "m.dmexp", dtype)
    report = convert(file, tmp_path / "out")
    assert (report.source_dtype, report.dtype, report.changed) == (dtype, dtype, 0)
    stored = dmexp.load_file(file, "stored")
    arrays = read_back(tmp_path / "out")
    assert list(arrays) == sorted(stored)
    assert all(same_bits(arrays[name], array) for name, array in stored.items())
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert config["dtype"] == {"f16": "float16", "bf16": "bfloat16"}[dtype]
    assert any("the header's config says float32" in notice for notice in report.notices)
    # What was written opens again, the precision rule included.
    with open_source(tmp_path / "out") as source:
        assert len(source.entries()) == report.num_tensors


def test_both_spellings_of_the_dtype_follow_the_weights(tmp_path: Path) -> None:
    config = {**LLAMA, "dtype": "float32", "vision_config": {"torch_dtype": "float32", "x": 1}}
    file = exported(single(tmp_path / "m", None, config), tmp_path / "m.dmexp", "bf16")
    convert(file, tmp_path / "out")
    after = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert after["dtype"] == after["torch_dtype"] == "bfloat16"
    assert after["vision_config"] == {"torch_dtype": "bfloat16", "x": 1}


# --- the files ---------------------------------------------------------------------------------


def test_the_file_has_the_layout_of_the_reference(tmp_path: Path) -> None:
    convert(exported(single(tmp_path / "m"), tmp_path / "m.dmexp"), tmp_path / "out")
    path = tmp_path / "out" / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    ends = [entry["data_offsets"] for entry in header.values()]
    assert ends[0][0] == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ends))
    assert ends[-1][1] == len(data) - 8 - length
    with safetensors.safe_open(path, framework="np") as file:
        assert file.metadata() == {"format": "pt"}
    assert sorted(os.listdir(tmp_path / "out")) == [
        "config.json",
        "dmexp.json",
        "model.safetensors",
    ]


@pytest.mark.parametrize("size", [1, 1000, "2KB", "3KiB", 10**9])
def test_shards_keep_to_their_size_and_the_index_is_right(tmp_path: Path, size: Any) -> None:
    file = exported(single(tmp_path / "m"), tmp_path / "m.dmexp")
    report = convert(file, tmp_path / "out", shard_size=size)
    arrays = read_back(tmp_path / "out")
    assert all(same_bits(arrays[name], array) for name, array in llama().items())
    folder = tmp_path / "out"
    shards = sorted(folder.glob("model-*.safetensors"))
    if size == 10**9:
        assert shards == []
        assert not (folder / INDEX).exists()
    else:
        count = len(shards)
        assert [s.name for s in shards] == [
            f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)
        ]
        for shard in shards:
            held = load_safetensors(shard)
            total = sum(array.nbytes for array in held.values())
            assert total <= shard_bytes(size) or len(held) == 1
        index = json.loads((folder / INDEX).read_text("utf-8"))
        assert index["metadata"]["total_size"] == sum(a.nbytes for a in llama().values())
        assert INDEX in report.files
    assert set(report.files) == set(os.listdir(folder))
    assert report.written_bytes == sum(f.stat().st_size for f in folder.iterdir())
    with open_source(folder) as source:
        assert source.info.notices == []


def test_scalars_empty_tensors_and_strange_names_come_out(tmp_path: Path) -> None:
    arrays = {
        "scalar": np.float32(2.5),
        "empty": np.zeros((0, 3), np.float32),
        'quo"te\\back': np.float32([1]),
        "größe 🙂": np.float32([2]),
    }
    dmexp.save_file(arrays, tmp_path / "m.dmexp", dtype="bf16")
    report = convert(tmp_path / "m.dmexp", tmp_path / "out")
    found = load_safetensors(tmp_path / "out" / "model.safetensors")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert same_bits(found[name], np.asarray(array).astype(ml_dtypes.bfloat16))
    assert any("no config" in notice for notice in report.notices)
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_name_that_safetensors_keeps_for_itself_is_refused(tmp_path: Path) -> None:
    dmexp.save_file({"__metadata__": np.ones(1, np.float32)}, tmp_path / "m.dmexp")
    with pytest.raises(InvalidArgumentError, match="__metadata__"):
        convert(tmp_path / "m.dmexp", tmp_path / "out")
    assert os.listdir(tmp_path) == ["m.dmexp"]


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, memoryview(data)[:1]))
    array = np.arange(5, dtype=np.float32)
    write_safetensors(tmp_path / "x", [Planned("w", (5,))], "f32", lambda _: [array])
    monkeypatch.undo()
    assert same_bits(load_safetensors(tmp_path / "x")["w"], array)


@pytest.mark.parametrize(
    ("text", "expected"),
    [(5, 5), ("5", 5), ("5GB", 5 * 10**9), ("5 gb", 5 * 10**9), ("2GiB", 2**31), ("1kb", 1000)],
)
def test_sizes_in_text(text: Any, expected: int) -> None:
    assert shard_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-1", "1.5GB", "5XB", 0, -1, True, None, "9" * 400])
def test_sizes_that_are_none(text: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        shard_bytes(text)


def test_no_tensors_is_one_file() -> None:
    assert plan_shards([], "f32", 10) == [("model.safetensors", [])]


# --- what has no place in the usual files ------------------------------------------------------


def test_metadata_source_and_step_survive_in_dmexp_json(tmp_path: Path) -> None:
    metadata = {"note": "mine", "nested": {"list": [1, 2.5, "x"], "flag": True}}
    file = exported(
        single(tmp_path / "m"), tmp_path / "m.dmexp", metadata=metadata, step=7, source_label="here"
    )
    convert(file, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "dmexp.json").read_text("utf-8"))
    assert record["metadata"] == metadata
    assert (record["source"], record["step"], record["dtype"]) == ("here", 7, "f32")
    assert tomli.loads(record["config"]) == LLAMA
    with open_source(tmp_path / "out") as source:
        assert source.info.metadata == metadata
        assert source.info.step == 7


UNKNOWN = CORPUS / "dmexp" / "good" / "unknown-keys-bf16.dmexp"


def test_p25_unknown_header_keys_survive_in_dmexp_json(tmp_path: Path) -> None:
    convert(UNKNOWN, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "dmexp.json").read_text("utf-8"))
    assert record["header"] == {"future": [1, {"a": 2}]}
    assert record["metadata"]["tensor_keys"] == {"embedding.weight": {"note": "later"}}


def test_p25_unknown_header_keys_survive_in_another_file(tmp_path: Path) -> None:
    convert(UNKNOWN, tmp_path / "m.dmexp", dtype="f32")
    with dmexp.safe_open(tmp_path / "m.dmexp") as file:
        assert file.header.extra == {"future": [1, {"a": 2}]}
        assert file.header.metadata["tensor_keys"] == {"embedding.weight": {"note": "later"}}
    convert(tmp_path / "m.dmexp", tmp_path / "again.dmexp", dtype="f32")
    assert (tmp_path / "again.dmexp").read_bytes() == (tmp_path / "m.dmexp").read_bytes()


def with_header_keys(path: Path, text: str) -> None:
    """Put keys into the header of a file, before its tensors, as a later version might."""
    data = path.read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = data[24 : 24 + length].decode().split("# header-crc32")[0]
    header = header.replace('config = "', f'{text}\nconfig = "', 1).encode()
    path.write_bytes(
        data[:8] + len(header).to_bytes(4, "little") + data[12:24] + header + data[24 + length :]
    )


def test_p25_keys_of_every_kind_survive(tmp_path: Path) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file({"w": np.ones(2, np.float32)}, path, metadata={"a": 1})
    text = "when = 2026-01-02\nlist = [1, 'x']\ntable = {a = 1, b = {c = [2]}}\nrows = [{a = 1}, {b = 2}]"
    with_header_keys(path, text)
    expected = tomli.loads(text)
    with dmexp.safe_open(path) as file:
        assert file.header.extra == expected
    convert(path, tmp_path / "n.dmexp", dtype="f32")
    with dmexp.safe_open(tmp_path / "n.dmexp") as file:
        assert file.header.extra == expected
        assert file.header.metadata == {"a": 1}
    dmexp.verify(tmp_path / "n.dmexp")
    convert(path, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "dmexp.json").read_text("utf-8"))
    assert record["header"] == {**expected, "when": date(2026, 1, 2).isoformat()}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"metadata": 3, "step": 0}', "{", '{"step": -1}']
)
def test_a_dmexp_json_that_is_none_is_ignored_with_a_notice(tmp_path: Path, text: str) -> None:
    folder = single(tmp_path)
    (folder / "dmexp.json").write_text(text, "utf-8")
    with open_source(folder) as source:
        assert source.info.metadata == {}
        assert any("dmexp.json is ignored" in notice for notice in source.info.notices)


def test_a_tokenizer_comes_out_as_files_and_goes_in_again(tmp_path: Path) -> None:
    folder = single(tmp_path / "m")
    tokenizer = {
        "model": {"type": "BPE", "vocab": {"a": 0, "</s>": 1}, "merges": []},
        "added_tokens": [{"id": 1, "content": "</s>", "special": True}],
    }
    settings = {"eos_token": "</s>", "chat_template": "{{ messages }}", "add_bos_token": False}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 0]}', "utf-8")
    file = exported(folder, tmp_path / "m.dmexp")
    convert(file, tmp_path / "out")
    out = tmp_path / "out"
    assert json.loads((out / "tokenizer.json").read_text("utf-8"))["model"] == tokenizer["model"]
    assert (
        settings.items() <= json.loads((out / "tokenizer_config.json").read_text("utf-8")).items()
    )
    assert json.loads((out / "generation_config.json").read_text("utf-8")) == {
        "eos_token_id": [0, 1]
    }
    with open_source(folder) as before, open_source(out) as after:
        assert after.info.metadata["tokenizer"] == before.info.metadata["tokenizer"]


# --- whole or not at all -----------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return exported(single(tmp_path / "m"), tmp_path / "m.dmexp")


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_an_existing_target_needs_force(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    convert(file, out)
    before = {f.name: f.read_bytes() for f in out.iterdir()}
    with pytest.raises(TargetExistsError, match="--force"):
        convert(file, out)
    report = convert(file, out, shard_size=1000, force=True)
    assert set(report.files) == set(names(out))
    assert "model.safetensors" in before
    assert not (out / "model.safetensors").exists()
    assert names(tmp_path) == ["m", "m.dmexp", "out"]


def test_force_does_not_remove_what_no_conversion_wrote(tmp_path: Path, file: Path) -> None:
    out = tmp_path / "out"
    convert(file, out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"notes\.txt"):
        convert(file, out, force=True)
    (out / "notes.txt").unlink()
    (out / "dmexp.json").unlink()
    with pytest.raises(InvalidArgumentError, match=r"dmexp\.json"):
        convert(file, out, force=True)
    with pytest.raises(InvalidArgumentError, match="is a file"):
        convert(file, file.parent / "m" / "config.json", force=True)


def test_a_failure_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    convert(file, out)
    before = {f.name: f.read_bytes() for f in out.iterdir()}

    def fail(done: int, total: int | None) -> None:
        if done > 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(file, out, force=True, progress=fail)
    with pytest.raises(KeyboardInterrupt):
        convert(file, tmp_path / "new", progress=fail)
    assert {f.name: f.read_bytes() for f in out.iterdir()} == before
    assert names(tmp_path) == ["m", "m.dmexp", "out"]
    real = os.replace

    def refuse(a: Any, b: Any) -> None:
        if str(a).endswith(".tmp"):
            raise PermissionError("no")
        real(a, b)

    monkeypatch.setattr(Path, "replace", lambda self, to: refuse(self, to))
    with pytest.raises(PermissionError):
        convert(file, out, force=True)
    monkeypatch.undo()
    assert {f.name: f.read_bytes() for f in out.iterdir()} == before
    assert names(tmp_path) == ["m", "m.dmexp", "out"]


def test_same_input_same_bytes(tmp_path: Path, file: Path) -> None:
    convert(file, tmp_path / "a", shard_size=1000)
    convert(file, tmp_path / "b", shard_size=1000)
    assert names(tmp_path / "a") == names(tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_damaged_file_gives_no_directory(tmp_path: Path, file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(DmexpError) as caught:
        convert(file, tmp_path / "out")
    assert caught.value.code == "CHECKSUM"
    assert names(tmp_path) == ["m", "m.dmexp"]


def test_a_config_that_does_not_describe_the_tensors_is_not_passed_on(tmp_path: Path) -> None:
    halved = CORPUS / "dmexp" / "hostile" / "llama-config-halved.dmexp"
    with pytest.raises(ShapeMismatchError):
        convert(halved, tmp_path / "out")
    assert names(tmp_path) == []


def test_progress_ends_at_the_whole(tmp_path: Path, file: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    convert(file, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    total = sum(array.nbytes for array in llama().values())
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


# --- between dtypes ----------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["file", "directory"])
@pytest.mark.parametrize(("stored", "dtype"), [("f32", "bf16"), ("f32", "f16"), ("bf16", "f16")])
def test_a_second_narrowing_is_measured_and_its_cost_is_said(
    tmp_path: Path, stored: str, dtype: str, target: str
) -> None:
    arrays: Arrays = {"w": np.float32([1.001, 1e-9, 0, 2, 65000]), "v": np.float32([-3.3])}
    source = tmp_path / "m.dmexp"
    dmexp.save_file(arrays, source, dtype=stored)
    before = dmexp.load_file(source)
    out = tmp_path / ("n.dmexp" if target == "file" else "out")
    report = convert(source, out, dtype=dtype)
    after = dmexp.load_file(out, "stored") if target == "file" else read_back(out)
    changed, flushed, largest = 0, 0, 0.0
    for name, array in before.items():
        expected = dmexp.narrow(array, dtype)
        assert same_bits(after[name], expected)
        distance = np.abs(array.astype(np.float64) - expected.astype(np.float64))
        changed += int(np.count_nonzero(distance))
        flushed += int(np.count_nonzero((array != 0) & (expected == 0)))
        largest = max(largest, float(distance.max()))
    assert (report.changed, report.flushed, report.max_abs_change) == (changed, flushed, largest)
    assert changed > 0
    (cost,) = [notice for notice in report.notices if "changed" in notice]
    assert f"{changed} of 6 values" in cost
    assert ("second rounding" in cost) == (stored != "f32")
    if target == "file":
        with dmexp.safe_open(out) as file:
            assert (file.header.dtype, file.header.flushed) == (dtype, flushed)
        assert dmexp.info(out).dtype == dtype


@pytest.mark.parametrize("target", ["n.dmexp", "out"])
def test_widening_changes_nothing_and_says_what_it_cannot_do(tmp_path: Path, target: str) -> None:
    source = exported(corpus("llama-gqa"), tmp_path / "m.dmexp", "bf16")
    report = convert(source, tmp_path / target, dtype="float32")
    assert (report.changed, report.dtype) == (0, "f32")
    assert any("does not come back" in notice for notice in report.notices)
    with open_source(source) as a, open_source(tmp_path / target) as b:
        assert diff(a, b).equal


@pytest.mark.parametrize("target", ["n.dmexp", "out"])
def test_a_value_that_the_dtype_cannot_hold_is_named_and_nothing_is_written(
    tmp_path: Path, target: str
) -> None:
    array = np.ones((3, 700_000), np.float32)
    array[2, 5] = -70000.0
    dmexp.save_file({"ok": np.ones(2, np.float32), "w": array}, tmp_path / "m.dmexp", dtype="f32")
    with pytest.raises(ValueOverflowError, match="'w'") as caught:
        convert(tmp_path / "m.dmexp", tmp_path / target, dtype="f16")
    assert (caught.value.tensor, caught.value.index) == ("w", (2, 5))
    assert caught.value.suggestion == "bf16"
    assert names(tmp_path) == ["m.dmexp"]


def test_a_file_may_replace_itself(tmp_path: Path, file: Path) -> None:
    with pytest.raises(TargetExistsError):
        convert(file, file, dtype="bf16")
    report = convert(file, file, dtype="bf16", force=True)
    assert report.changed > 0
    assert dmexp.info(file).dtype == "bf16"
    assert names(tmp_path) == ["m", "m.dmexp"]


def test_the_same_dtype_keeps_every_byte_of_the_payload(tmp_path: Path, file: Path) -> None:
    report = convert(file, tmp_path / "n.dmexp")
    assert (report.kind, report.changed, report.notices) == ("file", 0, [])
    assert (tmp_path / "n.dmexp").read_bytes() == file.read_bytes()


def test_the_report_is_plain_data(tmp_path: Path, file: Path) -> None:
    data = json.loads(json.dumps(convert(file, tmp_path / "out").as_dict()))
    assert data["kind"] == "directory"
    assert "config.json" in data["files"]
