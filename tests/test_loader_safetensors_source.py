"""One file as a source: its config, what is refused beside its header, and how sources are told."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmexp
from dmexp._export import export
from dmexp.errors import (
    DmexpError,
    FormatError,
    InvalidArgumentError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
)
from dmexp.loaders import SourceOptions, TensorEntry, open_source
from dmexp.loaders._quantised import quantised, refuse_quantised
from safetensors_util import pack, tensor, write

CORPUS = Path(__file__).parent / "corpus" / "dmexp"
PLAIN = {"a.weight": tensor()}


def plain(folder: Path, name: str = "model.safetensors", **config: Any) -> Path:
    folder.mkdir(exist_ok=True)
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    return write(folder / name, PLAIN, np.arange(6, dtype="<f4").tobytes())


# The config.


def test_a_config_beside_the_file_is_taken(tmp_path: Path) -> None:
    path = plain(tmp_path, model_type="mine", torch_dtype="float32", gone=None)
    with open_source(path) as source:
        assert source.info.config == 'model_type = "mine"\ntorch_dtype = "float32"\n'
        assert source.info.config_origin == str(tmp_path / "config.json")
        assert source.info.label == str(path)
        assert source.info.kind == "safetensors file"
        assert source.info.weight_bytes == 24


def test_a_config_that_is_named_comes_first(tmp_path: Path) -> None:
    path = plain(tmp_path, model_type="beside", torch_dtype="float32")
    other = tmp_path / "other.toml"
    other.write_text("# kept as it is\nmodel_type = 'named'\ndtype = 'float32'\n")
    with open_source(path, SourceOptions(config=other)) as source:
        assert source.info.config == other.read_text()
        assert source.info.config_origin == str(other)


def test_a_file_alone_has_no_config(tmp_path: Path) -> None:
    with open_source(plain(tmp_path)) as source:
        assert source.info.config == ""
        assert source.info.config_origin is None
        assert source.info.notices == []


def test_a_broken_config_beside_the_file_is_refused_by_its_own_name(tmp_path: Path) -> None:
    path = plain(tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1')
    with pytest.raises(FormatError) as caught:
        open_source(path)
    assert caught.value.path == str(tmp_path / "config.json")


def test_metadata_other_than_the_framework_s_name_travels(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt", "trained_on": "tea"}, **PLAIN}
    path = write(tmp_path / "m.safetensors", header, bytes(24))
    with open_source(path) as source:
        assert source.info.metadata == {"safetensors": {"trained_on": "tea"}}
    with open_source(plain(tmp_path, "n.safetensors")) as source:
        assert source.info.metadata == {}


def test_one_shard_alone_is_said_to_be_one(tmp_path: Path) -> None:
    with open_source(plain(tmp_path, "model-00002-of-00003.safetensors")) as source:
        (notice,) = source.info.notices
    assert "shard 2 of 3" in notice
    with open_source(plain(tmp_path, "model-00001-of-00001.safetensors")) as source:
        assert source.info.notices == []


# What is no float, and what is quantised.


def test_p12_an_integer_tensor_is_refused_by_name_with_a_way_out_that_works(tmp_path: Path) -> None:
    header = {"w": tensor(), "embeddings.position_ids": tensor(24, dtype="I64", shape=(2,))}
    path = write(tmp_path / "m.safetensors", header, bytes(40))
    with open_source(path) as source:
        with pytest.raises(UnsupportedDtypeError) as caught:
            export(source, tmp_path / "m.dmexp", dtype="f32")
        assert caught.value.tensor == "embeddings.position_ids"
        assert "--exclude embeddings.position_ids" in caught.value.message
        assert not (tmp_path / "m.dmexp").exists()
        export(source, tmp_path / "m.dmexp", dtype="f32", exclude=["embeddings.position_ids"])
    assert list(dmexp.load_file(tmp_path / "m.dmexp")) == ["w"]


@pytest.mark.parametrize("dtype", ["I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"])
def test_p12_no_integer_or_bool_is_ever_cast(dtype: str, tmp_path: Path) -> None:
    header = {"mask": tensor(dtype=dtype, shape=(2,))}
    data = pack(header)
    payload = bytes(header["mask"]["data_offsets"][1])
    path = tmp_path / "m.safetensors"
    path.write_bytes(data + payload)
    with open_source(path) as source, pytest.raises(UnsupportedDtypeError, match=dtype.lower()):
        export(source, tmp_path / "m.dmexp")


def test_p13_a_complex_tensor_is_refused_by_name_and_dtype(tmp_path: Path) -> None:
    path = write(tmp_path / "m.safetensors", {"t": tensor(dtype="C64", shape=(2,))}, bytes(16))
    np.savez(tmp_path / "m.npz", t=np.zeros(2, np.complex64))
    for checkpoint in (path, tmp_path / "m.npz"):
        with open_source(checkpoint) as source:
            with pytest.raises(UnsupportedDtypeError, match=r"'t' \(c64\)") as caught:
                export(source, tmp_path / "m.dmexp")
            assert (caught.value.tensor, caught.value.dtype) == ("t", "c64")


def test_p16_a_bf16_file_is_read_bit_for_bit_without_more_than_numpy_and_ml_dtypes(
    tmp_path: Path,
) -> None:
    bits = np.array([0x3F80, 0x0001, 0x8000, 0x7F7F, 0xC2F7, 0x3F81], "<u2")
    path = write(tmp_path / "m.safetensors", {"w": tensor(dtype="BF16")}, bits.tobytes())
    with open_source(path) as source:
        array = source.read("w")
        assert array.dtype == ml_dtypes.bfloat16
        assert array.view("<u2").ravel().tolist() == bits.tolist()
        export(source, tmp_path / "m.dmexp", dtype="bf16")
    assert dmexp.load_file(tmp_path / "m.dmexp", "stored")["w"].tobytes() == bits.tobytes()
    widened = dmexp.load_file(tmp_path / "m.dmexp")["w"]
    assert widened.dtype == np.float32
    assert widened.view("<u4").ravel().tolist() == [int(b) << 16 for b in bits]


@pytest.mark.parametrize(("stored", "asked"), [("BF16", "f16"), ("F16", "bf16")])
def test_p17_another_two_byte_dtype_than_the_source_s_is_said(
    stored: str, asked: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "m.safetensors", {"w": tensor(dtype=stored)}, bytes(12))
    with open_source(path) as source:
        report = export(source, tmp_path / "m.dmexp", dtype=asked)
        assert any(f"1 tensor is {stored.lower()}" in notice for notice in report.notices)
        assert export(source, tmp_path / "n.dmexp", dtype=stored.lower()).notices == []


def test_p18_mixed_dtypes_are_reported(tmp_path: Path) -> None:
    header = {"a": tensor(), "b": tensor(24, dtype="F16")}
    path = write(tmp_path / "m.safetensors", header, bytes(36))
    with open_source(path) as source:
        assert [entry.dtype for entry in source.entries()] == ["f32", "f16"]
        report = export(source, tmp_path / "m.dmexp", dtype="f32")
    assert any("mixes dtypes (1 f16, 1 f32)" in notice for notice in report.notices)


def listed(*pairs: tuple[str, str]) -> list[TensorEntry]:
    return [TensorEntry(name, (2, 3), dtype) for name, dtype in pairs]


QUANTISED = {
    "scale beside a weight": (("m.weight", "bf16"), ("m.weight_scale", "f32")),
    "inverse scale": (("m.weight", "bf16"), ("m.weight_scale_inv", "f32")),
    "scale of the input": (("m.weight", "bf16"), ("m.input_scale", "f32")),
    "a weight of integers": (("m.weight", "i8"),),
    "packed into bytes": (("m.weight", "u8"),),
    "packed into words": (("m.qweight", "i32"), ("m.scales", "f16")),
    "compressed": (("m.weight_packed", "i32"), ("m.weight_shape", "i64")),
    "row statistics": (("m.weight", "i8"), ("m.SCB", "f32")),
    "blocks": (("m.proj_blocks", "u8"), ("m.proj_scales", "u8")),
    "absolute maxima": (("m.weight", "u8"), ("m.weight.absmax", "u8")),
    "at the top": (("weight", "bf16"), ("scales", "f16")),
    "named scale": (("m.proj", "bf16"), ("m.proj_scale", "f32")),
}


@pytest.mark.parametrize("case", QUANTISED)
def test_p59_a_scale_or_packed_integers_give_a_quantised_checkpoint_away(case: str) -> None:
    entries = listed(("fine.weight", "bf16"), *QUANTISED[case])
    with pytest.raises(UnsupportedDtypeError, match="scale") as caught:
        refuse_quantised(entries, {}, path="m.safetensors")
    assert set(caught.value.tensors) <= {name for name, _ in QUANTISED[case]}
    assert caught.value.tensors


@pytest.mark.parametrize(
    "names",
    [
        ("loop_block.residual_scale", "loop_block.norm.weight"),
        ("logit_scale",),
        ("router.per_expert_scale", "router.proj.weight"),
        ("layer_scale1.lambda1", "attn.weight"),
        ("embed_scale", "embed_tokens.weight"),
        ("blocks.0.gamma_scale", "blocks.0.attn.weight"),
    ],
)
def test_p59_a_scale_that_a_model_has_of_its_own_is_none(names: tuple[str, ...]) -> None:
    assert quantised(listed(*((name, "f32") for name in names))) == []


def test_p59_a_quantization_config_beside_one_file_is_refused(tmp_path: Path) -> None:
    path = plain(tmp_path, model_type="x", quantization_config={"quant_method": "fp8"})
    with pytest.raises(UnsupportedError, match="fp8"):
        open_source(path)


def test_p59_scales_in_a_file_stop_it_before_a_value_is_read(tmp_path: Path) -> None:
    header = {"m.weight": tensor(), "m.weight_scale": tensor(24, shape=(1,))}
    with pytest.raises(UnsupportedDtypeError) as caught:
        open_source(write(tmp_path / "m.safetensors", header, bytes(28)))
    assert caught.value.tensor == "m.weight_scale"


# Which loader takes what.


def test_content_decides_which_loader_reads(tmp_path: Path) -> None:
    archive = io.BytesIO()
    np.savez(archive, a=np.float32([1]))
    contents = {
        "safetensors file": pack(PLAIN, bytes(24)),
        ".npz archive": archive.getvalue(),
        ".dmexp file": (CORPUS / "good" / "plain-bf16.dmexp").read_bytes(),
    }
    for kind, data in contents.items():
        for name in ("model.bin", "model.safetensors", "model.dmexp", "model"):
            (tmp_path / name).write_bytes(data)
            with open_source(tmp_path / name) as source:
                assert source.info.kind == kind
                assert source.info.path == tmp_path / name


@pytest.mark.parametrize("name", ["model.pt", "model.PTH", "model.bin", "weights"])
def test_p60_a_pickle_is_never_opened_whatever_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        # A pickle that would end the process if anything ran it.
        archive.writestr("m/data.pkl", b"cos\nabort\n(tR.")
    with pytest.raises(UnsupportedFormatError) as caught:
        open_source(path)
    assert "torch.load" in caught.value.command
    assert "weights_only=True" in caught.value.command
    assert str(path) in caught.value.command
    path.write_bytes(b"\x80\x02cos\nabort\n)R.")
    with pytest.raises(UnsupportedFormatError):
        open_source(path)


@pytest.mark.parametrize("length", range(9))
def test_a_file_cut_before_its_content_says_anything_is_judged_by_its_suffix(
    length: int, tmp_path: Path
) -> None:
    whole = pack(PLAIN, bytes(24))
    (tmp_path / "m.safetensors").write_bytes(whole[:length])
    (tmp_path / "m.bin").write_bytes(whole[:length])
    with pytest.raises(FormatError):
        open_source(tmp_path / "m.safetensors")
    with pytest.raises(UnsupportedFormatError):
        open_source(tmp_path / "m.bin")


def test_a_file_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "absent.safetensors")


# A .dmexp file as a source.


def test_a_dmexp_file_carries_all_that_its_header_says(tmp_path: Path) -> None:
    path = tmp_path / "m.dmexp"
    arrays = {"z": np.float32([[1, -2.5]]), "a": np.float32(3)}
    dmexp.save_file(
        arrays, path, dtype="bf16", config='x = "y"\n', source="here", step=9, metadata={"k": [1]}
    )
    with open_source(path) as source:
        info = source.info
        assert (info.config, info.label, info.step, info.metadata) == (
            'x = "y"\n',
            "here",
            9,
            {"k": [1]},
        )
        assert info.weight_bytes == 6
        assert [(entry.name, entry.dims, entry.dtype) for entry in source.entries()] == [
            ("z", (1, 2), "bf16"),
            ("a", (), "bf16"),
        ]
        assert source.read("z").dtype == ml_dtypes.bfloat16
        export(source, tmp_path / "again.dmexp", dtype="bf16")
    assert (tmp_path / "again.dmexp").read_bytes() == path.read_bytes()


def test_a_second_config_for_a_dmexp_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "c.toml"
    other.write_text("b = 2\n")
    dmexp.save_file({"a": np.float32([1])}, tmp_path / "m.dmexp", config="a = 1\n")
    dmexp.save_file({"a": np.float32([1])}, tmp_path / "n.dmexp")
    with pytest.raises(InvalidArgumentError, match="config of its own"):
        open_source(tmp_path / "m.dmexp", SourceOptions(config=other))
    with open_source(tmp_path / "n.dmexp", SourceOptions(config=other)) as source:
        assert source.info.config == "b = 2\n"


# Where a source has another say than a reader of .dmexp files.
AS_A_SOURCE = {
    "short-0.dmexp": "UNSUPPORTED_FORMAT",  # nothing says what it was to be
    "short-7.dmexp": "TRUNCATED",
    "training-checkpoint.dmexp": "INVALID_ARGUMENT",  # it can be exported; its config is missing
    "max-abs-wrong.dmexp": None,  # only a recount of the whole payload finds it
}
HOSTILE = json.loads((CORPUS / "hostile" / "manifest.json").read_text())


def first_refusal(path: Path) -> str | None:
    try:
        with open_source(path) as source:
            for entry in source.entries():
                source.read(entry.name)
    except DmexpError as error:
        return error.code
    return None


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_dmexp_files_are_refused_as_sources_too(name: str) -> None:
    expected = AS_A_SOURCE.get(name, HOSTILE[name]["code"])
    assert first_refusal(CORPUS / "hostile" / name) == expected
