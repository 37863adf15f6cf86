"""The GGUF header parser: what it reads, and what it refuses with which facts."""

from __future__ import annotations

import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from dmexp.errors import (
    DmexpError,
    FormatError,
    LimitExceededError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
    UnsupportedShapeError,
)
from dmexp.loaders.gguf import SkippedArray, read_header
from dmexp.loaders.gguf._arrays import LIST_LIMIT, STRING_LIST_LIMIT
from dmexp.loaders.gguf._cursor import WINDOW_BYTES
from gguf_util import ARCHITECTURE, Gguf, Tensor, entry, f32, string, value, write_string_array

CORPUS = Path(__file__).parent / "corpus" / "gguf"
CORPUS_FILES = sorted(CORPUS.glob("*/*.gguf"))


def two_tensors(**changes: Any) -> Gguf:
    file = Gguf([ARCHITECTURE], [f32("a", [[1, 2, 3], [4, 5, 6]]), f32("b", [7, 8])])
    for name, content in changes.items():
        setattr(file, name, content)
    return file


def refusal(path: Path, kind: type[DmexpError], **arguments: Any) -> Any:
    with pytest.raises(kind) as caught:
        read_header(path, **arguments)
    assert caught.value.path == str(path)
    return caught.value


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_give_names_dims_in_checkpoint_order_and_absolute_offsets(
    tmp_path: Path, version: int
) -> None:
    path = two_tensors(version=version).write(tmp_path / "m.gguf")
    header = read_header(path, check_extent=True)
    assert (header.version, header.architecture, header.alignment) == (version, "llama", 32)
    first, second = header.tensors
    assert (first.name, first.dims, first.type_name, first.nbytes) == ("a", (2, 3), "F32", 24)
    assert (second.name, second.dims, second.offset) == ("b", (2,), first.offset + 32)
    assert first.offset == header.data_offset
    assert header.data_offset % 32 == 0


def test_every_value_type_is_read(tmp_path: Path) -> None:
    given = [
        ("u8", 200),
        ("i8", -100),
        ("u16", 60000),
        ("i16", -30000),
        ("u32", 4_000_000_000),
        ("i32", -2_000_000_000),
        ("f32", 0.5),
        ("bool", 1),
        ("string", "grüße"),
        ("u64", 2**63),
        ("i64", -(2**62)),
        ("f64", 0.1),
        ("array:i32", [1, -2, 3]),
        ("array:bool", [1, 0]),
        ("array:string", ["a", "", "ö"]),
        ("array:f32", []),
    ]
    metadata = [(f"k.{index}", kind, content) for index, (kind, content) in enumerate(given)]
    header = read_header(Gguf(metadata).write(tmp_path / "m.gguf"))
    values = list(header.metadata.values())
    assert values[:7] == [content for _, content in given[:7]]
    assert values[7] is True
    assert values[8:13] == [content for _, content in given[8:13]]
    assert values[13] == [True, False]
    assert values[14:] == [["a", "", "ö"], []]
    assert list(header.value_types.values())[:3] == ["u8", "i8", "u16"]
    assert header.value_types["k.14"] == "array[string]"
    assert header.value_types["k.15"] == "array[f32]"


@pytest.mark.parametrize("path", CORPUS_FILES, ids=lambda path: path.stem)
def test_a_file_cut_off_where_the_data_would_begin_parses_the_same(
    tmp_path: Path, path: Path
) -> None:
    whole = read_header(path, check_extent=True)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(path.read_bytes()[: whole.data_offset])
    header = read_header(cut)
    assert header.tensors == whole.tensors
    assert list(header.metadata) == list(whole.metadata)
    with pytest.raises(TruncatedError):
        read_header(cut, check_extent=True)


def test_there_are_corpus_files() -> None:
    assert len(CORPUS_FILES) == 25


def test_a_cut_at_any_byte_of_the_header_is_one_error_with_both_lengths(tmp_path: Path) -> None:
    raw = two_tensors().to_bytes()
    end = len(two_tensors().header())
    for length in range(1, end):
        path = tmp_path / "cut.gguf"
        path.write_bytes(raw[:length])
        kind = UnsupportedFormatError if length < 4 else TruncatedError
        error = refusal(path, kind)
        if length >= 4:
            assert error.actual == length
            assert error.expected > length


def test_p61_later_parts_of_a_set_parse_without_an_architecture(tmp_path: Path) -> None:
    path = Gguf([("split.no", "u16", 1)], [f32("x", [1])]).write(tmp_path / "m.gguf")
    assert read_header(path).architecture == ""


@pytest.mark.parametrize("alignment", [8, 16, 32, 64, 4096, 65536])
@pytest.mark.parametrize("tail_padding", [True, False])
def test_p62_powers_of_two_align_with_and_without_tail_padding(
    tmp_path: Path, alignment: int, tail_padding: bool
) -> None:
    file = two_tensors(alignment=alignment, tail_padding=tail_padding)
    file.metadata = [ARCHITECTURE, ("general.alignment", "u32", alignment)]
    header = read_header(file.write(tmp_path / "m.gguf"), check_extent=True)
    assert header.alignment == alignment
    assert [tensor.offset % alignment for tensor in header.tensors] == [0, 0]


@pytest.mark.parametrize(
    ("kind", "alignment"),
    [("u32", 0), ("u32", 3), ("u32", 2**31), ("u32", 4), ("i32", -32), ("u64", 2**40), ("u32", 48)],
)
def test_p62_any_other_alignment_is_refused(tmp_path: Path, kind: str, alignment: int) -> None:
    file = two_tensors(metadata=[ARCHITECTURE, ("general.alignment", kind, alignment)])
    error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
    assert f"is {alignment}, expected a power of two from 8 to 65536" in error.message


def test_p62_an_alignment_that_is_no_integer_is_refused(tmp_path: Path) -> None:
    for kind, content in (("f32", 32.0), ("bool", 1), ("string", "32")):
        file = two_tensors(metadata=[ARCHITECTURE, ("general.alignment", kind, content)])
        error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
        assert "expected an integer" in error.message


def test_p62_an_offset_off_the_alignment_is_refused(tmp_path: Path) -> None:
    file = two_tensors()
    file.tensors[1].offset = 36
    error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
    assert "tensor 'b': offset 36 is not a multiple of the alignment, 32" in error.message


def test_p63_tensors_of_one_name_are_refused_and_listed(tmp_path: Path) -> None:
    file = two_tensors(tensors=[f32(name, [1]) for name in ("x", "y", "x", "y", "z")])
    error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
    assert error.names == ["x", "y"]
    assert "'x', 'y'" in error.message


def test_a_key_that_is_there_twice_is_refused_with_its_place(tmp_path: Path) -> None:
    file = two_tensors(metadata=[ARCHITECTURE, ARCHITECTURE])
    error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
    assert error.key == "general.architecture"
    assert error.offset == 24 + len(entry(*ARCHITECTURE))


@pytest.mark.parametrize("offset", [2**64 - 32, 2**63, 2**63 - 32])
def test_p64_an_offset_that_would_wrap_is_refused(tmp_path: Path, offset: int) -> None:
    file = two_tensors()
    file.tensors[1].offset = offset
    error = refusal(file.write(tmp_path / "m.gguf"), SizeOverflowError)
    assert error.tensor == "b"


@pytest.mark.parametrize(
    "dims", [(2**63, 2), (2**32, 2**32), (2**61,), (2**64 - 1,), (2**16, 2**16, 2**16, 2**16)]
)
def test_p64_dims_whose_product_or_bytes_wrap_are_refused(
    tmp_path: Path, dims: tuple[int, ...]
) -> None:
    file = two_tensors(tensors=[Tensor("x", dims, 0, b"")])
    error = refusal(file.write(tmp_path / "m.gguf"), SizeOverflowError)
    assert error.dims == list(dims)


def test_p64_a_tensor_beyond_the_end_is_refused_with_both_lengths(tmp_path: Path) -> None:
    file = two_tensors(tail_padding=False)
    path = file.write(tmp_path / "m.gguf")
    length = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    error = refusal(path, TruncatedError, check_extent=True)
    assert (error.expected, error.actual, error.tensor) == (length, length - 1, "b")


def test_p64_tensors_that_overlap_are_refused(tmp_path: Path) -> None:
    file = two_tensors()
    file.tensors[1].offset = 0
    error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
    assert error.tensors == ["a", "b"]


def test_tensors_may_be_stored_in_another_order_than_listed(tmp_path: Path) -> None:
    file = two_tensors()
    file.tensors[0].offset, file.tensors[1].offset = 32, 0
    first, second = read_header(file.write(tmp_path / "m.gguf")).tensors
    assert first.offset == second.offset + 32


def test_p65_all_unknown_types_are_refused_in_one_message_with_counts(tmp_path: Path) -> None:
    kinds = [0, 99, 31, 99, 99, 1000]
    tensors = [Tensor(f"t{index}", (32,), kind, b"") for index, kind in enumerate(kinds)]
    error = refusal(two_tensors(tensors=tensors).write(tmp_path / "m.gguf"), UnsupportedDtypeError)
    assert error.types == {
        "Q4_0_4_4 (id 31, withdrawn from ggml)": 1,
        "id 99 (unknown)": 3,
        "id 1000 (unknown)": 1,
    }
    assert "id 99 (unknown): 3 tensors" in error.message
    assert "withdrawn from ggml): 1 tensor," in error.message


def test_rows_that_do_not_fill_blocks_are_refused(tmp_path: Path) -> None:
    file = two_tensors(tensors=[Tensor("x", (32, 33), 8, b"")])
    error = refusal(file.write(tmp_path / "m.gguf"), UnsupportedShapeError)
    assert "rows of 33 elements cannot be stored as Q8_0, whose blocks have 32" in error.message


def test_p68_a_vocabulary_of_a_million_costs_under_a_second_and_little_memory(
    tmp_path: Path,
) -> None:
    path = write_string_array(tmp_path / "v.gguf", "tokenizer.ggml.tokens", 1_000_000, b"token")
    began = time.process_time()
    header = read_header(path)
    assert time.process_time() - began < 1.0
    tokens = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, SkippedArray)
    assert len(tokens) == 1_000_000
    tracemalloc.start()
    try:
        read_header(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The window, and the moment in which the next one is read.
    assert peak < 3 * WINDOW_BYTES


def test_a_long_array_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    words = [f"wört-{index}" for index in range(STRING_LIST_LIMIT + 1)]
    numbers = list(range(LIST_LIMIT + 1))
    flags = [index % 2 for index in range(LIST_LIMIT + 1)]
    metadata = [
        ("w", "array:string", words),
        ("n", "array:i16", numbers),
        ("b", "array:bool", flags),
        ("nested", "array:array:u8", [[1, 2], [], [3]]),
    ]
    header = read_header(Gguf(metadata).write(tmp_path / "m.gguf"))
    assert all(isinstance(held, SkippedArray) for held in header.metadata.values())
    assert header.metadata["w"].values() == words
    assert header.metadata["n"].values() == numbers
    assert header.metadata["b"].values() == [flag == 1 for flag in flags]
    assert header.metadata["nested"].values() == [[1, 2], [], [3]]


@pytest.mark.parametrize("shift", range(-17, 18))
def test_a_string_array_that_crosses_the_window_anywhere_is_walked_right(
    tmp_path: Path, shift: int
) -> None:
    filler = WINDOW_BYTES + shift - 24 - len(entry(*ARCHITECTURE)) - 8 - 4 - 4 - 4 - 8 - 8
    words = ["x" * filler, "ab", "", "cd"] + ["e"] * STRING_LIST_LIMIT
    file = Gguf([ARCHITECTURE, ("long", "array:string", words), ("last", "u32", 7)])
    header = read_header(file.write(tmp_path / "m.gguf"))
    assert header.metadata["last"] == 7
    assert header.metadata["long"].values() == words


def test_p69_a_swapped_version_is_named_as_big_endian(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 1, 1) + bytes(64))
    error = refusal(path, UnsupportedError)
    assert "big-endian (version 3 with its bytes swapped" in error.message
    path.write_bytes(b"FUGG" + bytes(64))
    assert "big-endian" in refusal(path, UnsupportedError).message


@pytest.mark.parametrize(("version", "hint"), [(1, "replaced in 2023"), (4, "newer"), (0, "newer")])
def test_other_versions_are_refused_by_number(tmp_path: Path, version: int, hint: str) -> None:
    error = refusal(two_tensors(version=version).write(tmp_path / "m.gguf"), UnsupportedError)
    assert f"GGUF version {version} at byte 4" in error.message
    assert hint in error.message


def test_another_kind_of_file_is_not_gguf(tmp_path: Path) -> None:
    for raw in (b"", b"GG", b"PK\3\4" + bytes(100)):
        path = tmp_path / "m.gguf"
        path.write_bytes(raw)
        assert "this is not GGUF" in refusal(path, UnsupportedFormatError).message


@pytest.mark.parametrize("field", ["tensor_count", "key_count"])
def test_a_count_that_the_file_cannot_hold_is_refused_before_the_loop(
    tmp_path: Path, field: str
) -> None:
    for count in (2**64 - 1, 2**40, 1000):
        path = two_tensors(**{field: count}).write(tmp_path / "m.gguf")
        error = refusal(path, TruncatedError)
        assert f"announces {count} " in error.message
        assert error.actual == path.stat().st_size


def test_counts_beyond_any_real_file_are_refused_though_the_file_is_long_enough(
    tmp_path: Path,
) -> None:
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 131_073, 0))
        file.truncate(64 << 20)
    assert refusal(path, LimitExceededError).limit == 131_072
    with path.open("r+b") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 65_537))
    assert refusal(path, LimitExceededError).limit == 65_536


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 10_000])
def test_a_string_length_that_leads_out_of_the_file_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    path.write_bytes(head + string("key") + struct.pack("<IQ", 8, length) + b"short")
    error = refusal(path, TruncatedError)
    assert f"takes {length} bytes" in error.message
    assert error.offset == len(head) + 11 + 12


@pytest.mark.parametrize("length", [2**64 - 1, 2**63 - 8, 10_000])
@pytest.mark.parametrize("place", [0, 40, STRING_LIST_LIMIT])
def test_a_string_in_an_array_that_leads_out_of_the_file_is_refused(
    tmp_path: Path, length: int, place: int
) -> None:
    words = [string("ab")] * (STRING_LIST_LIMIT + 1)
    words[place] = struct.pack("<Q", length) + b"ab"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("key")
    head += struct.pack("<IIQ", 9, 8, len(words))
    path = tmp_path / "m.gguf"
    path.write_bytes(head + b"".join(words))
    refusal(path, TruncatedError)


@pytest.mark.parametrize("inner", [0, 4, 6, 7, 8, 9, 12])
@pytest.mark.parametrize("count", [2**64 - 1, 2**61, 1000])
def test_an_array_length_that_leads_out_of_the_file_is_refused(
    tmp_path: Path, inner: int, count: int
) -> None:
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("key")
    path.write_bytes(head + struct.pack("<IIQ", 9, inner, count) + bytes(64))
    refusal(path, LimitExceededError if inner == 9 and count > 4096 else TruncatedError)


def test_arrays_nested_without_end_are_refused(tmp_path: Path) -> None:
    level = struct.pack("<IQ", 9, 1)
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("key") + struct.pack("<I", 9)
    path.write_bytes(head + level * 100_000)
    assert "arrays within an array" in refusal(path, LimitExceededError).message


@pytest.mark.parametrize("place", ["key", "array"])
def test_a_type_that_does_not_exist_is_refused(tmp_path: Path, place: str) -> None:
    tail = struct.pack("<I", 13) if place == "key" else struct.pack("<IIQ", 9, 13, 0)
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + string("key") + tail + bytes(8))
    assert "type 13" in refusal(path, FormatError).message


@pytest.mark.parametrize("kind", ["bool", "array:bool", "long"])
def test_a_bool_is_zero_or_one(tmp_path: Path, kind: str) -> None:
    content: Any = 2
    if kind == "array:bool":
        content = [0, 1, 2]
    elif kind == "long":
        kind, content = "array:bool", [0] * 5000 + [2]
    error = refusal(Gguf([("k", kind, content)]).write(tmp_path / "m.gguf"), FormatError)
    assert "0x02" in error.message
    assert Path(error.path).read_bytes()[error.offset] == 2


def test_bytes_that_are_not_utf8_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    for metadata, tensor in (
        (entry(b"k\xff", "u32", 1), b"name"),
        (entry("k", "string", b"ab\xc3("), b"name"),
        (entry("k", "u32", 1), b"n\x80me"),
    ):
        info = string(tensor) + struct.pack("<IQIQ", 1, 4, 0, 0)
        path.write_bytes(head + metadata + info + bytes(64))
        error = refusal(path, FormatError)
        assert "is not UTF-8" in error.message
        assert path.read_bytes()[error.offset] in (0xFF, 0xC3, 0x80)


def test_a_token_that_is_not_utf8_is_refused_when_it_is_read(tmp_path: Path) -> None:
    words = [b"ok"] * STRING_LIST_LIMIT + [b"a\xff"]
    path = Gguf([("w", "array:string", words)]).write(tmp_path / "m.gguf")
    held = read_header(path).metadata["w"]
    with pytest.raises(FormatError, match="not UTF-8") as caught:
        held.values()
    assert path.read_bytes()[caught.value.offset] == 0xFF


@pytest.mark.parametrize("name", ["", "a\nb", "a\x1b[31m", "\x00"])
def test_names_that_are_empty_or_cannot_be_printed_are_refused(tmp_path: Path, name: str) -> None:
    for file in (
        Gguf([(name, "u32", 1)], [f32("x", [1])]),
        Gguf([ARCHITECTURE], [f32(name, [1])]),
    ):
        error = refusal(file.write(tmp_path / "m.gguf"), FormatError)
        assert "\x1b" not in error.message


def test_a_rank_above_four_is_refused_and_a_scalar_is_not(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    for rank in (5, 2**32 - 1):
        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + string("x") + struct.pack("<I", rank)
        path.write_bytes(head + bytes(128))
        assert f"rank {rank}" in refusal(path, UnsupportedShapeError).message
    scalar = Gguf([ARCHITECTURE], [f32("x", 1.5)]).write(path)
    tensor = read_header(scalar, check_extent=True).tensors[0]
    assert (tensor.dims, tensor.nbytes) == ((), 4)


def test_a_dim_of_zero_is_refused(tmp_path: Path) -> None:
    file = two_tensors(tensors=[Tensor("x", (3, 0), 0, b"")])
    assert refusal(file.write(tmp_path / "m.gguf"), UnsupportedShapeError).dims == [3, 0]


def test_an_architecture_that_is_no_string_is_refused(tmp_path: Path) -> None:
    path = Gguf([("general.architecture", "u32", 7)]).write(tmp_path / "m.gguf")
    assert refusal(path, FormatError).key == "general.architecture"


def test_a_file_cut_while_it_is_read_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = Gguf([("n", "array:i16", list(range(5000)))]).write(tmp_path / "m.gguf")
    held = read_header(path).metadata["n"]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TruncatedError):
        held.values()


def test_value_bytes_are_as_the_format_says() -> None:
    # The helper that writes the files of these tests, checked by eye once.
    assert value("array:u16", [1, 2]) == bytes.fromhex("02000000 0200000000000000 0100 0200")
    assert entry("k", "bool", 1) == bytes.fromhex("0100000000000000 6b 07000000 01")
