"""A Hugging Face directory as a source: which files count, and what is refused before reading."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tomli

from dmexp.errors import (
    DmexpError,
    FormatError,
    InvalidArgumentError,
    ShapeMismatchError,
    TensorNotFoundError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
)
from dmexp.loaders import Source, SourceOptions, open_source
from dmexp.loaders.huggingface import open_directory
from families_util import CHECKPOINTS
from hf_util import (
    INDEX,
    LLAMA,
    Arrays,
    corpus,
    corpus_arrays,
    llama,
    read_index,
    safetensors_bytes,
    same_bits,
    shard_names,
    sharded,
    single,
    write_config,
    write_index,
)


def arrays_of(source: Source) -> Arrays:
    return {entry.name: source.read(entry.name) for entry in source.entries()}


def require_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert same_bits(found[name], array), name


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_each_checkpoint_of_the_corpus_opens_bit_for_bit(name: str) -> None:
    with open_source(corpus(name)) as source:
        require_same(arrays_of(source), corpus_arrays(name))
        config = json.loads((corpus(name) / "config.json").read_text("utf-8"))
        assert tomli.loads(source.info.config)["model_type"] == config["model_type"]
        assert source.info.kind == "Hugging Face directory"
        assert source.info.label == str(corpus(name))
        assert source.info.weight_bytes == sum(a.nbytes for a in corpus_arrays(name).values())


def test_shards_and_one_file_give_the_same(tmp_path: Path) -> None:
    with open_directory(sharded(tmp_path / "many")) as many:
        require_same(arrays_of(many), llama())
    with open_directory(single(tmp_path / "one")) as one:
        require_same(arrays_of(one), llama())
        assert sorted(e.name for e in one.entries()) == sorted(e.name for e in many.entries())


def test_order_is_that_of_shard_names_then_of_bytes(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    names = list(llama())
    with open_directory(folder) as source:
        expected = names[0::3] + names[1::3] + names[2::3]
        assert [entry.name for entry in source.entries()] == expected


def test_tensors_are_read_in_any_order_and_outlive_the_source(tmp_path: Path) -> None:
    with open_directory(sharded(tmp_path)) as source:
        found = {name: source.read(name) for name in reversed(llama())}
    require_same(found, dict(reversed(llama().items())))
    with pytest.raises(InvalidArgumentError, match="closed"):
        source.read("model.norm.weight")


def test_an_unknown_name_is_not_found(tmp_path: Path) -> None:
    with open_directory(single(tmp_path)) as source, pytest.raises(TensorNotFoundError):
        source.read("model.norm")


# --- P51: the index is the authority -----------------------------------------------------------


def test_p51_every_missing_shard_is_listed_before_any_is_read(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    first, second, third = shard_names(3)
    (folder / first).unlink()
    (folder / third).unlink()
    # Not even the header of the one that is there is looked at.
    (folder / second).write_bytes(b"no safetensors")
    with pytest.raises(FormatError) as caught:
        open_directory(folder)
    assert caught.value.missing == [first, third]
    assert first in str(caught.value)
    assert third in str(caught.value)


def test_p51_extra_files_are_mentioned_and_ignored(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    stray = {"stray.weight": np.ones(4, np.float32), "model.norm.weight": np.ones(16, np.float32)}
    (folder / "extra.safetensors").write_bytes(safetensors_bytes(stray))
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    with open_directory(folder) as source:
        require_same(dict(sorted(arrays_of(source).items())), dict(sorted(llama().items())))
        (notice,) = source.info.notices
    assert "extra.safetensors" in notice
    assert "pytorch_model.bin" in notice


def test_p51_a_complete_index_counts_more_than_a_merged_file(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model.safetensors").write_bytes(safetensors_bytes(llama(seed=4)))
    with open_directory(folder) as source:
        assert same_bits(source.read("model.norm.weight"), llama()["model.norm.weight"])
        assert any("model.safetensors" in notice for notice in source.info.notices)


@pytest.mark.parametrize("index", ["stale", "broken", "empty"])
def test_p51_an_index_that_cannot_count_is_mentioned_beside_a_merged_file(
    tmp_path: Path, index: str
) -> None:
    folder = single(tmp_path)
    if index == "stale":
        write_index(folder, dict.fromkeys(llama(), "model-00001-of-00002.safetensors"))
    elif index == "broken":
        (folder / INDEX).write_text("no JSON", "utf-8")
    else:
        write_index(folder, {})
    with open_directory(folder) as source:
        require_same(arrays_of(source), llama())
        assert any(INDEX in notice and "ignored" in notice for notice in source.info.notices)


def test_p51_half_of_the_shards_beside_a_merged_file_is_not_guessed_at(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model.safetensors").write_bytes(safetensors_bytes(llama()))
    (folder / shard_names(3)[1]).unlink()
    with pytest.raises(FormatError, match=r"dmexp export \S*model\.safetensors") as caught:
        open_directory(folder)
    assert caught.value.missing == [shard_names(3)[1]]


def test_p51_an_index_may_name_the_merged_file_itself(tmp_path: Path) -> None:
    folder = single(tmp_path)
    write_index(folder, dict.fromkeys(llama(), "model.safetensors"))
    with open_directory(folder) as source:
        require_same(arrays_of(source), llama())
        assert source.info.notices == []


# --- P52: index against shard headers ----------------------------------------------------------


def test_p52_each_tensor_has_to_be_in_the_shard_that_the_index_names(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    weight_map = read_index(folder)
    first, second, third = shard_names(3)
    moved = {name: third for name, shard in weight_map.items() if shard == first}
    write_index(folder, weight_map | moved)
    with pytest.raises(FormatError) as caught:
        open_directory(folder)
    # The first shard is not even named now, so it is not looked into.
    assert caught.value.misplaced == [
        {"tensor": name, "shard": third, "found_in": []} for name in moved
    ]
    swapped = dict.fromkeys(list(moved)[:1], second)
    write_index(folder, weight_map | swapped)
    with pytest.raises(FormatError) as caught:
        open_directory(folder)
    (name,) = swapped
    assert caught.value.misplaced == [{"tensor": name, "shard": second, "found_in": [first]}]
    assert name in str(caught.value)
    assert second in str(caught.value)


def test_p52_a_stale_copy_in_another_shard_never_wins(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    old = {"model.norm.weight": np.full(16, 7, np.float32), "gone.weight": np.ones(2, np.float32)}
    for shard in shard_names(3):
        if read_index(folder)["model.norm.weight"] == shard:
            continue
        names = [name for name, place in read_index(folder).items() if place == shard]
        kept = {name: llama()[name] for name in names}
        (folder / shard).write_bytes(safetensors_bytes({**old, **kept}))
    with open_directory(folder) as source:
        require_same(dict(sorted(arrays_of(source).items())), dict(sorted(llama().items())))
        (notice,) = source.info.notices
    assert "model.norm.weight in" in notice
    assert "gone.weight in" in notice


# --- P53: names that lead out of the directory -------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "../other/model.safetensors",
        "..",
        ".",
        "",
        "/etc/passwd",
        "sub/model.safetensors",
        "sub\\model.safetensors",
        "C:model.safetensors",
        "C:\\model.safetensors",
        "\\\\host\\share\\m.safetensors",
        "model\0.safetensors",
        "model\n.safetensors",
        3,
        None,
        ["model.safetensors"],
    ],
)
def test_p53_only_bare_names_are_taken(tmp_path: Path, name: Any) -> None:
    folder = sharded(tmp_path / "m")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.safetensors").write_bytes(safetensors_bytes(llama()))
    write_index(folder, {**read_index(folder), "model.norm.weight": name})
    with pytest.raises(FormatError, match="bare name") as caught:
        open_directory(folder)
    assert caught.value.key == "model.norm.weight"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_p53_shards_that_are_links_open_as_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    real = sharded(tmp_path / "real")
    blobs = tmp_path / "hub" / "blobs"
    snapshot = tmp_path / "hub" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(real.iterdir())):
        shutil.move(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    with open_directory(snapshot) as source:
        require_same(dict(sorted(arrays_of(source).items())), dict(sorted(llama().items())))
    target = snapshot / shard_names(3)[0]
    target.resolve().unlink()
    with pytest.raises(FormatError, match="not downloaded") as caught:
        open_directory(snapshot)
    assert caught.value.missing == [target.name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "array"),
        ("{}", "weight_map is null"),
        ('{"weight_map": []}', "weight_map is array"),
        ('{"weight_map": {}}', "weight_map is empty"),
        ('{"weight_map": {"a": "x", "a": "y"}}', "twice"),
        ('{"weight_map": ', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_an_index_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    folder = sharded(tmp_path)
    (folder / INDEX).write_text(text, "utf-8")
    with pytest.raises(FormatError) as caught:
        open_directory(folder)
    assert says in str(caught.value)
    assert INDEX in str(caught.value)


# --- P54, P55: shared and tied tensors ---------------------------------------------------------


def test_p54_two_names_over_equal_values_are_two_full_copies(tmp_path: Path) -> None:
    arrays = llama()
    arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()
    with open_directory(single(tmp_path, arrays)) as source:
        require_same(arrays_of(source), arrays)
        assert source.info.weight_bytes == sum(array.nbytes for array in arrays.values())
        assert source.info.metadata == {}


TIED = {**LLAMA, "tie_word_embeddings": True}


def headless(**changes: Any) -> Arrays:
    return {name: array for name, array in llama(**changes).items() if name != "lm_head.weight"}


def test_p55_a_tied_head_that_is_absent_is_recorded(tmp_path: Path) -> None:
    with open_directory(single(tmp_path, headless(), TIED)) as source:
        assert source.info.metadata["tied"] == {"lm_head.weight": "model.embed_tokens.weight"}


@pytest.mark.parametrize("flag", [False, None])
def test_p55_an_absent_head_without_the_flag_is_refused(tmp_path: Path, flag: Any) -> None:
    config = {**LLAMA, "tie_word_embeddings": flag}
    with pytest.raises(ShapeMismatchError, match="tie_word_embeddings") as caught:
        open_directory(single(tmp_path, headless(), config))
    assert caught.value.conflicts[0]["name"] == "lm_head.weight"


def test_p55_a_stored_head_that_is_the_embedding_is_recorded(tmp_path: Path) -> None:
    arrays = llama()
    arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()
    with open_directory(sharded(tmp_path, arrays, TIED)) as source:
        assert source.info.metadata["tied"] == {"lm_head.weight": "model.embed_tokens.weight"}
        assert any("stored as well" in notice for notice in source.info.notices)


@pytest.mark.parametrize("build", [single, sharded])
def test_p55_a_stored_head_that_differs_from_a_tied_embedding_is_refused(
    tmp_path: Path, build: Any
) -> None:
    arrays = llama()
    arrays["lm_head.weight"] = arrays["model.embed_tokens.weight"].copy()
    arrays["lm_head.weight"][-1, -1] += 1
    with pytest.raises(FormatError, match="differ") as caught:
        open_directory(build(tmp_path, arrays, TIED))
    assert caught.value.key == "tie_word_embeddings"


def test_p55_an_absent_flag_means_what_the_family_says(tmp_path: Path) -> None:
    config = json.loads((corpus("gemma3") / "config.json").read_text("utf-8"))
    del config["tie_word_embeddings"]
    with open_directory(single(tmp_path, corpus_arrays("gemma3"), config)) as source:
        assert source.info.metadata["tied"] == {"lm_head.weight": "model.embed_tokens.weight"}


def test_p55_a_flag_lost_in_a_nested_config_is_found(tmp_path: Path) -> None:
    config = json.loads((corpus("qwen35") / "config.json").read_text("utf-8"))
    arrays = {n: a for n, a in corpus_arrays("qwen35").items() if n != "lm_head.weight"}
    outer = {"model_type": "qwen3_5", "tie_word_embeddings": True}
    del config["tie_word_embeddings"]
    nested = {**outer, "text_config": config}
    with open_directory(single(tmp_path / "a", arrays, nested)) as source:
        assert source.info.metadata["tied"] == {"lm_head.weight": "model.embed_tokens.weight"}
    nested = {**outer, "text_config": {**config, "tie_word_embeddings": False}}
    with pytest.raises(FormatError, match=r"text_config\.tie_word_embeddings"):
        open_directory(single(tmp_path / "b", arrays, nested))


# --- P56, P57, P58 in a directory --------------------------------------------------------------


def test_p56_a_head_width_of_its_own_passes(tmp_path: Path) -> None:
    arrays = llama()
    for name, rows in (("q", 24), ("k", 12), ("v", 12)):
        arrays[f"model.layers.0.self_attn.{name}_proj.weight"] = np.ones((rows, 16), np.float32)
    arrays["model.layers.0.self_attn.o_proj.weight"] = np.ones((16, 24), np.float32)
    with open_directory(single(tmp_path, arrays, {**LLAMA, "head_dim": 6})) as source:
        assert len(source.entries()) == 12


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rope_theta": None}, "rope_theta"),
        ({"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters.rope_theta"),
        ({"dtype": "float16"}, "torch_dtype"),
        ({"torch_dtype": None}, "torch_dtype"),
    ],
)
def test_p57_absence_and_disagreement_refuse_the_directory(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(FormatError) as caught:
        open_directory(single(tmp_path, None, {**LLAMA, **changes}))
    assert says in str(caught.value)
    assert str(caught.value.path).endswith("config.json")


def test_p58_infinity_in_a_key_that_is_not_read_is_kept(tmp_path: Path) -> None:
    folder = single(tmp_path)
    text = json.dumps(LLAMA)[:-1] + ', "time_step_limit": [0.0, Infinity]}'
    write_config(folder, text)
    with open_directory(folder) as source:
        assert tomli.loads(source.info.config)["time_step_limit"] == [0.0, float("inf")]
    write_config(folder, text.replace("10000.0", "NaN"))
    with pytest.raises(FormatError, match=r'"rope_theta" \(line 1\).*NaN'):
        open_directory(folder)


# --- P18, P59: dtypes --------------------------------------------------------------------------


def test_p18_weights_of_another_dtype_than_the_configs_are_each_named(tmp_path: Path) -> None:
    arrays = llama(ml_dtypes.bfloat16)
    odd = ["model.norm.weight", "model.layers.0.input_layernorm.weight"]
    for name in odd:
        arrays[name] = arrays[name].astype(np.float32)
    folder = single(tmp_path, arrays, {**LLAMA, "torch_dtype": "bfloat16"})
    with pytest.raises(UnsupportedDtypeError, match="--allow-mixed") as caught:
        open_directory(folder)
    assert caught.value.tensors == dict.fromkeys(sorted(odd), "f32")
    for name in odd:
        assert f"{name} (f32)" in str(caught.value)
    with open_directory(folder, SourceOptions(allow_mixed=True)) as source:
        assert source.info.metadata["mixed_dtypes"] == {"stated": "bf16", "f32": sorted(odd)}
        assert any("2 of 12" in notice for notice in source.info.notices)


def test_p18_uniform_weights_of_another_dtype_break_the_rule_too(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedDtypeError, match="12 of 12"):
        open_directory(single(tmp_path, llama(np.float16)))


def test_p12_an_integer_buffer_is_listed_and_left_to_the_export(tmp_path: Path) -> None:
    arrays = {**llama(), "model.position_ids": np.arange(4, dtype=np.int64)}
    with open_directory(single(tmp_path, arrays)) as source:
        kinds = {entry.name: entry.dtype for entry in source.entries()}
    assert kinds["model.position_ids"] == "i64"


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ({"model.layers.0.mlp.up_proj.weight_scale": np.ones(1, np.float32)}, "UNSUPPORTED_DTYPE"),
        ({"model.layers.0.mlp.up_proj.weight_scale_inv": np.ones(1)}, "UNSUPPORTED_DTYPE"),
        ({"model.layers.0.mlp.up_proj.input_scale": np.ones(1, np.float32)}, "UNSUPPORTED_DTYPE"),
        ({"model.layers.0.mlp.up_proj.scales": np.ones(1, np.float32)}, "UNSUPPORTED_DTYPE"),
        ({"model.layers.0.mlp.x.qweight": np.ones(4, np.int32)}, "UNSUPPORTED_DTYPE"),
    ],
)
def test_p59_scales_and_packed_weights_are_refused_by_name(
    tmp_path: Path, extra: Arrays, code: str
) -> None:
    with pytest.raises(UnsupportedDtypeError) as caught:
        open_directory(single(tmp_path, {**llama(), **extra}))
    assert caught.value.code == code
    assert next(iter(extra)) in str(caught.value)


def test_p59_f8_weights_are_refused_by_name(tmp_path: Path) -> None:
    arrays = llama()
    arrays["model.norm.weight"] = arrays["model.norm.weight"].astype(ml_dtypes.float8_e4m3fn)
    with pytest.raises(UnsupportedDtypeError, match=r"model\.norm\.weight"):
        open_directory(single(tmp_path, arrays))


def test_p59_a_quantization_config_is_refused_by_name(tmp_path: Path) -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "fp8", "bits": 8}}
    with pytest.raises(UnsupportedError, match=r"quantization_config.*'fp8'"):
        open_directory(single(tmp_path, None, config))
    with open_directory(single(tmp_path, None, {**LLAMA, "quantization_config": None})):
        pass


@pytest.mark.parametrize(
    "config",
    [
        {"compression_config": {"quant_method": "compressed-tensors"}},
        {"text_config": {"quantization_config": {"quant_method": "compressed-tensors"}}},
    ],
)
def test_p59_it_is_found_under_its_other_name_and_in_a_nested_config(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedError, match="'compressed-tensors'"):
        open_directory(single(tmp_path, None, {**LLAMA, **config}))


def test_a_scale_that_belongs_to_no_weight_is_no_companion(tmp_path: Path) -> None:
    arrays = {"logit_scale": np.ones((), np.float32), "norm.scale": np.ones(3, np.float32)}
    with open_directory(single(tmp_path, arrays, {"model_type": "clip"})) as source:
        assert len(source.entries()) == 2


# --- P60, P31: other things than safetensors ---------------------------------------------------


def pytorch_zip() -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        archive.writestr("archive/version", b"3\n")
    return buffer.getvalue()


def test_p60_a_directory_of_pickles_lists_them_and_prints_a_command(tmp_path: Path) -> None:
    folder = tmp_path / "a model"
    folder.mkdir()
    write_config(folder, LLAMA)
    (folder / "pytorch_model-00001-of-00002.bin").write_bytes(pytorch_zip())
    (folder / "pytorch_model-00002-of-00002.BIN").write_bytes(b"\x80\x02}q\x00.")
    # By content, whatever the name is.
    (folder / "weights").write_bytes(pytorch_zip())
    (folder / "training_args.bin").write_bytes(pytorch_zip())
    with pytest.raises(UnsupportedFormatError) as caught:
        open_directory(folder)
    error = caught.value
    assert error.files == [
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model-00002-of-00002.BIN",
        "weights",
    ]
    assert "never opened" in str(error)
    assert str(error).endswith(error.command)
    assert f"'{folder}/model.safetensors'" in error.command
    assert error.command.endswith(f"&& dmexp export '{folder}'")
    assert "weights_only=True" in error.command
    for name in error.files:
        assert f"'{folder}/{name}'" in error.command


def test_p60_the_command_is_one_line_of_python_that_compiles(tmp_path: Path) -> None:
    import shlex

    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "model.bin").write_bytes(pytorch_zip())
    with pytest.raises(UnsupportedFormatError) as caught:
        open_directory(folder)
    words = shlex.split(caught.value.command)
    assert words[:2] == ["python", "-c"]
    compile(words[2], "command", "exec")
    assert words[3:] == [
        f"{folder}/model.safetensors",
        f"{folder}/model.bin",
        "&&",
        "dmexp",
        "export",
        str(folder),
    ]


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4976698672\n"


@pytest.mark.parametrize("where", ["single", "shard"])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (LFS, "git-lfs-pointer"),
        (b"<!DOCTYPE html><html></html>", "html"),
        (b"\x1f\x8b\x08", "gzip"),
    ],
)
def test_p31_what_only_has_the_name_of_a_checkpoint_is_named(
    tmp_path: Path, content: bytes, kind: str, where: str
) -> None:
    folder = single(tmp_path) if where == "single" else sharded(tmp_path)
    name = "model.safetensors" if where == "single" else shard_names(3)[1]
    (folder / name).write_bytes(content)
    with pytest.raises(UnsupportedFormatError) as caught:
        open_directory(folder)
    assert caught.value.kind == kind
    assert name in str(caught.value)


def test_a_directory_without_weights_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"expected model\.safetensors"):
        open_directory(tmp_path)
    write_config(tmp_path, LLAMA)
    with pytest.raises(UnsupportedFormatError, match=r"It holds config\.json"):
        open_directory(tmp_path)


def test_weights_under_another_name_are_offered(tmp_path: Path) -> None:
    write_config(tmp_path, LLAMA)
    (tmp_path / "consolidated.safetensors").write_bytes(safetensors_bytes(llama()))
    with pytest.raises(UnsupportedFormatError) as caught:
        open_directory(tmp_path)
    assert caught.value.command == f"dmexp export {tmp_path}/consolidated.safetensors"


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.safetensors").write_bytes(safetensors_bytes(llama()))
    with pytest.raises(UnsupportedFormatError, match="merge it first"):
        open_directory(tmp_path)


def test_weights_without_a_config_need_one_named(tmp_path: Path) -> None:
    folder = single(tmp_path / "m")
    elsewhere = tmp_path / "c.toml"
    with open_directory(folder) as source:
        elsewhere.write_text(source.info.config, "utf-8")
    (folder / "config.json").unlink()
    with pytest.raises(UnsupportedFormatError, match="--config"):
        open_directory(folder)
    with open_directory(folder, SourceOptions(config=elsewhere)) as source:
        assert source.info.config_origin == str(elsewhere)
        assert tomli.loads(source.info.config)["hidden_size"] == 16


# --- what changes underneath -------------------------------------------------------------------


def test_a_shard_that_is_replaced_while_open_is_noticed(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    with open_directory(folder) as source:
        (folder / shard_names(3)[0]).write_bytes(safetensors_bytes(headless()))
        with pytest.raises(FormatError, match="replaced"):
            source.read("lm_head.weight")


def test_a_shard_that_is_cut_while_open_is_an_exception(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    with open_directory(folder) as source:
        source.read("lm_head.weight")
        path = folder / shard_names(3)[0]
        os.truncate(path, path.stat().st_size - 8)
        with pytest.raises(TruncatedError):
            source.read("lm_head.weight")


def test_a_directory_of_garbage_gives_an_error_of_ours(tmp_path: Path) -> None:
    for length in (0, 1, 7, 8, 9, 100):
        folder = single(tmp_path / str(length))
        (folder / "model.safetensors").write_bytes(b"\x7f" * length)
        with pytest.raises(DmexpError):
            open_directory(folder)
