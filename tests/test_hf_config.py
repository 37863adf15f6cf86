"""`config.json` as TOML text."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from dmexp import families
from dmexp.errors import FormatError, SizeOverflowError
from dmexp.loaders.hf_config import LARGEST_CONFIG_BYTES, load_config, read_config
from dmexp.loaders.hf_used_keys import USED_KEYS
from families_util import CHECKPOINTS, CORPUS


def write(tmp_path: Path, content: str | bytes | Any, name: str = "config.json") -> Path:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_each_config_of_the_corpus_becomes_toml_key_by_key(name: str) -> None:
    path = CORPUS / "gguf" / name / "config.json"
    assert tomli.loads(load_config(path)) == without_nulls(json.loads(path.read_text("utf-8")))


def test_keys_keep_their_order_and_nested_tables_come_last(tmp_path: Path) -> None:
    path = write(tmp_path, {"b": 1, "t": {"x": 2, "n": None}, "a": [1, 2], "n": None, "e": {}})
    assert load_config(path) == "b = 1\na = [\n    1,\n    2,\n]\n\n[t]\nx = 2\n\n[e]\n"


def test_a_toml_file_is_taken_as_it_is(tmp_path: Path) -> None:
    text = "# mine\nd_model = 6\n[x]\ny = [1, 2]\n"
    assert load_config(write(tmp_path, text, "c.toml")) == text
    # The suffix does not decide.
    assert load_config(write(tmp_path, text, "config.json")) == text
    crlf = b"\xef\xbb\xbfd_model = 6\r\n"
    assert load_config(write(tmp_path, crlf, "c.toml")) == "d_model = 6\n"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no bytes"),
        (b" " * (LARGEST_CONFIG_BYTES + 1), f"more than {LARGEST_CONFIG_BYTES}"),
        (b"{", "line 1, column 2"),
        (b'{"a": 1,}', "line 1"),
        (b'{"a": 1} x', "Extra data"),
        (b"{'a': 1}", "line 1"),
        (b'{"a": 0x10}', "line 1"),
        (b'{"a": "\xff"}', "0xff at byte 7"),
        (b"[1, 2]", "JSON of kind array"),
        (b"null", "does not begin with {"),
        # Both are TOML as well: a table without keys.
        (b"[1]", "JSON of kind array"),
        (b"\xef\xbb\xbf [[1]]\n", "JSON of kind array"),
        (b" \r\n\t", "blank"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'{"a":' * 100_000, "nested deeper"),
        (b'{"a":' + b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "nested deeper"),
        (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper"),
        (b'{\n"a": 1,\n"b": {"a": 2, "a": 3}}', '"a" twice'),
    ],
)
def test_what_is_no_config_is_refused_with_its_place(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = write(tmp_path, content)
    with pytest.raises(FormatError, match="config") as caught:
        load_config(path)
    assert says in str(caught.value)
    assert caught.value.path == str(path)


def test_a_repeated_key_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        load_config(write(tmp_path, '{\n "a": 1,\n "a": 2\n}'))
    assert (caught.value.key, caught.value.line) == ("a", 3)


@pytest.mark.parametrize("word", ["Infinity", "-Infinity", "NaN"])
def test_p58_infinity_and_nan_stay_in_a_key_that_is_not_read(tmp_path: Path, word: str) -> None:
    path = write(tmp_path, f'{{"hidden_size": 4, "time_step_limit": [0.0, {word}], "x": {word}}}')
    values = tomli.loads(load_config(path))
    for got in (values["x"], values["time_step_limit"][1]):
        assert math.isnan(got) if word == "NaN" else got == float(word)


@pytest.mark.parametrize("word", ["Infinity", "-Infinity", "NaN"])
@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ("rms_norm_eps", '{{\n"a": 1,\n"rms_norm_eps": {}}}'),
        ("rope_parameters.factor", '{{"rope_parameters": \n{{"x": 1,\n"factor": {}}}}}'),
        ("text_config.rope_theta", '{{"text_config":\n{{\n"rope_theta": {}}}}}'),
        ("eos_token_id", '{{\n"b":2,\n"eos_token_id": [1, {}]}}'),
    ],
)
def test_p58_they_are_refused_with_file_line_and_key_where_the_key_is_read(
    tmp_path: Path, key: str, shape: str, word: str
) -> None:
    path = write(tmp_path, shape.format(word))
    with pytest.raises(FormatError) as caught:
        load_config(path)
    assert caught.value.path == str(path)
    assert (caught.value.key, caught.value.line) == (key, 3)
    assert word in str(caught.value)


def test_a_null_in_a_list_leaves_the_list_out_with_a_notice(tmp_path: Path) -> None:
    path = write(tmp_path, {"forced_decoder_ids": [[1, None], [2, 50359]], "a": {"b": [None]}})
    config = read_config(path)
    assert config.values == {"a": {}}
    assert [n.split(" of ")[0] for n in config.notices] == ['"forced_decoder_ids"', '"a.b"']
    with pytest.raises(FormatError, match=r'"layer_types".*a null inside a list'):
        load_config(write(tmp_path, {"layer_types": ["full_attention", None]}))


def test_a_null_in_a_table_inside_a_list_is_an_absent_key(tmp_path: Path) -> None:
    config = read_config(write(tmp_path, {"layers": [{"a": 1, "b": None}, {"b": {"c": None}}]}))
    assert config.values == {"layers": [{"a": 1}, {"b": {}}]}
    assert tomli.loads(config.text) == config.values
    assert config.notices == []


@pytest.mark.parametrize("digits", [str(2**63), str(-(2**63) - 1), "1" + "0" * 30, "9" * 10**6])
def test_an_integer_beyond_64_bits(tmp_path: Path, digits: str) -> None:
    config = read_config(write(tmp_path, f'{{"model_max_length": {digits}, "a": 1}}'))
    assert config.values == {"a": 1}
    assert "beyond 64 bits" in config.notices[0]
    assert len(config.notices[0]) < 200
    with pytest.raises(SizeOverflowError, match=r'"vocab_size" \(line 1\)'):
        load_config(write(tmp_path, f'{{"vocab_size": {digits}}}'))


def test_the_edges_of_64_bits_stay(tmp_path: Path) -> None:
    values = {"a": 2**63 - 1, "b": -(2**63)}
    assert tomli.loads(load_config(write(tmp_path, values))) == values


def test_a_float_beyond_f64_is_not_turned_into_infinity(tmp_path: Path) -> None:
    with pytest.raises(SizeOverflowError, match="1e400"):
        load_config(write(tmp_path, '{"x": 1e400}'))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "config.json")


leaves = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)


@given(values=st.dictionaries(names.map(lambda name: "x" + name), trees, max_size=6))
def test_any_config_reads_back_as_itself(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("c") / "config.json"
    path.write_text(json.dumps(values), "utf-8")
    config = read_config(path)
    assert config.values == values
    assert tomli.loads(config.text) == values


def test_every_key_that_a_family_reads_counts_as_read() -> None:
    folder = Path(families.__file__).parent
    # Configs of dormouse are TOML, and a vision tower is a table of its own.
    modules = [p for p in folder.glob("*.py") if p.stem not in ("dormouse", "_vision", "_config")]
    read = set()
    for module in modules:
        for call in re.finditer(
            r"\.(?:count|counts|flag|number|text|texts|is_text|has)\(([^()]*)", module.read_text()
        ):
            read |= set(re.findall(r'"(\w+)"', call[1]))
    towers = {"text_config", "vision_config", "audio_config", "model", "auto"}
    assert len(read) > 80
    assert read - towers <= USED_KEYS
