"""The table of LIS's safetensors subset, row by row: its status, and what our own reader says."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from dmexp.errors import InvalidArgumentError
from dmexp.loaders.safetensors import SafetensorsFile, lis_scope
from safetensors_util import pack, tensor, write

LIMIT = 100 * 1024 * 1024
P = bytes(24)  # the payload of one [2, 3] tensor in F32


def raw(entry: str, name: str = '"a"') -> str:
    return f"{{{name}: {entry}}}"


def fields(dtype: str = '"F32"', shape: str = "[2, 3]", offsets: str = "[0, 24]") -> str:
    return raw(f'{{"dtype": {dtype}, "shape": {shape}, "data_offsets": {offsets}}}')


OK, FORMAT, DTYPE, SHAPE = "OK", "FORMAT", "UNSUPPORTED_DTYPE", "UNSUPPORTED_SHAPE"
OVERFLOW, MISMATCH = "OVERFLOW", "SHAPE_MISMATCH"
READS = None

# condition: (bytes, LIS's status, the code of our reader or None where it reads the file)
ROWS = {
    "a plain file": (pack({"a": tensor()}, P), OK, READS),
    "F16": (pack({"a": tensor(dtype="F16")}, bytes(12)), OK, READS),
    "BF16": (pack({"a": tensor(dtype="BF16")}, bytes(12)), OK, READS),
    "I32": (pack({"a": tensor(dtype="I32")}, P), OK, READS),
    "U32": (pack({"a": tensor(dtype="U32")}, P), OK, READS),
    # the prefix
    "empty file": (b"", FORMAT, FORMAT),
    "7 bytes": (bytes(7), FORMAT, FORMAT),
    "header length 0": (pack("", P), FORMAT, FORMAT),
    "header length 100 MiB + 1": (struct.pack("<Q", LIMIT + 1), FORMAT, FORMAT),
    "header length 2^64 - 1": (b"\xff" * 8 + b"{}", FORMAT, FORMAT),
    "header length beyond the file": (pack("{}", length=3), FORMAT, FORMAT),
    "garbage": (b"this is no model at all", FORMAT, FORMAT),
    # the grammar
    "first byte is no brace": (pack("[]"), FORMAT, FORMAT),
    "space before the brace": (pack(" \n\r\t" + fields(), P), OK, READS),
    "form feed before the brace": (pack("\f" + fields(), P), FORMAT, FORMAT),
    "key that is no string": (pack("{1: {}}"), FORMAT, FORMAT),
    "no colon": (pack('{"a" {}}'), FORMAT, FORMAT),
    "cut in a name": (pack('{"a'), FORMAT, FORMAT),
    "cut after an entry": (pack(fields()[:-1], P), FORMAT, FORMAT),
    "no comma between entries": (
        pack(raw(json.dumps(tensor()) + '"b": 1'), P),
        FORMAT,
        FORMAT,
    ),
    "escaped name": (pack({"a\n": tensor()}, P), FORMAT, READS),
    "escape in a field": (pack(fields().replace('"dtype"', '"d\\u0074ype"'), P), FORMAT, READS),
    "escape in a dtype": (pack(fields(dtype='"F\\u0033\\u0032"'), P), FORMAT, READS),
    "escape in the metadata": (
        pack({"__metadata__": {"a": "\n"}, "a": tensor()}, P),
        FORMAT,
        READS,
    ),
    # the kinds of JSON
    "entry is a number": (pack(raw("1"), P), FORMAT, FORMAT),
    "entry is an array": (pack(raw("[]"), P), FORMAT, FORMAT),
    "dtype missing": (pack({"a": tensor(dtype=None)}, P), FORMAT, FORMAT),
    "shape missing": (pack(fields().replace('"shape": [2, 3], ', ""), P), FORMAT, FORMAT),
    "data_offsets missing": (pack({"a": tensor(data_offsets=None)}, P), FORMAT, FORMAT),
    "empty entry": (pack(raw("{}"), P), FORMAT, FORMAT),
    "dtype is a number": (pack(fields(dtype="32"), P), FORMAT, FORMAT),
    "shape is a string": (pack(fields(shape='"2,3"'), P), FORMAT, FORMAT),
    "shape is an object": (pack(fields(shape="{}"), P), FORMAT, FORMAT),
    "shape is null": (pack(fields(shape="null"), P), FORMAT, FORMAT),
    "data_offsets is a number": (pack(fields(offsets="24"), P), FORMAT, FORMAT),
    # dtypes
    "I64": (pack({"a": tensor(dtype="I64")}, bytes(48)), DTYPE, READS),
    "F64": (pack({"a": tensor(dtype="F64")}, bytes(48)), DTYPE, READS),
    "BOOL": (pack({"a": tensor(dtype="BOOL")}, bytes(6)), DTYPE, READS),
    "F8_E4M3": (pack({"a": tensor(dtype="F8_E4M3")}, bytes(6)), DTYPE, DTYPE),
    "f32 in lower case": (pack(fields(dtype='"f32"'), P), DTYPE, DTYPE),
    "F32 with a space": (pack(fields(dtype='"F32 "'), P), DTYPE, DTYPE),
    "dtype of no letters": (pack(fields(dtype='""'), P), DTYPE, DTYPE),
    # shapes
    "rank 0": (pack(fields(shape="[]", offsets="[0, 4]"), bytes(4)), SHAPE, READS),
    "rank 8": (pack(fields(shape="[1, 1, 1, 1, 1, 1, 2, 3]"), P), OK, READS),
    "rank 9": (pack(fields(shape="[1, 1, 1, 1, 1, 1, 1, 2, 3]"), P), SHAPE, SHAPE),
    "a dim of 0": (pack(fields(shape="[2, 0]", offsets="[0, 0]")), SHAPE, SHAPE),
    "a negative dim": (pack(fields(shape="[-2, -3]"), P), FORMAT, FORMAT),
    "minus zero as a dim": (pack(fields(shape="[-0]", offsets="[0, 0]"), b""), FORMAT, FORMAT),
    "a fractional dim": (pack(fields(shape="[2.0, 3]"), P), FORMAT, FORMAT),
    "a dim with an exponent": (pack(fields(shape="[2e0, 3]"), P), FORMAT, FORMAT),
    "a dim of 1e400": (pack(fields(shape="[1e400]"), P), FORMAT, FORMAT),
    "a dim that is a string": (pack(fields(shape='["2", 3]'), P), FORMAT, FORMAT),
    "a dim that is true": (pack(fields(shape="[true, 6]"), P), FORMAT, FORMAT),
    "a dim that is NaN": (pack(fields(shape="[NaN]"), P), FORMAT, FORMAT),
    "a nested dim": (pack(fields(shape="[[2], 3]"), P), FORMAT, FORMAT),
    "trailing comma in an array": (pack(fields(shape="[2, 3,]"), P), FORMAT, FORMAT),
    # overflow
    "a dim of 2^64": (pack(fields(shape=f"[{1 << 64}]"), P), OVERFLOW, OVERFLOW),
    "a dim of a thousand digits": (
        pack(fields(shape="[" + "9" * 1000 + "]"), P),
        OVERFLOW,
        OVERFLOW,
    ),
    "a dim of a million digits": (
        pack(fields(shape="[" + "9" * 1_000_000 + "]"), P),
        OVERFLOW,
        OVERFLOW,
    ),
    "an offset of 2^64": (pack(fields(offsets=f"[0, {1 << 64}]"), P), OVERFLOW, OVERFLOW),
    "product of dims is 2^64": (
        pack(fields(shape=f"[{1 << 32}, {1 << 32}]"), P),
        OVERFLOW,
        OVERFLOW,
    ),
    "product of dims wraps to 6": (
        pack(fields(shape=f"[{(1 << 63) + 3}, 2]"), P),
        OVERFLOW,
        OVERFLOW,
    ),
    "bytes are 2^64": (pack(fields(shape=f"[{1 << 62}]"), P), OVERFLOW, OVERFLOW),
    # offsets
    "one offset": (pack(fields(offsets="[24]"), P), FORMAT, FORMAT),
    "three offsets": (pack(fields(offsets="[0, 24, 24]"), P), FORMAT, FORMAT),
    "no offsets": (pack(fields(offsets="[]"), P), FORMAT, FORMAT),
    "a negative offset": (pack(fields(offsets="[-24, 0]"), P), FORMAT, FORMAT),
    "a fractional offset": (pack(fields(offsets="[0, 24.0]"), P), FORMAT, FORMAT),
    "end before begin": (pack(fields(offsets="[24, 0]"), P), FORMAT, FORMAT),
    "end beyond the payload": (pack(fields(), P[:-1]), FORMAT, FORMAT),
    "bytes other than the shape's": (pack(fields(offsets="[0, 20]"), P), MISMATCH, MISMATCH),
    "bytes other than the dtype's": (pack(fields(dtype='"BF16"'), P), MISMATCH, MISMATCH),
    # what is there
    "no tensor at all": (pack("{}"), FORMAT, FORMAT),
    "metadata and no tensor": (pack({"__metadata__": {"a": "b"}}), FORMAT, FORMAT),
    "nested metadata": (pack({"__metadata__": {"a": [{"b": 1}]}, "a": tensor()}, P), OK, READS),
    "metadata is a string": (pack({"__metadata__": "x", "a": tensor()}, P), OK, READS),
    "metadata is a huge number": (
        pack('{"__metadata__": ' + "9" * 9000 + "," + fields()[1:], P),
        OK,
        READS,
    ),
    "an extra field": (
        pack(raw('{"note": [1, {"x": "]"}], ' + json.dumps(tensor())[1:]), P),
        OK,
        READS,
    ),
    "a scalar that is passed over, then a comma": (
        pack(raw('{"n": 5, ' + json.dumps(tensor())[1:]), P),
        OK,
        READS,
    ),
    "a scalar that is passed over, then a brace": (
        pack(raw(json.dumps(tensor())[:-1] + ', "n": 5}'), P),
        FORMAT,
        READS,
    ),
    # what LIS leaves open, and we close
    "names twice": (
        pack(raw(json.dumps(tensor()) + ', "a": ' + json.dumps(tensor())), P),
        OK,
        FORMAT,
    ),
    "a field twice": (pack(fields().replace('"shape"', '"dtype": "F32", "shape"'), P), OK, FORMAT),
    "a name that is empty": (pack({"": tensor()}, P), OK, READS),
    "a NUL in a name, as it is": (pack(raw(json.dumps(tensor()), '"a\0b"'), P), OK, FORMAT),
    "a tab in a name, as it is": (pack(raw(json.dumps(tensor()), '"a\tb"'), P), OK, FORMAT),
    "a name that is not UTF-8": (pack(fields().encode().replace(b'"a"', b'"\xff"'), P), OK, FORMAT),
    "a name that is half a surrogate pair": (
        pack(fields().replace('"a"', '"\\ud800"'), P),
        FORMAT,
        FORMAT,
    ),
    "trailing comma in an object": (pack(fields()[:-2] + ",},}", P), OK, FORMAT),
    "junk after the root": (pack(fields() + " junk", P), OK, FORMAT),
    "a second object after the root": (pack(fields() + "{}", P), OK, FORMAT),
    "NUL bytes after the root": (pack(fields() + "\0\0", P), OK, FORMAT),
    "spaces after the root": (pack(fields() + "   ", P), OK, READS),
    "leading zeros": (pack(fields(shape="[02, 3]"), P), OK, FORMAT),
    "brackets that do not match, in the metadata": (
        pack('{"__metadata__": {"a": [1}], ' + fields()[1:], P),
        OK,
        FORMAT,
    ),
    "offsets that overlap": (
        pack({"a": tensor(), "b": tensor(20)}, bytes(44)),
        OK,
        FORMAT,
    ),
    "two names for the same bytes": (pack({"a": tensor(), "b": tensor()}, P), OK, FORMAT),
    "a hole between tensors": (pack({"a": tensor(), "b": tensor(28)}, bytes(52)), OK, FORMAT),
    "a hole before the first tensor": (pack({"a": tensor(4)}, bytes(28)), OK, FORMAT),
    "trailing bytes": (pack({"a": tensor()}, P + b"\0"), OK, FORMAT),
    "tensors in another order than their bytes": (
        pack({"b": tensor(24), "a": tensor()}, P + P),
        OK,
        READS,
    ),
    "nested a hundred thousand deep": (
        pack('{"__metadata__": ' + "[" * 100_000 + "]" * 100_000 + "," + fields()[1:], P),
        OK,
        FORMAT,
    ),
    # the first fault in reading order counts
    "a wrong dtype, then a wrong shape": (
        pack({"a": tensor(dtype="I64"), "b": tensor(48, shape=(0,))}, bytes(48)),
        DTYPE,
        SHAPE,
    ),
    "a wrong shape, then a wrong dtype": (
        pack({"a": tensor(shape=(0,)), "b": tensor(dtype="I64")}, bytes(48)),
        SHAPE,
        SHAPE,
    ),
    "shape stands before dtype in one entry": (
        pack(raw('{"shape": [0], "dtype": "I64", "data_offsets": [0, 0]}')),
        SHAPE,
        SHAPE,
    ),
}


@pytest.mark.parametrize("condition", ROWS)
def test_the_table_of_the_safetensors_subset(condition: str, tmp_path: Path) -> None:
    data, status, ours = ROWS[condition]
    path = tmp_path / "model.safetensors"
    path.write_bytes(data)
    report = lis_scope(path)
    assert (report.status, report.stricter) == (status, ours)
    assert report.inside == (status == OK)
    assert bool(report.reason) == (status != OK)
    if status == OK:
        assert report.complete
        assert all(entry.inside for entry in report.tensors)


def test_every_tensor_has_its_own_status(tmp_path: Path) -> None:
    header = {
        "good": tensor(),
        "wide": tensor(24, dtype="F64", shape=(1,)),
        "scalar": tensor(32, shape=()),
        "wrong": tensor(36, shape=(2,), data_offsets=[36, 40]),
        "also good": tensor(40, dtype="BF16", shape=(2,)),
        "far": tensor(44, shape=(9,)),
        "esc\taped": tensor(44, dtype="F16", shape=(1,)),
        "huge": tensor(46, shape=(1,), data_offsets=[46, 50]) | {"shape": [1 << 63, 4]},
    }
    report = lis_scope(write(tmp_path / "m.safetensors", header, bytes(50)))
    assert [(entry.name, entry.status) for entry in report.tensors] == [
        ("good", OK),
        ("wide", DTYPE),
        ("scalar", SHAPE),
        ("wrong", MISMATCH),
        ("also good", OK),
        ("far", FORMAT),
        ("esc\\taped", FORMAT),
        ("huge", OVERFLOW),
    ]
    assert report.complete
    assert report.status == DTYPE
    assert report.reason == "dtype F64"


def test_a_scan_that_loses_its_way_says_so(tmp_path: Path) -> None:
    text = fields()[:-1] + ', "b": 5}'
    report = lis_scope(write(tmp_path / "m.safetensors", text, P))
    assert not report.complete
    assert report.status == FORMAT
    assert [(entry.name, entry.inside) for entry in report.tensors] == [("a", True), ("b", False)]


def test_a_long_scan_takes_one_pass(tmp_path: Path) -> None:
    endless = pack('{"' + "a" * 4_000_000)
    path = tmp_path / "m.safetensors"
    path.write_bytes(endless)
    assert lis_scope(path).status == FORMAT
    value = "1," * 1_000_000 + '"x' + "y" * 1_000_000 + '"'
    text = '{"__metadata__": [' + value + "], " + fields()[1:]
    assert lis_scope(write(path, text, P)).status == OK


# Cases of the format detection, which looks at suffixes first and at content second.


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_a_pickle_suffix_is_enough(suffix: str, tmp_path: Path) -> None:
    assert lis_scope(tmp_path / f"absent{suffix}").status == "UNSUPPORTED_FORMAT"
    (tmp_path / f"x{suffix}").write_bytes(pack({"a": tensor()}, P))
    report = lis_scope(tmp_path / f"x{suffix}")
    assert report.status == "UNSUPPORTED_FORMAT"
    (tmp_path / f"directory{suffix}").mkdir()
    assert lis_scope(tmp_path / f"directory{suffix}").status == "UNSUPPORTED_FORMAT"


def test_the_suffix_in_upper_case_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "x.PT").write_bytes(pack({"a": tensor()}, P))
    assert lis_scope(tmp_path / "x.PT").inside
    (tmp_path / "y.PT").write_bytes(b"PK\x03\x04" + bytes(40))
    assert lis_scope(tmp_path / "y.PT").status == "UNSUPPORTED_FORMAT"


@pytest.mark.parametrize("data", [b"GGUF\3\0\0\0", b"PK\x03\x04", b"\x80\x02}.", b""])
def test_other_content_under_another_suffix(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(data)
    assert lis_scope(tmp_path / "model.gguf").status == "UNSUPPORTED_FORMAT"


def test_a_fault_past_the_first_brace_keeps_its_status_under_any_suffix(tmp_path: Path) -> None:
    assert (
        lis_scope(write(tmp_path / "weights", {"a": tensor(dtype="I64")}, bytes(48))).status
        == DTYPE
    )


def test_an_address_is_no_path() -> None:
    assert lis_scope("https://example.org/model").status == "UNSUPPORTED_FORMAT"


def test_directories(tmp_path: Path) -> None:
    assert lis_scope(tmp_path).status == "UNSUPPORTED_FORMAT"
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(OSError, match=r"model\.safetensors"):
        lis_scope(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    assert lis_scope(tmp_path).status == "UNSUPPORTED_FORMAT"
    write(tmp_path / "model.safetensors", {"a": tensor()}, P)
    assert lis_scope(tmp_path).inside


def test_a_source_that_is_no_path() -> None:
    with pytest.raises(InvalidArgumentError, match="path is needed, not bytes") as caught:
        lis_scope(pack({"a": tensor()}, P))  # type: ignore[arg-type]
    assert caught.value.code == "INVALID_ARGUMENT"


def test_a_file_that_is_not_there_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lis_scope(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError):
        SafetensorsFile(tmp_path / "absent.safetensors")
