"""Every GGUF file of the corpus gives back the checkpoint that it was made from."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tomli

from dmexp._dtypes import NUMPY_DTYPES
from dmexp.errors import ContractError, DomainError, FormatError, UnknownArchitectureError
from dmexp.families import describe
from dmexp.loaders import SourceOptions, open_source
from dmexp.loaders.gguf import GgufSource, SkippedArray, gguf_info, open_gguf, read_header
from dmexp.loaders.gguf._data import TensorData
from dmexp.loaders.safetensors import SafetensorsFile
from gguf_util import ARCHITECTURE, Gguf, Tensor, write_string_array

CORPUS = Path(__file__).parent / "corpus" / "gguf"
FILES = sorted(CORPUS.glob("*/*.gguf"))

# What the exporter itself rounds: it takes the logarithm and the gain in f32.
COMPUTED = 2e-6
STORED = {"f32": 0.0, "bf16": 0.0, "f16": 2.5e-4, "q8_0": 3.5e-3}

# The checkpoint has these, the file cannot.
LOST = {"bert": {"pooler.dense.weight", "pooler.dense.bias"}}
# The file has these, made from the config.
GENERATED = {"gemma4": {"rope_freqs.weight"}, "llama-tied-rope3": {"rope_freqs.weight"}}


def checkpoint(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with SafetensorsFile(path.parent / "model.safetensors") as file:
        return {entry.name: file.read(entry.name) for entry in file.entries()}


def stored_as(path: Path) -> str:
    return path.stem.rpartition(".")[2]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_tensor_of_the_checkpoint_is_rebuilt(path: Path) -> None:
    expected = checkpoint(path)
    model = path.parent.name
    with open_gguf(path) as source:
        names = [entry.name for entry in source.entries()]
        assert len(names) == len(set(names))
        assert set(expected) - set(names) == LOST.get(model, set())
        assert set(names) <= set(expected)
        dropped = {item.external for item in source.plan.dropped}
        assert dropped == GENERATED.get(model, set())
        outputs = {output.name: output for output in source.plan.outputs}
        for entry in source.entries():
            array = source.read(entry.name)
            wanted = expected[entry.name]
            assert array.shape == entry.dims == wanted.shape
            assert np.isfinite(array.astype(np.float32)).all()
            one_dim = outputs[entry.name].inputs and len(entry.dims) == 1
            bound = COMPUTED if outputs[entry.name].computes else 0.0
            if not one_dim:
                bound = max(bound, STORED[stored_as(path)])
            difference = np.abs(array.astype(np.float64) - wanted.astype(np.float64)).max()
            assert difference <= bound, (entry.name, outputs[entry.name].transform)
            if bound == 0.0 and array.dtype == wanted.dtype:
                assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_config_describes_what_comes_out(path: Path) -> None:
    with open_gguf(path) as source:
        config = tomli.loads(source.info.config)
        verdict = describe(config, [(entry.name, entry.dims) for entry in source.entries()])
    assert verdict.status == "yes", [str(conflict) for conflict in verdict.conflicts]
    assert source.info.config_origin == "GGUF metadata"


@pytest.mark.parametrize("name", ["llama-gqa.f16", "llama-tied-rope3.bf16"])
def test_p66_tensors_keep_their_dtype_where_nothing_is_computed(name: str) -> None:
    path = next(path for path in FILES if path.stem == name)
    with open_gguf(path) as source:
        found = {entry.name: entry.dtype for entry in source.entries()}
        for entry in source.entries():
            assert source.read(entry.name).dtype == NUMPY_DTYPES[entry.dtype]
    # R1 moves rows and leaves them in their dtype; norms are stored as f32 in every file.
    assert found["model.layers.0.self_attn.q_proj.weight"] == stored_as(path)
    assert found["model.norm.weight"] == "f32"


def test_p66_a_plain_rename_is_a_view_of_the_file() -> None:
    path = CORPUS / "llama-tied-rope3" / "llama-tied-rope3.bf16.gguf"
    with open_gguf(path) as source:
        array = source.read("model.embed_tokens.weight")
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert array.tobytes() == checkpoint(path)["model.embed_tokens.weight"].tobytes()


@pytest.mark.parametrize("model", ["llama-tied-rope3", "gemma4"])
def test_p67_generated_tensors_are_left_out_and_named(model: str) -> None:
    path = next((CORPUS / model).glob("*.f32.gguf"))
    with open_gguf(path) as source:
        assert "rope_freqs" not in "".join(entry.name for entry in source.entries())
        (notice,) = [note for note in source.info.notices if note.startswith("left out")]
    assert "rope_freqs.weight (generated" in notice


def extended(path: Path, target: Path, *more: Tensor) -> Path:
    """The same model with further tensors, and with its long lists left out."""
    header = read_header(path)
    data = TensorData([path])
    keys = [
        (key, kind, header.metadata[key])
        for key, kind in header.value_types.items()
        if not kind.startswith("array")
    ]
    tensors = [Tensor(t.name, t.dims, t.type_id, data.raw(t).tobytes()) for t in header.tensors]
    return Gguf(keys, [*tensors, *more]).write(target)


def test_p67_a_tensor_that_the_architecture_does_not_have_is_refused(tmp_path: Path) -> None:
    path = CORPUS / "qwen3" / "qwen3.f32.gguf"
    extra = Tensor("blk.0.mystery.weight", (2,), 0, bytes(8))
    with pytest.raises(ContractError, match=r"blk\.0\.mystery\.weight") as caught:
        open_gguf(extended(path, tmp_path / "m.gguf", extra))
    assert caught.value.path == str(tmp_path / "m.gguf")


def test_p67_a_generated_tensor_with_other_values_is_refused(tmp_path: Path) -> None:
    # Below 1 it would speed positions up, which no scaling does: it is not what its name says.
    extra = Tensor("rope_freqs.weight", (8,), 0, np.float32([0.5] * 8).tobytes())
    path = extended(CORPUS / "llama-gqa" / "llama-gqa.f32.gguf", tmp_path / "m.gguf", extra)
    with pytest.raises(DomainError) as caught:
        open_gguf(path)
    assert caught.value.tensor == "rope_freqs.weight"


def test_p68_info_of_a_file_with_a_large_vocabulary_is_quick_and_small(tmp_path: Path) -> None:
    path = write_string_array(tmp_path / "v.gguf", "tokenizer.ggml.tokens", 256_000, b"token")
    began = time.process_time()
    info = gguf_info(path)
    assert time.process_time() - began < 1.0
    assert info["metadata"]["tokenizer.ggml.tokens"] == {"type": "string", "count": 256_000}
    tracemalloc.start()
    try:
        gguf_info(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("architecture", ["", "lama", "clip2"])
def test_an_architecture_without_contracts_is_refused_and_info_says_so(
    tmp_path: Path, architecture: str
) -> None:
    metadata = [("general.architecture", "string", architecture)] if architecture else []
    tensor = Tensor("token_embd.weight", (2,), 0, bytes(8))
    path = Gguf(metadata, [tensor]).write(tmp_path / "m.gguf")
    with pytest.raises(UnknownArchitectureError if architecture else FormatError) as caught:
        open_gguf(path)
    assert caught.value.path == str(path)
    if architecture == "lama":
        assert "llama" in caught.value.close
        assert "'lama'" in gguf_info(path)["contracts"]


def test_tied_heads_and_undone_steps_travel_in_the_metadata() -> None:
    with open_gguf(CORPUS / "llama-tied-rope3" / "llama-tied-rope3.f32.gguf") as source:
        assert source.info.metadata["tied"] == {"lm_head.weight": "model.embed_tokens.weight"}
        assert source.info.metadata["transforms"] == {"rotary-unpermute": 4}
        assert source.info.kind == "GGUF file"
        assert list(source.info.metadata)[-1] == "tokenizer"
    with open_gguf(CORPUS / "llama-gqa" / "llama-gqa.f32.gguf") as source:
        assert "tied" not in source.info.metadata


def test_a_quantized_source_says_so() -> None:
    with open_gguf(CORPUS / "qwen35" / "qwen35.q8_0.gguf") as source:
        summary = source.info.metadata["gguf"]
        assert summary["quantized"] is True
        assert summary["file_type"] == "Q8_0"
        assert summary["types"]["Q8_0"] == 21
        assert any("the weights are quantized: Q8_0 x 21" in note for note in source.info.notices)
        assert {entry.dtype for entry in source.entries()} == {"f32", "f16"}
    with open_gguf(CORPUS / "qwen35" / "qwen35.f32.gguf") as source:
        assert source.info.metadata["gguf"]["quantized"] is False


def test_options_replace_the_config_and_leave_the_tokenizer_out(tmp_path: Path) -> None:
    path = CORPUS / "llama-gqa" / "llama-gqa.f32.gguf"
    config = tmp_path / "other.json"
    config.write_text('{"model_type": "nobody", "x": 1}')
    with open_gguf(path, SourceOptions(config=config, tokenizer=False)) as source:
        assert tomli.loads(source.info.config) == {"model_type": "nobody", "x": 1}
        assert source.info.config_origin == str(config)
        assert "tokenizer" not in source.info.metadata


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_info_needs_the_header_only(tmp_path: Path, path: Path) -> None:
    whole = gguf_info(path)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[: whole["data_offset"]])
    info = gguf_info(cut)
    assert {**info, "path": ""} == {**whole, "path": ""} | {"parts": ["cut.gguf"]}
    assert info["contracts"] == "declared"
    header = read_header(path)
    assert [tensor["name"] for tensor in info["tensors"]] == [t.name for t in header.tensors]
    with open_gguf(path) as source:
        becomes = [name for tensor in info["tensors"] for name in tensor["canonical"]]
        assert set(becomes) == {entry.name for entry in source.entries()}
        assert info["transforms"] == source.plan.transforms


def test_info_shows_long_lists_by_their_length() -> None:
    info = gguf_info(CORPUS / "qwen3" / "qwen3.f32.gguf")
    assert info["metadata"]["tokenizer.ggml.tokens"] == {"type": "string", "count": 96}
    assert info["metadata"]["qwen3.block_count"] == 2


def test_info_is_plain_json_whatever_the_metadata_holds(tmp_path: Path) -> None:
    odd = [
        ("f", "f32", float("nan")),
        ("l", "array:f32", [1.5, float("inf")]),
        ("u", "u64", 2**64 - 1),
        ("n", "array:array:u8", [[1], []]),
    ]
    path = Gguf([ARCHITECTURE, *odd]).write(tmp_path / "m.gguf")
    metadata = json.loads(json.dumps(gguf_info(path), allow_nan=False))["metadata"]
    assert (metadata["f"], metadata["l"]) == ("nan", [1.5, "inf"])
    assert metadata["u"] == 2**64 - 1
    assert metadata["n"] == {"type": "array", "count": 2}


def parts_of(path: Path, directory: Path, count: int) -> Path:
    """Split a file by tensors, as the exporter's own tool does."""
    header = read_header(path)
    data = TensorData([path])
    keys = [
        (
            key,
            kind if not kind.startswith("array[") else "array:" + kind[6:-1],
            header.metadata[key],
        )
        for key, kind in header.value_types.items()
        if not isinstance(header.metadata[key], SkippedArray)
    ]
    share = -(-len(header.tensors) // count)
    for index in range(count):
        chosen = header.tensors[index * share : (index + 1) * share]
        metadata: list[tuple[str, str, Any]] = list(keys) if index == 0 else []
        metadata += [("split.no", "u16", index), ("split.count", "u16", count)]
        metadata += [("split.tensors.count", "i32", len(header.tensors))]
        tensors = [Tensor(t.name, t.dims, t.type_id, data.raw(t).tobytes()) for t in chosen]
        name = f"model-{index + 1:05}-of-{count:05}.gguf"
        Gguf(metadata, tensors).write(directory / name)
    return directory


def same(one: GgufSource, other: GgufSource) -> None:
    assert one.entries() == other.entries()
    for entry in one.entries():
        assert one.read(entry.name).tobytes() == other.read(entry.name).tobytes()


@pytest.mark.parametrize("name", ["llama-tied-rope3.f32", "qwen3next.f32", "qwen35.q8_0"])
def test_p61_a_split_model_gives_what_the_whole_gives(tmp_path: Path, name: str) -> None:
    path = next(path for path in FILES if path.stem == name)
    directory = parts_of(path, tmp_path, 3)
    with open_gguf(path, SourceOptions(tokenizer=False)) as whole:
        for start in (directory / "model-00003-of-00003.gguf", directory):
            with open_source(start) as source:
                assert isinstance(source, GgufSource)
                same(source, whole)
                assert source.info.config == whole.info.config
                assert source.info.metadata.get("tied") == whole.info.metadata.get("tied")
                assert source.info.metadata["gguf"]["parts"] == 3
                assert source.info.kind == "GGUF file in 3 parts"


def quantized(path: Path, target: Path, name: str) -> Path:
    """The same model with every matrix whose rows allow it in another type.

    As the exporter's own tool does, leading axes of length 1 are dropped from the dims.
    """
    header = read_header(path)
    data = TensorData([path])
    kind = gguf.GGMLQuantizationType[name]
    block = gguf.GGML_QUANT_SIZES[kind][0]
    tensors = []
    for tensor in header.tensors:
        array, dims = data.read(tensor), tensor.dims
        while len(dims) > 1 and dims[0] == 1:
            dims = dims[1:]
        if len(dims) > 1 and dims[-1] % block == 0:
            raw = gguf.quants.quantize(array, kind).tobytes()
            tensors.append(Tensor(tensor.name, dims, kind.value, raw))
        else:
            tensors.append(Tensor(tensor.name, dims, 0, array.tobytes()))
    keys = [
        (key, kind, header.metadata[key])
        for key, kind in header.value_types.items()
        if not kind.startswith("array")
    ]
    return Gguf(keys, tensors).write(target)


@pytest.mark.parametrize("name", ["Q8_0", "Q5_1", "Q4_0", "Q4_1", "Q5_0"])
@pytest.mark.parametrize("model", ["mixtral", "qwen3moe", "qwen3next", "gpt_oss"])
def test_experts_of_a_quantized_stack_are_what_the_stack_decodes_to(
    tmp_path: Path, model: str, name: str
) -> None:
    path = quantized(CORPUS / model / f"{model}.f32.gguf", tmp_path / "q.gguf", name)
    with open_gguf(path) as source, open_gguf(path) as whole:
        assert {entry.dtype for entry in source.entries()} == {"f32"}
        assert (
            len(source._cut_up)
            == {"mixtral": 4, "qwen3moe": 4, "qwen3next": 6, "gpt_oss": 0}[model]
        )
        assert source.plan.transforms
        expected = {name: array.shape for name, array in checkpoint(CORPUS / model / "x").items()}
        assert {entry.name: entry.dims for entry in source.entries()} == expected
        # The long way: decode every stack whole, for each of its experts.
        whole._cut_up = frozenset()
        same(source, whole)
        first = source.read(source.entries()[-1].name)
        assert first.flags.c_contiguous


def test_a_file_with_bytes_after_its_end_is_read_and_named(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes((CORPUS / "qwen3" / "qwen3.f32.gguf").read_bytes() + bytes(5000))
    with open_gguf(path) as source:
        assert any("bytes after its last tensor" in note for note in source.info.notices)
    path.write_bytes((CORPUS / "qwen3" / "qwen3.f32.gguf").read_bytes() + bytes(31))
    with open_gguf(path) as source:
        assert not any("after its last tensor" in note for note in source.info.notices)
