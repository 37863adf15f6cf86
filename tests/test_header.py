"""Headers: what is accepted, what is refused, and that damage never goes unseen."""

from __future__ import annotations

import struct
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import (
    GOOD,
    assert_same_tensors,
    everything,
    f32,
    header_of,
    manifest,
    noise,
    pack,
    plain,
    read_lazily,
    refusal,
    split,
    table,
    top,
)

NONE = "tensors = []\n"


def test_an_empty_header_lacks_every_key() -> None:
    for header in ("", "\n", "# only a comment", "\ufeff"):
        error = refusal(dmexp.load, pack(header))
        assert (error.code, error.key) == ("FORMAT", "format")


# Where the payload starts ------------------------------------------------------------------


@pytest.mark.parametrize("residue", range(64))
def test_a_header_of_any_length_is_read(residue: int, tmp_path: Path) -> None:
    values = noise(residue, 5)
    _, header, payload = split(plain({"x": [5]}, values))
    path = tmp_path / "x.dmexp"
    for filler in (b"\n", b" ", b"#"):
        padded = header + filler * ((residue - len(header)) % 64)
        assert len(padded) % 64 == residue
        path.write_bytes(pack(padded, payload))
        assert_same_tensors(dmexp.load_file(path), {"x": values})
        lazily = read_lazily(path)["x"]
        assert lazily.tobytes() == values.tobytes()
        assert (lazily + 0 == values).all()
        assert dmexp.verify(path).ok


BUFFERS = [4096, 16 * 1024 - 24, 16 * 1024, 64 * 1024, 2**20]


@pytest.mark.parametrize("size", BUFFERS)
def test_a_header_as_long_as_some_buffer_is_read(size: int, tmp_path: Path) -> None:
    values = noise(1, 3)
    magnitudes = np.abs(values)
    path = tmp_path / "x.dmexp"
    for length in range(size - 16, size + 17):
        header = top(
            num_params="3",
            num_tensors="1",
            max_abs=repr(float(magnitudes.max())),
            min_nonzero_abs=repr(float(magnitudes.min())),
            source='"SOURCE"',
        ) + table("x", [3])
        header = header.replace("SOURCE", "s" * (length - len(header) + 6))
        assert len(header) == length
        data = pack(header, values.tobytes())
        path.write_bytes(data)
        assert_same_tensors(dmexp.load(data), {"x": values})
        assert_same_tensors(dmexp.load_file(path), {"x": values})
        assert read_lazily(path)["x"].tobytes() == values.tobytes()


@pytest.mark.parametrize("nth", range(70))
def test_our_headers_end_at_a_multiple_of_64(nth: int) -> None:
    data = dmexp.save({"x": noise(1, 3)}, source="s" * nth)
    length = struct.unpack_from("<I", data, 8)[0]
    assert (24 + length) % 64 == 0
    _, header, _ = split(data)
    last = header.rstrip(b"\n").rsplit(b"\n", 1)[-1]
    assert last.startswith(b'# header-crc32 = "')
    # Room is kept for the longest numbers, and no more.
    assert len(header) - len(header.rstrip(b"\n")) < 64 + 2 * 64 + 40


# Other words for the same ------------------------------------------------------------------


def test_unknown_keys_are_kept_for_who_knows_them() -> None:
    header = (
        top() + NONE + 'later = "x"\nflag = true\nlist = [1, 2.5, "a"]\nwhen = 2026-01-02\n'
        "\n[deep.er]\nkey = { a = 1 }\n\n[[many]]\nn = 1\n\n[[many]]\nn = 2\n"
    )
    found = header_of(pack(header))
    expected = tomllib.loads(header)
    assert found.extra == {
        k: expected[k] for k in ("later", "flag", "list", "when", "deep", "many")
    }
    assert found.metadata == {}


def test_unknown_keys_of_a_tensor_are_kept_too() -> None:
    header = top(num_tensors="1") + table("x", [0], 'role = "norm"\nscale = 2.5\n')
    found = header_of(pack(header))
    assert found.tensor_extra == {"x": {"role": "norm", "scale": 2.5}}


def test_a_table_below_the_metadata_is_seen() -> None:
    # The quick reader must not stop where the metadata starts.
    whole = top(num_tensors="1") + table("a", [0]) + "\n[metadata]\nk = 1\n"
    assert header_of(pack(whole)).metadata == {"k": 1}
    found = header_of(pack(whole + "\n[other]\nx = 2\n"))
    assert (found.metadata, found.extra) == ({"k": 1}, {"other": {"x": 2}})
    error = refusal(dmexp.load, pack(whole + table("b", [0])))
    assert (error.code, error.key, error.found, error.expected) == ("FORMAT", "num_tensors", 1, 2)
    for more in ("\n[metadata]\nl = 2\n", "\n[source]\n", "k = 2\n", "broken"):
        error = refusal(dmexp.load, pack(whole + more))
        assert error.code == "FORMAT"
        assert error.line >= 18


@pytest.mark.parametrize("crc", ['# header-crc32 = "00000000"', '# header-crc32 = "0000000"',
                                 '# header-crc32 = "0000000G"', '#header-crc32 = "00000000"',
                                 '# header-crc32 = "00000000" ', '# header-crc32 = "00000000"x'])  # fmt: skip
def test_only_the_one_line_is_the_headers_checksum(crc: str) -> None:
    header = top() + NONE + crc + "\n\n \t\r\n"
    if crc.rstrip() == '# header-crc32 = "00000000"':
        assert refusal(dmexp.load, pack(header)).what == "header"
        # Not the last line, so a comment like any other.
        header += "# more\n"
    assert dmexp.load(pack(header)) == {}


@pytest.mark.parametrize("name", sorted(manifest(GOOD)))
def test_the_quick_reader_and_the_general_one_agree_on_the_corpus(name: str) -> None:
    data = (GOOD / name).read_bytes()
    _, header, payload = split(data)
    if header.startswith(b"\xef\xbb\xbf"):
        return
    # A comment in front is read by the general parser alone.
    assert everything(pack(b"# c\n" + header, payload)) == everything(data)


# Rules -------------------------------------------------------------------------------------

RULES: list[tuple[str, str, dict[str, Any]]] = [
    # header, code, facts
    (top(format="1.0") + NONE, "FORMAT", {"key": "format"}),
    (top(format="true") + NONE, "FORMAT", {"key": "format"}),
    (top(format="0") + NONE, "UNSUPPORTED", {"found": 0, "expected": 1}),
    (top(format="257") + NONE, "UNSUPPORTED", {"found": 257}),
    (top(dtype="1") + NONE, "FORMAT", {"key": "dtype"}),
    (top(dtype='"f32 "') + NONE, "UNSUPPORTED_DTYPE", {"dtype": "f32 "}),
    (top(dtype='""') + NONE, "UNSUPPORTED_DTYPE", {"dtype": ""}),
    (top(dtype='"float32"') + NONE, "UNSUPPORTED_DTYPE", {"dtype": "float32"}),
    (top(source="1") + NONE, "FORMAT", {"key": "source"}),
    (top(step="1.0") + NONE, "FORMAT", {"key": "step"}),
    (top(step='"1"') + NONE, "FORMAT", {"key": "step"}),
    (top(step="-0x1") + NONE, "FORMAT", {}),
    (top(step="9223372036854775808") + NONE, "FORMAT", {}),
    (top(num_params="1") + NONE, "FORMAT", {"key": "num_params", "found": 1, "expected": 0}),
    (top(num_params="9223372036854775807") + NONE, "FORMAT", {"key": "num_params"}),
    (top(num_params="4611686018427387904") + NONE, "FORMAT", {"key": "num_params"}),
    (top(num_tensors="1") + NONE, "FORMAT", {"key": "num_tensors", "found": 1, "expected": 0}),
    (top(flushed="1") + NONE, "FORMAT", {"key": "flushed"}),
    (top(flushed="-1") + NONE, "FORMAT", {"key": "flushed"}),
    (top(max_abs='"0"') + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="true") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="nan") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="inf") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="-inf") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="1e400") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="-1.0") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(max_abs="1.0") + NONE, "FORMAT", {"key": "max_abs", "found": 1.0, "expected": 0.0}),
    (top(max_abs="1" * 400 + ".0") + NONE, "FORMAT", {"key": "max_abs"}),
    (top(min_nonzero_abs="nan") + NONE, "FORMAT", {"key": "min_nonzero_abs"}),
    (top(min_nonzero_abs="1.0") + NONE, "FORMAT", {"key": "min_nonzero_abs", "expected": 0.0}),
    (top(config="1") + NONE, "FORMAT", {"key": "config"}),
    (top(config="{}") + NONE, "FORMAT", {"key": "config"}),
    (top(config='"a ="') + NONE, "FORMAT", {"key": "config"}),
    (top(config='"a = 1\\na = 2"') + NONE, "FORMAT", {"key": "config"}),
    (top(config="'x = " + "[" * 50_000 + "'") + NONE, "FORMAT", {"key": "config"}),
    (top(config="'x = 0x" + "f" * 50_000 + "'") + NONE, "FORMAT", {"key": "config"}),
    (top() + "tensors = 1\n", "FORMAT", {"key": "tensors"}),
    (top() + "tensors = [1]\n", "FORMAT", {"key": "tensors"}),
    (top() + "tensors = {}\n", "FORMAT", {"key": "tensors"}),
    (top(), "FORMAT", {"key": "tensors"}),
    (top() + NONE + "subnormal = 1.0\n", "FORMAT", {"key": "subnormal"}),
    (top() + NONE + "subnormal = -1\n", "FORMAT", {"key": "subnormal"}),
    (top() + NONE + "subnormal = 1\n", "FORMAT", {"key": "subnormal"}),
    (top() + NONE + "writer = 1\n", "FORMAT", {"key": "writer"}),
    (top() + NONE + "metadata = 1\n", "FORMAT", {"key": "metadata"}),
    (top() + NONE + "metadata = []\n", "FORMAT", {"key": "metadata"}),
    (top() + NONE + "[metadata]\nx = 9223372036854775808\n", "FORMAT", {}),
    (top() + NONE + "x = [[1, { a = 0x8000000000000000 }]]\n", "FORMAT", {}),
    (top(step="1" * 4999) + NONE, "FORMAT", {}),
    (top(step="1" * 5000) + NONE, "FORMAT", {}),
    (top() + NONE + "x = [\n  0x" + "f" * 5000 + "]\n", "FORMAT", {}),
    (top() + NONE + "x = 1." + "1" * 5000, "FORMAT", {}),
    (top() + NONE + "x = 1." + "1" * 4999, "", {}),
    (top() + NONE + "x = '" + "1" * 50_000 + "'\n", "", {}),
    (top() + NONE + "".join(f"[t{n}]\n" for n in range(100_001)), "FORMAT", {}),
    (top() + NONE + "".join(f"[t{n}]\n" for n in range(1000)), "", {}),
    (top() + NONE + "x = 1\nx = 2\n", "FORMAT", {"line": 13}),
    (top() + NONE + "\0", "FORMAT", {"line": 12}),
    (top() + NONE + "x = '\x7f'", "FORMAT", {"line": 12}),
    (top() + NONE + "x = 1 y = 2", "FORMAT", {"line": 12}),
    (top() + NONE + "\r\rx = 1", "FORMAT", {"line": 12}),
    (top() + NONE + 'x = "\\ud800"', "FORMAT", {"line": 12}),
    (top(num_tensors="1") + table("", [0]), "FORMAT", {"key": "name"}),
    (top(num_tensors="1") + table("a\\nb", [0]), "FORMAT", {"key": "name"}),
    (top(num_tensors="1") + table("a\x85b", [0]), "FORMAT", {"key": "name"}),
    (top(num_tensors="1") + table("\\u007f", [0]), "FORMAT", {"key": "name"}),
    (top(num_tensors="2") + table("a", [0]) + table("\\u0061", [0]), "FORMAT", {"tensor": "a"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 1\ndims = []\noverflowed = 0\n", "FORMAT", {"key": "name"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = 1\noverflowed = 0\n", "FORMAT", {"key": "dims"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = ['1']\noverflowed = 0\n", "FORMAT", {"key": "dims"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = [true]\noverflowed = 0\n", "FORMAT", {"key": "dims"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = [[0]]\noverflowed = 0\n", "FORMAT", {"key": "dims"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = [0, -1]\noverflowed = 0\n", "FORMAT", {"key": "dims"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = [0]\noverflowed = 1\n", "FORMAT", {"key": "overflowed"}),
    (top(num_tensors="1") + "[[tensors]]\nname = 'a'\ndims = [0]\noverflowed = 0.0\n", "FORMAT", {"key": "overflowed"}),
    (top(num_tensors="1") + table("a", [0], "crc32 = 0\n"), "FORMAT", {"key": "crc32"}),
    (top(num_tensors="1") + table("a", [0], 'crc32 = "0000000"\n'), "FORMAT", {"key": "crc32"}),
    (top(num_tensors="1") + table("a", [0], 'crc32 = "0000000G"\n'), "FORMAT", {"key": "crc32"}),
    (top(num_tensors="1") + table("a", [0], 'crc32 = "ABCDEF01"\n'), "FORMAT", {"key": "crc32"}),
    (top(num_tensors="1") + table("a", [0], 'crc32 = "+0000000"\n'), "FORMAT", {"key": "crc32"}),
    (top(num_tensors="1") + table("a", [0], 'crc32 = "00000001"\n'), "CHECKSUM", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [0] * 65), "FORMAT", {"tensor": "a", "rank": 65}),
    (top(num_tensors="1") + table("a", [1] * 100_000), "FORMAT", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [1]), "SHAPE_MISMATCH", {"tensor": "a", "end": 4, "payload": 0}),
    (top(num_tensors="1") + table("a", []), "SHAPE_MISMATCH", {"tensor": "a", "end": 4}),
    (top(num_tensors="1") + table("a", [2**62]), "OVERFLOW", {"tensor": "a", "dims": [2**62]}),
    (top(num_tensors="1") + table("a", [2**61]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [2**60]), "SHAPE_MISMATCH", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [2**63]), "OVERFLOW", {"tensor": "a", "dims": [2**63]}),
    (top(num_tensors="1") + table("a", [2**64]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [2**32, 2**32]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [2**32, 2**32, 0]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1") + table("a", [0, 2**63 - 1]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1", dtype='"bf16"') + table("a", [0, 2**61]), "OVERFLOW", {"tensor": "a"}),
    (top(num_tensors="1", dtype='"bf16"') + table("a", [0, 2**60]), "", {}),
    (top(num_tensors="1") + table("a", [0] * 64), "", {}),
    (top(max_abs="-0.0", min_nonzero_abs="0") + NONE, "", {}),
    (top(max_abs="0e5", step="1_000", format="0x1") + NONE, "", {}),
    (top(num_params="0b0", flushed="+0") + NONE, "", {}),
    ("'format' = 1\n" + top(format="") + NONE, "", {}),
    ("# c\r\n" + top() + NONE.replace("\n", "\r\n"), "", {}),
    (top(num_tensors="1") + "tensors = [{ dims = [0], name = 'a', overflowed = 0 }]\n", "", {}),
    (NONE + top(), "", {}),
    (top().replace("\n", " # c\n") + NONE.rstrip(), "", {}),
]  # fmt: skip


@pytest.mark.parametrize(("header", "code", "facts"), RULES, ids=range(len(RULES)))
def test_a_header_that_breaks_a_rule_is_refused(
    header: str, code: str, facts: dict[str, Any], tmp_path: Path
) -> None:
    data = pack(header)
    path = tmp_path / "x.dmexp"
    path.write_bytes(data)
    if not code:
        found = dmexp.load(data)
        assert all(array.size == 0 for array in found.values())
        assert dmexp.verify(path).ok
        return
    error = refusal(dmexp.load, data)
    assert error.code == code
    assert {key: error.facts[key] for key in facts} == facts
    # Short whatever the header holds, and with something to do.
    assert len(error.message) < 700
    assert "\n" not in error.message
    for read in (dmexp.load_file, dmexp.verify, dmexp.info, read_lazily):
        if read is read_lazily and facts.get("key", "").endswith("_abs") and "expected" in facts:
            # Only the whole payload can tell.
            continue
        again = refusal(read, path)
        assert (again.code, again.message) == (code, error.message)
    assert refusal(dmexp.load, pack(b"\xef\xbb\xbf" + header.encode())).code == code


def test_a_payload_that_the_table_does_not_cover_is_refused() -> None:
    values = noise(1, 6)
    for dims, covered in (([5], 20), ([], 4), ([0], 0), ([2, 2], 16)):
        error = refusal(dmexp.load, plain({"x": dims}, values))
        assert (error.code, error.covered, error.payload) == ("SHAPE_MISMATCH", covered, 24)
    error = refusal(dmexp.load, plain({"x": [2], "y": [5]}, values))
    assert (error.tensor, error.start, error.end, error.payload) == ("y", 8, 28, 24)
    for part in ("'y'", "[5]", "8", "28", "24"):
        assert part in error.message


@pytest.mark.parametrize("bytes_", [1, 2, 3, 5, 4095])
def test_a_payload_of_no_whole_number_of_values_is_refused(bytes_: int) -> None:
    for count in (bytes_ // 4, bytes_ // 4 + 1):
        header = top(num_params=str(count), num_tensors="1") + table("x", [count])
        assert refusal(dmexp.load, pack(header, b"\0" * bytes_)).code in {
            "SHAPE_MISMATCH",
            "FORMAT",
        }


def test_sums_of_sizes_that_wrap_are_refused() -> None:
    # Each fits, and four of them are 2^64 bytes: nothing, to whoever does not look.
    names = [f"t{n}" for n in range(8)]
    header = top(num_tensors="8") + "".join(table(name, [2**59]) for name in names)
    error = refusal(dmexp.load, pack(header))
    assert (error.code, error.tensor) == ("SHAPE_MISMATCH", "t0")


def test_claims_about_the_payload_are_recomputed(tmp_path: Path) -> None:
    values = f32([0.0, -3.0, 2.0**-130, 0.5])
    good = {"max_abs": "3.0", "min_nonzero_abs": repr(2.0**-130), "flushed": "1"}
    path = tmp_path / "x.dmexp"

    def write(**fields: str) -> Path:
        path.write_bytes(plain({"x": [4]}, values, **(good | fields)))
        return path

    assert dmexp.verify(write()).ok
    assert dmexp.verify(write(subnormal="1")).ok
    assert dmexp.verify(write(max_abs="3")).ok
    assert dmexp.verify(write(max_abs="3.00000000000000000001")).ok
    for key, text in {
        "max_abs": "3.0000003",
        "min_nonzero_abs": "0.0",
        "flushed": "2",
        "subnormal": "0",
        "num_params": "3",
    }.items():
        for read in (dmexp.verify, dmexp.load_file, dmexp.info):
            error = refusal(read, write(**{key: text}))
            assert (error.code, error.key) == ("FORMAT", key)
            assert f"'{key}' is {error.found}" in error.message
    # A tensor's own bytes say nothing of these.
    assert read_lazily(write(max_abs="9.0")).keys() == {"x"}


def test_the_error_names_line_and_column() -> None:
    error = refusal(dmexp.load, pack(top() + "tensors = [\nx y\n"))
    assert error.code == "FORMAT"
    assert error.line == 12
    assert error.column >= 1
    assert f"line {error.line}, column {error.column} ('x y')" in error.message


def test_names_in_messages_are_short_and_in_facts_whole() -> None:
    name = "n" * 1_000_000
    header = top(num_tensors="2") + table(name, [0]) + table(name, [0])
    error = refusal(dmexp.load, pack(header))
    assert (error.tensor, len(error.message) < 400) == (name, True)
    header = top(num_tensors="1") + f"[[tensors]]\nname = '{name}'\ndims = [-1]\noverflowed = 0\n"
    assert len(refusal(dmexp.load, pack(header)).message) < 400


@pytest.mark.parametrize(
    "magic", [b"DMEXPRT\x00", b"DMEXPRT\x02", b"DMEXPRT\xff", b"DMEXPRT\n", b"DMEXPRT1"]
)
def test_another_version_is_named(magic: bytes) -> None:
    error = refusal(dmexp.load, pack(top() + NONE, magic=magic))
    assert (error.code, error.found, error.expected) == ("UNSUPPORTED", magic[7], 1)
    assert f"version {magic[7]}" in error.message


@pytest.mark.parametrize("magic", [b"DMEXPRS\x01", b"dmexprt\x01", b"\0" * 8, b"TRPXEMD\x01"])
def test_another_magic_is_another_kind_of_file(magic: bytes) -> None:
    assert refusal(dmexp.load, pack(top() + NONE, magic=magic)).code == "UNSUPPORTED_FORMAT"


def test_a_header_that_is_no_unicode_says_where() -> None:
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3"):
        header = top().encode()
        error = refusal(dmexp.load, pack(header + b"# " + bad))
        assert (error.code, error.offset) == ("FORMAT", len(header) + 2)
        assert f"byte {len(header) + 2}" in error.message
