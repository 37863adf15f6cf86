"""Dormouse's training checkpoints: the original's bytes, and a refusal for everything damaged."""

from __future__ import annotations

import os
import shlex
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

import dmexp
from dmexp._export import export
from dmexp.errors import (
    DmexpError,
    FileFormatError,
    FormatError,
    InvalidArgumentError,
    LimitExceededError,
    ShapeMismatchError,
    SizeOverflowError,
    TensorNotFoundError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
    UnsupportedShapeError,
)
from dmexp.families.dormouse import expected
from dmexp.loaders import SourceOptions, open_source
from dmexp.loaders._cbor import decode
from dmexp.loaders._dormouse_config import SCHEMA, config_from
from dmexp.loaders.dormouse import open_dormouse
from dormouse_util import MODEL, align, arrays, burnpack, container, run, snapshot

CORPUS = Path(__file__).parent / "corpus" / "dmexp"


# The format's own vectors.


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_original_s_export_comes_out_byte_for_byte(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CORPUS)
    with open_source("checkpoint/latest.bin") as source:
        report = export(source, tmp_path / "out.dmexp", dtype=dtype, compat="dormouse")
    original = (CORPUS / "checkpoint" / f"latest.{dtype}.dmexp").read_bytes()
    assert (tmp_path / "out.dmexp").read_bytes() == original
    assert report.shapes.status == "yes"


def test_without_the_switch_the_same_tensors_carry_our_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CORPUS)
    with open_source("checkpoint/latest.bin") as source:
        export(source, tmp_path / "out.dmexp", dtype="f32")
    ours = dmexp.load_file(tmp_path / "out.dmexp")
    original = dmexp.load_file("checkpoint/latest.f32.dmexp")
    assert list(ours) == list(original)
    assert all(ours[name].tobytes() == original[name].tobytes() for name in original)
    with dmexp.safe_open(tmp_path / "out.dmexp") as file:
        assert file.header.writer is not None
        assert file.header.source == "checkpoint/latest.bin@step20"


def test_the_corpus_is_in_visit_order_and_its_config_describes_it() -> None:
    with open_dormouse(CORPUS / "checkpoint" / "latest.bin") as source:
        found = {entry.name: entry.dims for entry in source.entries()}
        table = expected(tomli.loads(source.info.config))
        assert list(found.items()) == list(table.items())
        assert source.info.step == 20
        assert source.info.config_origin == str(CORPUS / "checkpoint" / "latest.config.toml")


@pytest.mark.parametrize("call", [dmexp.load_file, dmexp.safe_open, dmexp.info, dmexp.verify])
def test_a_checkpoint_where_an_export_is_expected_gets_the_command_that_converts_it(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(CORPUS)
    with pytest.raises(UnsupportedFormatError, match="training checkpoint") as caught:
        call("checkpoint/latest.bin")
    assert "optimizer" in caught.value.message
    words = shlex.split(caught.value.command)
    assert words == ["dmexp", "export", "checkpoint/latest.bin"]
    from dmexp.cli import main

    assert main([*words[1:], "-o", str(tmp_path / "out.dmexp"), "--quiet"]) == 0
    assert dmexp.verify(tmp_path / "out.dmexp")


# Reading.


def test_tensors_come_in_the_order_of_their_data_and_in_place(tmp_path: Path) -> None:
    model = arrays()
    with open_dormouse(run(tmp_path, container(burnpack(model)), snapshot())) as source:
        assert [entry.name for entry in source.entries()] == ["z.first", "a.second", "m.third"]
        for name, array in model.items():
            found = source.read(name)
            assert found.tobytes() == array.tobytes()
            assert found.shape == array.shape
            assert not found.flags.owndata
            assert not found.flags.writeable


def test_every_dtype_is_named(tmp_path: Path) -> None:
    model = {
        "h": np.float16([1]),
        "d": np.float64([1]),
        "i": np.int64([1]),
        "b": np.array([True, False]),
    }
    with open_dormouse(run(tmp_path, container(burnpack(model)), snapshot())) as source:
        assert [entry.dtype for entry in source.entries()] == ["f16", "f64", "i64", "bool"]
        assert source.read("i").tolist() == [1]
        assert source.read("b").tolist() == [True, False]
        with pytest.raises(UnsupportedDtypeError, match="'i' \\(i64\\), 'b' \\(bool\\)"):
            export(source, tmp_path / "out.dmexp")


def test_the_label_is_the_path_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run(tmp_path, container(burnpack(arrays()), step=123), snapshot())
    monkeypatch.chdir(tmp_path)
    with open_dormouse("./latest.bin") as source:
        assert source.info.label == "./latest.bin@step123"
    with open_dormouse(path) as source:
        assert source.info.label == f"{path}@step123"


def test_the_save_before_uses_the_snapshot_of_its_run(tmp_path: Path) -> None:
    data = container(burnpack(arrays()))
    run(tmp_path, data, snapshot())
    with open_dormouse(run(tmp_path, data, name="latest.prev")) as source:
        assert source.info.config_origin == str(tmp_path / "latest.config.toml")


def test_arrays_outlive_the_source_and_a_shrunken_file_is_an_error(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot())
    source = open_dormouse(path)
    first = source.read("z.first")
    with pytest.raises(TensorNotFoundError):
        source.read("nothing")
    if os.name != "nt":
        os.truncate(path, 4096 if path.stat().st_size > 4096 else 300)
        with pytest.raises(TruncatedError):
            source.read("a.second")
    source.close()
    assert first.shape == (3, 4)


# The config and its snapshot.


def test_without_a_snapshot_the_missing_path_and_the_option_are_named(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())))
    with pytest.raises(InvalidArgumentError) as caught:
        open_source(path)
    assert str(tmp_path / "latest.config.toml") in caught.value.message
    assert "--config" in caught.value.message
    assert caught.value.missing == str(tmp_path / "latest.config.toml")


def test_a_snapshot_and_a_config_are_one_too_many(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot())
    other = tmp_path / "other.toml"
    other.write_text("d_model = 8\n")
    with pytest.raises(InvalidArgumentError, match="One of the two is wrong") as caught:
        open_source(path, SourceOptions(config=other))
    assert str(other) in caught.value.message
    assert "latest.config.toml" in caught.value.message


@pytest.mark.parametrize("text", ["d_model = 8\nengram_rows = 4\n", snapshot()])
def test_a_config_is_taken_flat_or_as_a_snapshot(text: str, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())))
    other = tmp_path / "other.toml"
    other.write_text(text)
    with open_source(path, SourceOptions(config=other)) as source:
        values = tomli.loads(source.info.config)
        assert (values["d_model"], values["engram_rows"]) == (8, 4)
        assert source.info.config_origin == str(other)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("source = 'x'\n", "[model]"),
        ("[model\n", "TOML"),
        ("model = 3\n", "[model]"),
        ("[model]\nd_model = 'wide'\n", "d_model"),
        ("[model]\nd_model = 8.0\n", "d_model"),
        ("[model]\nd_model = -8\n", "d_model"),
        ("[model]\nuse_kda = 1\n", "use_kda"),
        ("[model]\nnorm_eps = '0'\n", "norm_eps"),
        ("[model]\nengram_orders = [2, 'x']\n", "engram_orders"),
        ("[model]\nact_quant = 'int5'\n", "act_quant"),
        ("[model]\nuse_attnres = [1]\n", "use_attnres"),
    ],
)
def test_a_broken_snapshot_is_refused_by_key(text: str, word: str, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), text)
    with pytest.raises(FormatError) as caught:
        open_dormouse(path)
    assert word in caught.value.message
    assert caught.value.path == str(tmp_path / "latest.config.toml")


SMALL = """\
bf16 = false
act_group = 0
d_model = 768
n_heads = 12
head_dim = 64
d_ffn = 2048
vocab = 256
max_seq_len = 512
max_iter = 4
rank = 64
norm_eps = 0.0010000000474974513
use_kda = true
use_tsct = true
use_engram = true
use_gr = false
n_experts = 3
jepa_weight = 0.05000000074505806
jepa_mask_frac = 0.15000000596046448
jepa_mask_span = 8
dspark_weight = 0.10000000149011612
dspark_k = 4
dspark_stride = 16
engram_rows = 25000
engram_orders = [2, 3, 4]
engram_dim = 32
engram_lam_max = 0.5
use_mor = false
mor_k = 2
mor_bce_weight = 0.05000000074505806
"""


def test_an_empty_table_prints_the_preset_small() -> None:
    assert config_from({}, "x").text == SMALL
    assert list(SCHEMA) == [
        "bf16",
        "act_quant",
        *[line.split(" ")[0] for line in SMALL.split("\n")[1:-1]],
    ]


def test_what_was_printed_prints_itself() -> None:
    assert config_from(tomli.loads(SMALL), "x").text == SMALL


def test_the_snapshot_is_printed_through_the_schema() -> None:
    table = {
        "mor_k": 3,
        "norm_eps": 1,
        "d_model": 16,
        "use_gr": True,
        "jepa_weight": 1e-10,
        "engram_orders": [],
        "what": 5,
        "act_quant": "INT8",
    }
    config = config_from(table, "x")
    lines = config.text.split("\n")
    assert lines[:4] == ["bf16 = false", 'act_quant = "8"', "act_group = 0", "d_model = 16"]
    assert "norm_eps = 1.0" in lines
    assert "jepa_weight = 0.0000000001000000013351432" in lines
    assert "engram_orders = []" in lines
    assert "mor_k = 3" in lines
    assert config.dropped == ("what",)
    assert tomli.loads(config.text)["use_gr"] is True


@pytest.mark.parametrize(
    ("written", "printed"),
    [("fp4", "fp4"), ("FP4", "fp4"), (4, "4"), ("int4", "4"), (8, "8"), ("8", "8")],
)
def test_spellings_of_act_quant(written: object, printed: str) -> None:
    assert f'act_quant = "{printed}"\n' in config_from({"act_quant": written}, "x").text


def test_keys_of_later_versions_stay_where_the_snapshot_has_them() -> None:
    table = {"use_gr": False, "use_attnres": False, "mhc_streams": 4, "n_experts": 3}
    table |= {"mor_bce_weight": 0.05, "use_byteflow": False, "byteflow_eps2": 0.5, "msa_kb": 16}
    text = config_from(table, "x").text
    assert "use_gr = false\nuse_attnres = false\nmhc_streams = 4\nn_experts = 3\n" in text
    assert text.endswith(
        "mor_bce_weight = 0.05000000074505806\n"
        "use_byteflow = false\nbyteflow_eps2 = 0.5\nmsa_kb = 16\n"
    )
    assert config_from(table, "x").dropped == ()


# What stays behind is said.


def test_a_memory_in_a_sidecar_is_said_and_recorded(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot(engram_rows=1))
    with open_dormouse(path) as source:
        (notice,) = source.info.notices
        assert "engram_rows = 1" in notice
        assert "latest.ngram" in notice
        assert source.info.metadata == {
            "dormouse": {"memory": "sidecar", "sidecar": "latest.ngram"}
        }


def test_the_record_of_the_sidecar_reaches_the_header(tmp_path: Path) -> None:
    table = expected(MODEL | {"engram_rows": 1})
    model = {name: np.full(dims, 0.5, np.float32) for name, dims in table.items()}
    path = run(tmp_path, container(burnpack(model)), snapshot(engram_rows=1))
    with open_source(path) as source:
        report = export(source, tmp_path / "out.dmexp")
    assert any("sidecar" in notice for notice in report.notices)
    with dmexp.safe_open(tmp_path / "out.dmexp") as file:
        assert file.metadata()["dormouse"]["memory"] == "sidecar"


@pytest.mark.parametrize("rows", [2, 10, 25000])
def test_a_memory_inside_is_not_worth_a_word(rows: int, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot(engram_rows=rows))
    with open_dormouse(path) as source:
        assert source.info.notices == []
        assert source.info.metadata == {}


def test_dropped_keys_a_teacher_and_a_latch_are_said(tmp_path: Path) -> None:
    data = container(burnpack(arrays()), teacher=b"t" * 9, flags=1)
    with open_dormouse(run(tmp_path, data, snapshot(my_key=5))) as source:
        assert "'my_key'" in source.info.notices[0]
        assert "teacher" in source.info.notices[1]
        assert source.info.metadata == {"dormouse": {"fp32_factors_latched": True}}


def test_damage_after_the_model_is_said_and_does_not_stop_the_export(tmp_path: Path) -> None:
    data = container(burnpack(arrays()), optimizer=b"o" * 500)[:-100]
    with open_dormouse(run(tmp_path, data, snapshot())) as source:
        assert "model section itself is whole" in source.info.notices[0]
        assert source.read("z.first").tobytes() == arrays()["z.first"].tobytes()


def test_halving_the_width_in_the_snapshot_is_refused_at_export(tmp_path: Path) -> None:
    table = expected(MODEL)
    model = {name: np.ones(dims, np.float32) for name, dims in table.items()}
    path = run(tmp_path, container(burnpack(model)), snapshot(d_model=4))
    with open_source(path) as source, pytest.raises(ShapeMismatchError, match=r"embedding\.weight"):
        export(source, tmp_path / "out.dmexp")
    assert not (tmp_path / "out.dmexp").exists()


# Damage, byte by byte.


def entry(**changes: Any) -> dict[str, Any]:
    right = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "param_id": 1}
    return {key: value for key, value in (right | changes).items() if value is not None}


DATA = {"x": np.float32([1, 2])}
BROKEN: dict[str, tuple[bytes, type[DmexpError]]] = {
    "no model": (container(b""), TruncatedError),
    "model of 9 bytes": (container(b"NRUB\1\0\0\0\0"), TruncatedError),
    "another magic": (container(burnpack(DATA, magic=b"BURN")), FormatError),
    "version 2": (container(burnpack(DATA, version=2)), UnsupportedError),
    "version 0": (container(burnpack(DATA, version=0)), UnsupportedError),
    "metadata beyond 100 MiB": (
        container(burnpack(DATA, metadata_bytes=(100 << 20) + 1)),
        LimitExceededError,
    ),
    "metadata beyond the section": (
        container(burnpack(DATA, metadata_bytes=99999)),
        TruncatedError,
    ),
    "metadata is no map": (container(burnpack(DATA, metadata=b"\x80")), FormatError),
    "metadata is cut": (container(burnpack(DATA, metadata=b"\xa1\x67tensor")), FormatError),
    "no tensors": (container(burnpack({})), FormatError),
    "tensors is a list": (
        container(burnpack(DATA, metadata=cbor2.dumps({"tensors": []}))),
        FormatError,
    ),
    "entry is a list": (container(burnpack(DATA, table={"x": []})), FormatError),
    "unknown dtype": (
        container(burnpack(DATA, table={"x": entry(dtype="F8")})),
        UnsupportedDtypeError,
    ),
    "quantised": (
        container(burnpack(DATA, table={"x": entry(dtype={"QFloat": {"mode": "x"}})})),
        UnsupportedDtypeError,
    ),
    "dtype missing": (
        container(burnpack(DATA, table={"x": entry(dtype=None)})),
        UnsupportedDtypeError,
    ),
    "shape missing": (container(burnpack(DATA, table={"x": entry(shape=None)})), FormatError),
    "a negative dim": (container(burnpack(DATA, table={"x": entry(shape=[-2])})), FormatError),
    "a dim that is true": (
        container(burnpack(DATA, table={"x": entry(shape=[True, 2])})),
        FormatError,
    ),
    "a dim that is a float": (
        container(burnpack(DATA, table={"x": entry(shape=[2.0])})),
        FormatError,
    ),
    "a dim of 0": (
        container(burnpack(DATA, table={"x": entry(shape=[0], data_offsets=[0, 0])})),
        UnsupportedShapeError,
    ),
    "rank 9": (container(burnpack(DATA, table={"x": entry(shape=[1] * 9)})), UnsupportedShapeError),
    "dims beyond 64 bits": (
        container(burnpack(DATA, table={"x": entry(shape=[1 << 40, 1 << 40])})),
        SizeOverflowError,
    ),
    "dims of an exabyte": (
        container(burnpack(DATA, table={"x": entry(shape=[1 << 58])})),
        ShapeMismatchError,
    ),
    "one offset": (container(burnpack(DATA, table={"x": entry(data_offsets=[0])})), FormatError),
    "end before begin": (
        container(burnpack(DATA, table={"x": entry(data_offsets=[8, 0])})),
        FormatError,
    ),
    "end beyond the section": (
        container(burnpack(DATA, table={"x": entry(shape=[300], data_offsets=[0, 1200])})),
        TruncatedError,
    ),
    "offsets of 2^64": (
        container(burnpack(DATA, table={"x": entry(data_offsets=[0, 2**64 - 1])})),
        TruncatedError,
    ),
    "bytes other than the dims'": (
        container(burnpack(DATA, table={"x": entry(shape=[1])})),
        ShapeMismatchError,
    ),
    "not aligned": (
        container(burnpack(DATA, table={"x": entry(shape=[1], data_offsets=[4, 8])})),
        FormatError,
    ),
    "overlap": (
        container(burnpack(DATA, table={"x": entry(), "y": entry()})),
        FormatError,
    ),
    "a hole": (
        container(
            burnpack(
                {"x": np.zeros(200, np.float32)},
                table={"x": entry(shape=[2], data_offsets=[256, 264])},
            )
        ),
        FormatError,
    ),
    "more behind the last tensor": (container(burnpack(DATA, tail=bytes(256))), FormatError),
    "a tag": (container(burnpack(DATA, metadata=b"\xc0\x60")), FormatError),
    "too deep": (container(burnpack(DATA, metadata=b"\x81" * 200 + b"\x00")), LimitExceededError),
    "an array longer than the file": (
        container(burnpack(DATA, metadata=b"\x9b\x00\x00\x00\x10\x00\x00\x00\x00")),
        FormatError,
    ),
    "more tensors than any model": (
        container(burnpack(DATA, metadata=b"\xba\x00\x01\x86\xa1" + b"\x60\x00" * 100_001)),
        LimitExceededError,
    ),
    "model beyond the file": (container(burnpack(DATA), model_bytes=99_999), TruncatedError),
    "model of 2^64 - 1 bytes": (
        container(burnpack(DATA), model_bytes=2**64 - 1),
        TruncatedError,
    ),
    "step beyond any header": (container(burnpack(DATA), step=1 << 63), FormatError),
    "container cut": (container(burnpack(DATA))[:47], TruncatedError),
    "another container": (b"DMCK\x00\x03\x00\x00" + bytes(100), UnsupportedError),
}


@pytest.mark.parametrize("case", BROKEN)
def test_damage_is_refused_with_the_file_s_name(case: str, tmp_path: Path) -> None:
    data, kind = BROKEN[case]
    path = run(tmp_path, data, snapshot())
    tracemalloc.start()
    with pytest.raises(kind) as caught:
        open_source(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The longest case announces 100,001 entries in 200 kB of file.
    assert peak < 4 << 20
    assert type(caught.value) is kind
    assert caught.value.path == str(path)


def test_a_checkpoint_without_the_magic_is_not_guessed(tmp_path: Path) -> None:
    model = burnpack(DATA)
    legacy = struct.pack("<3Q", 20, len(model), 0) + model
    path = run(tmp_path, legacy, snapshot())
    with pytest.raises(UnsupportedFormatError, match="no file of a kind that is known"):
        open_source(path)
    with pytest.raises(UnsupportedFormatError, match="before that magic"):
        open_dormouse(path)


def test_a_checkpoint_cut_anywhere_before_the_optimizer_is_refused(tmp_path: Path) -> None:
    whole = container(burnpack(DATA))
    model_end = len(whole) - 3
    path = run(tmp_path, whole, snapshot())
    for length in range(model_end):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            open_source(path)
    path.write_bytes(whole[:model_end])
    with open_source(path) as source:
        assert source.info.notices


def test_every_flipped_byte_of_the_headers_is_refused_or_moves_nothing(tmp_path: Path) -> None:
    whole = container(burnpack(DATA))
    data_start = 48 + align(whole.index(b"param_id") - 48 + 20)
    path = run(tmp_path, whole, snapshot())
    for place in range(data_start):
        for mask in (1, 0x20, 0x80):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :])
            try:
                with open_source(path) as source:
                    found = [source.read(entry.name).tobytes() for entry in source.entries()]
                    assert found == [DATA["x"].tobytes()]
            except DmexpError:
                continue


# The CBOR subset, against a general library.

json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


@given(json_like)
def test_what_a_general_library_encodes_is_decoded(value: object) -> None:
    found = decode(cbor2.dumps(value), most_items=100)
    assert found == value
    assert repr(found) == repr(value)


@given(st.binary(max_size=60))
def test_any_bytes_decode_to_what_a_general_library_finds_or_are_refused(data: bytes) -> None:
    try:
        found = decode(data, most_items=100)
    except (FormatError, LimitExceededError):
        return
    assert repr(found) == repr(cbor2.loads(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\x9f\x00\xff",  # an array without a length
        b"\xbf\xff",
        b"\x7f\x61a\xff",
        b"\x40",  # bytes
        b"\xc1\x00",  # a date
        b"\xd8\x1c\x80",  # a shared value
        b"\xf7",  # undefined
        b"\xf8\x20",
        b"\xa1\x00\x00",  # a key that is a number
        b"\xa2\x61a\x00\x61a\x01",  # a key twice
        b"\x61\xff",  # not UTF-8
        b"\x00\x00",  # one more value
        b"\x1c",  # a reserved length
        b"",
    ],
)
def test_what_no_checkpoint_uses_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode(data, most_items=100)
