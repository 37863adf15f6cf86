"""The quick reader: what it reads it reads as the complete parser does; the rest it leaves alone."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import header_of, noise, pack, refusal, split, table, top
from dmexp import _native
from dmexp._header import Header
from header_fuzz_util import general, quick, summary

HEADER = top(dtype='"bf16"', source='"here"', step="7", num_params="7", num_tensors="2") + (
    table("a.weight", [2, 3]) + table("b", [1])
)
PAYLOAD_BYTES = 14


def _scan(text: str | bytes, payload: int = PAYLOAD_BYTES) -> Any:
    raw = text.encode() if isinstance(text, str) else text
    return _native.read_header(raw, 0, len(raw), payload)


def test_it_reads_fields_and_table() -> None:
    index = _scan(HEADER)
    assert index is not None
    fields = index.fields()
    assert fields == {
        "format": 1,
        "dtype": "bf16",
        "source": "here",
        "step": 7,
        "num_params": 7,
        "num_tensors": 2,
        "flushed": 0,
        "max_abs": 0.0,
        "min_nonzero_abs": 0.0,
        "subnormal": None,
        "writer": None,
        "config": "",
        "metadata": {},
        "extra": {},
        "tensor_extra": {},
        "payload_offset": 0,
        "payload_bytes": PAYLOAD_BYTES,
        "payload_crc32": 0,
    }
    assert index.metadata_text is None
    assert index.lacks_config
    assert len(index) == 2
    assert index.names() == ["a.weight", "b"]
    assert index.get(0) == ("a.weight", (2, 3), 0, 12, None)
    assert index.get(1) == ("b", (1,), 12, 2, None)
    assert (index.position("b"), index.position("c")) == (1, None)
    assert not index.all_have_crc32()
    with pytest.raises(IndexError):
        index.get(2)


WRITTEN: list[dict[str, Any]] = [
    {},
    {"compat": "dormouse"},
    {"metadata": {"a": 1}},
    {"metadata": {"table": {"a": 1}}},
    {"config": "a = 1\n", "source": "C:\\x", "step": 2**63 - 1},
    {"config": 'a = "\\\\"\nb = """x"""\n', "source": "it's"},
    {"config": "a = '''\n\n'''\n", "source": 'say "hi"'},
]


@pytest.mark.parametrize("options", WRITTEN)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_we_write_is_read_quickly(options: dict[str, Any], dtype: str, count: int) -> None:
    arrays = {f"layers.{nth}.weight": noise(nth, 2, nth) for nth in range(count)}
    _, header, payload = split(dmexp.save(arrays, dtype=dtype, **options))
    assert _scan(header, len(payload)) is not None
    found = quick(header, len(payload))
    assert found is not None
    assert summary(found) == summary(general(header, len(payload)))


# Each is TOML that says the same as HEADER, or almost; none is in our words.
OTHER_WORDS = [
    "",
    " " + HEADER,
    "\n" + HEADER,
    "\ufeff" + HEADER,
    HEADER.rstrip("\n"),
    HEADER.replace("\n", "\r\n"),
    HEADER + " ",
    HEADER + "\t\n",
    HEADER + "\r\n",
    HEADER + "# c\n",
    HEADER + "\nx = 1\n",
    HEADER + "\n[other]\n",
    HEADER.replace("format = 1", "format=1"),
    HEADER.replace("format = 1", "format  = 1"),
    HEADER.replace("format = 1", '"format" = 1'),
    HEADER.replace("format = 1\n", ""),
    HEADER.replace("step = 7", "step = +7"),
    HEADER.replace("step = 7", "step = 07"),
    HEADER.replace("step = 7", "step = 0_7"),
    HEADER.replace("step = 7", "step = 0x7"),
    HEADER.replace("step = 7", "step = -7"),
    HEADER.replace("step = 7", "step = 7 "),
    HEADER.replace("step = 7", "step = "),
    HEADER.replace("step = 7", "step = 9223372036854775808"),
    HEADER.replace("step = 7", "step = 99999999999999999999"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 0.\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = .0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = -0.0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 0.0e0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 00.0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 0.0.0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = 0_0.0\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = inf\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", "max_abs = nan\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", f"max_abs = 0.{'0' * 200}1\nmin"),
    HEADER.replace("max_abs = 0.0\nmin", f"max_abs = 0.{'0' * 5000}1\nmin"),
    HEADER.replace('"bf16"', '"f64"'),
    HEADER.replace('"bf16"', '"BF16"'),
    HEADER.replace('"here"', '"\\u0068ere"'),
    HEADER.replace('"here"', '"\\b"'),
    HEADER.replace('"here"', '"a\tb"'),
    HEADER.replace('"here"', '"\x7f"'),
    HEADER.replace('"here"', '"\0"'),
    HEADER.replace('"here"', "'\0'"),
    HEADER.replace('"here"', '"""here"""'),
    HEADER.replace('"here"', "'''here'''"),
    HEADER.replace('"here"', '"""\n\\\n here"""'),
    HEADER.replace('"here"', '"""\nhere""""""'),
    HEADER.replace('"here"', "'''\nhere''''''"),
    HEADER.replace('"here"', '"""\r\nhere"""'),
    HEADER.replace('"here"', '"here'),
    HEADER.replace('"here"', '"""\nhere'),
    HEADER.replace('"here"', "'here"),
    HEADER.replace('"here"', "here"),
    HEADER.replace("dims = [2, 3]", "dims = [2,3]"),
    HEADER.replace("dims = [2, 3]", "dims = [2, 3,]"),
    HEADER.replace("dims = [2, 3]", "dims = [ 2, 3 ]"),
    HEADER.replace("dims = [2, 3]", "dims = [2, 3"),
    HEADER.replace("dims = [2, 3]", "dims = [2, -3]"),
    HEADER.replace("dims = [2, 3]", "dims = [2, 3.0]"),
    HEADER.replace("dims = [2, 3]", "dims = [2, 4]"),
    HEADER.replace("dims = [2, 3]", "dims = [2, 2]"),
    HEADER.replace("overflowed = 0", "overflowed = 1"),
    HEADER.replace("overflowed = 0", "overflowed = 00"),
    HEADER.replace("overflowed = 0\n", ""),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "0000000"\n'),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "0000000A"\n'),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "+0000000"\n'),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "éééé"\n'),
    HEADER.replace("overflowed = 0\n", "overflowed = 0\ncrc32 = '00000000'\n"),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "00000000'),
    HEADER.replace("overflowed = 0\n", "overflowed = 0\nmore = 1\n"),
    HEADER.replace("\n[[tensors]]", "[[tensors]]"),
    HEADER.replace("\n[[tensors]]", "\n\n[[tensors]]"),
    HEADER.replace("[[tensors]]", "[[ tensors ]]"),
    HEADER.replace('"b"', '"a.weight"'),
    HEADER.replace('"b"', '""'),
    HEADER.replace('"b"', '"\x85"'),
    HEADER.replace('config = ""\n', 'config = ""\ntensors = []\n'),
    HEADER.replace('config = ""\n', 'config = ""\nwriter = "w"\n'),
    HEADER.replace('config = ""\n', 'writer = "w"\nsubnormal = 0\nconfig = ""\n'),
    HEADER.replace('config = ""\n', 'writer = 1\nconfig = ""\n'),
    HEADER.replace('config = ""\n', 'subnormal = "1"\nconfig = ""\n'),
    HEADER + '# header-crc32 = "00000000"',
    HEADER + '# header-crc32 = "00000000"\r\n',
    HEADER + '\n# header-crc32 = "00000000"\n',
    HEADER + '# header-crc32 = "0000000G"\n',
    HEADER + '# header-crc32 = "00000000"\n# header-crc32 = "00000000"\n',
    HEADER[: HEADER.index("\n[[")],
]


@pytest.mark.parametrize("text", OTHER_WORDS, ids=range(len(OTHER_WORDS)))
def test_other_words_are_read_as_the_parser_reads_them_or_left_to_it(text: str) -> None:
    raw = text.encode()
    found = quick(raw, PAYLOAD_BYTES)
    if found is not None:
        assert summary(found) == summary(general(raw, PAYLOAD_BYTES))


def test_other_words_seldom_need_the_parser() -> None:
    read = {text for text in OTHER_WORDS if isinstance(general(text.encode(), 14), Header)}
    assert len(read) > 20
    left = [text for text in read if quick(text.encode(), PAYLOAD_BYTES) is None]
    # Only the number of hundreds of digits.
    assert [text.count("0" * 200) for text in left] == [1]


MORE_OF_OUR_WORDS = [
    HEADER + "\n\n\n",
    HEADER.replace('"here"', "'here'"),
    HEADER.replace('"here"', "''"),
    HEADER.replace('"here"', '"\\"\\\\\\t\\n\\r"'),
    HEADER.replace('"here"', '"""\nhere"""'),
    HEADER.replace('"here"', '"""\n"a" ""b"" """""'),
    HEADER.replace('"here"', "'''\n'a' ''b'' '''''"),
    HEADER.replace('"here"', '"""\n"""'),
    HEADER.replace('"here"', "'''\n\\\n\t'''"),
    HEADER.replace('"here"', '"# [x] = \'"'),
    HEADER.replace('"here"', '"größe 層 🙂 \x85"'),
    HEADER.replace("max_abs = 0.0\nmin", f"max_abs = 0.{'0' * 100}1\nmin"),
    HEADER.replace('"b"', "'[[tensors]]'"),
    HEADER.replace("overflowed = 0\n", 'overflowed = 0\ncrc32 = "0123abcd"\n'),
    HEADER.replace('config = ""\n', 'subnormal = 0\nwriter = "w"\nconfig = ""\n'),
    HEADER + "\n[metadata]\na = 1\n",
    HEADER + "\n[metadata]\n",
    HEADER + "\n[metadata.a]\nb = { c = 1 } # c\n",
    HEADER + '\n[metadata]\na = """\n[x]\n"""\n',
]


@pytest.mark.parametrize("text", MORE_OF_OUR_WORDS, ids=range(len(MORE_OF_OUR_WORDS)))
def test_our_words_are_read_as_the_parser_reads_them(text: str) -> None:
    assert _scan(text) is not None
    found = quick(text.encode(), PAYLOAD_BYTES)
    assert found is not None
    assert summary(found) == summary(general(text.encode(), PAYLOAD_BYTES))


@pytest.mark.parametrize(
    "more",
    [
        "\n[metadata]\na = 1\n\n[other]\nb = 1\n",
        "\n[metadata]\na = 1\n\n[[tensors]]\nname = 'c'\ndims = [0]\noverflowed = 0\n",
        "\n[metadata]\na = 1\n\n[metadata]\nb = 1\n",
        "\n[metadata]\na = 1\n\n[source]\n",
        "\n[metadata]\na =\n",
        "\n[metadata]\na = '''\n",
        "\n[metadata.a]\nb = 1\n\n[metadata]\na = 2\n",
        "\n[metadata]\n\ud7ff = 1\n",
    ],
)
def test_what_follows_the_metadata_is_not_overlooked(more: str) -> None:
    text = (HEADER + more).encode()
    whole = pack(text, b"\0" * PAYLOAD_BYTES)
    found = general(text, PAYLOAD_BYTES)
    if isinstance(found, Header):
        assert header_of(whole).extra == found.extra == {"other": {"b": 1}}
    else:
        assert refusal(dmexp.load, whole).message == found.message


def test_bytes_that_are_no_text_are_left_alone() -> None:
    for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80"):
        assert _scan(HEADER.encode() + bad) is None
        assert _scan(HEADER.encode().replace(b"here", bad)) is None


def test_a_range_outside_the_data_is_an_error_not_a_read() -> None:
    data = HEADER.encode()
    for start, length in ((0, len(data) + 1), (len(data) + 1, 0), (1, len(data)), (2**62, 2**62)):
        for call in (_native.header_crc32, _read_header):
            with pytest.raises(ValueError, match="leaves the data"):
                call(data, start, length)


def _read_header(data: bytes, start: int, length: int) -> object:
    return _native.read_header(data, start, length, 0)


def test_the_checksum_line_belongs_to_the_text_before_it() -> None:
    text = HEADER.encode()
    line = _native.header_crc32_line(text)
    assert line == f'# header-crc32 = "{zlib.crc32(text):08x}"\n'
    whole = text + line.encode() + b"\n\n"
    crc32 = zlib.crc32(text)
    assert _native.header_crc32(whole, 0, len(whole)) == (crc32, crc32)
    assert _native.header_crc32(b"x" + whole, 1, len(whole)) == (crc32, crc32)
    assert _native.header_crc32(text, 0, len(text)) is None
    assert _native.header_crc32(b"", 0, 0) is None
    assert _native.header_crc32(b"\n \t\r\n", 0, 5) is None
    alone = b'# header-crc32 = "00000000"'
    assert _native.header_crc32(alone, 0, len(alone)) == (0, 0)


@pytest.mark.parametrize("count", [1, 8, 9, 17, 1000, 5000])
def test_every_name_is_found_at_its_place(count: int) -> None:
    names = [f"t{n * 7919 % count}" for n in range(count)]
    index = _native.HeaderIndex(4, 0, [(name, [0], n) for n, name in enumerate(names)])
    assert [index.position(name) for name in names] == list(range(count))
    assert index.position("t") is None
    assert index.names() == names
    assert index.all_have_crc32()


def test_checksums_of_tensors_fold_into_the_payloads() -> None:
    values = np.arange(100, dtype="<f4")
    parts = [values[:0], values[:33], values[33:34], values[34:]]
    index = _native.HeaderIndex(4, 400, [(str(n), [p.size], None) for n, p in enumerate(parts)])
    crc32s = [zlib.crc32(part.tobytes()) for part in parts]
    assert index.fold_crc32(crc32s) == zlib.crc32(values.tobytes())
    with pytest.raises(ValueError, match="not one checksum a tensor"):
        index.fold_crc32(crc32s[1:])
