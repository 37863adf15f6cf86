"""Generation: sampling, text pieces, stop strings, limits, and ``dmexp generate``."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmexp.cli import main
from dmexp.errors import InvalidArgumentError, NonFiniteError
from dmexp.runtime import Generation, Options, Sampling, open_model, prompt_ids
from dmexp.runtime.detokenize import StopFilter, TextStream
from dmexp.runtime.sampling import Sampler
from dmexp.runtime.tokenizer import ByteTokenizer, JsonTokenizer, read_facts
from runtime_util import byte_model, case, write_byte_model, write_case

GREEDY = Sampling(temperature=0)


def logits(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.float32)


# Sampling


def test_temperature_zero_takes_the_likeliest_and_the_first_of_equals() -> None:
    assert Sampler(GREEDY).pick(logits(1, 3, 3, 2)) == 1


def test_a_seed_gives_the_same_tokens_and_another_seed_others() -> None:
    values = np.random.RandomState(0).standard_normal(50).astype(np.float32)

    def draw(seed: int) -> list[int]:
        sampler = Sampler(Sampling(temperature=1.0, seed=seed))
        return [sampler.pick(values) for _ in range(40)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_the_stream_of_a_seed_never_changes() -> None:
    sampler = Sampler(Sampling(temperature=1.0, seed=0))
    flat = np.zeros(1000, dtype=np.float32)
    assert [sampler.pick(flat) for _ in range(5)] == [844, 757, 420, 258, 511]


def test_draws_follow_the_probabilities() -> None:
    sampler = Sampler(Sampling(temperature=0.5, seed=1))
    values = np.log(np.sqrt(np.array([0.5, 0.3, 0.2]))).astype(np.float32)
    counts = np.bincount([sampler.pick(values) for _ in range(20000)], minlength=3)
    assert np.abs(counts / 20000 - [0.5, 0.3, 0.2]).max() < 0.015


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"top_k": 1}, {3}),
        ({"top_k": 2}, {3, 1}),
        ({"top_p": 0.1}, {3}),
        ({"top_p": 0.5}, {3}),
        ({"top_p": 0.51}, {3, 1}),
        ({"top_p": 0.94}, {3, 1, 0}),
        ({"top_p": 0.96}, {3, 1, 0, 2}),
        # Of the two likeliest, the first has 0.5 / 0.8.
        ({"top_k": 2, "top_p": 0.62}, {3}),
        ({"top_k": 2, "top_p": 0.63}, {3, 1}),
        ({"top_k": 99}, {0, 1, 2, 3}),
    ],
)
def test_only_candidates_are_drawn(options: dict[str, Any], allowed: set[int]) -> None:
    values = np.log(np.array([0.15, 0.3, 0.05, 0.5])).astype(np.float32)
    sampler = Sampler(Sampling(temperature=1.0, seed=5, **options))
    assert {sampler.pick(values) for _ in range(400)} == allowed


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1.0), st.integers(0, 12), st.floats(0.05, 3))
def test_filters_agree_with_a_plain_sort(
    seed: int, top_p: float, top_k: int, temperature: float
) -> None:
    values = np.random.RandomState(seed).standard_normal(40).astype(np.float32)
    order = np.argsort(-values, kind="stable")[: top_k or None]
    weights = np.exp((values[order].astype(np.float64) - values.max()) / temperature)
    sums = np.cumsum(weights) / weights.sum()
    allowed = set(order[: int(np.searchsorted(sums, top_p * (1 - 1e-12))) + 1].tolist())
    allowed |= set(order[: int(np.searchsorted(sums, top_p * (1 + 1e-12))) + 1].tolist())
    sampler = Sampler(Sampling(temperature, top_p, top_k, seed))
    assert {sampler.pick(values) for _ in range(30)} <= allowed


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e300])
def test_extreme_temperatures_warn_of_nothing(temperature: float) -> None:
    token = Sampler(Sampling(temperature, seed=0)).pick(logits(-3e38, 5, 3e38, 0))
    assert token in range(4)
    if temperature < 1:
        assert token == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="logit of token 2") as caught:
        Sampler(GREEDY).pick(logits(0, 1, bad, 1))
    assert caught.value.index == (2,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_p", float("nan")),
        ("top_k", -1),
        ("seed", -1),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=name) as caught:
        Sampling(**{name: value})  # type: ignore[arg-type]
    assert caught.value.argument == name


# Text


@given(st.text(max_size=30), st.text(max_size=30))
def test_pieces_of_bytes_join_to_the_whole(prompt: str, text: str) -> None:
    tokenizer = ByteTokenizer()
    stream = TextStream(tokenizer, tokenizer.encode(prompt))
    pieces = [stream.push(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) + stream.finish() == text
    # U+FFFD itself may be held back; nothing else that ends in a cut character is shown.
    assert all(not piece.endswith("\ufffd") for piece in pieces)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("aé", b"a\xc3\xa9"),
        ("a\udcff", b"a\xff"),
        ("a\ud800b", "a\ufffdb".encode()),
        ("\ud83d\ude42", "🙂".encode()),
    ],
)
def test_surrogates_become_the_bytes_that_they_stand_for(text: str, data: bytes) -> None:
    assert bytes(ByteTokenizer().encode(text)) == data


@given(st.binary(max_size=40))
def test_bytes_that_are_no_text_are_replaced_as_python_does(data: bytes) -> None:
    stream = TextStream(ByteTokenizer())
    text = "".join(stream.push(byte) for byte in data) + stream.finish()
    assert text == data.decode("utf-8", "replace")


def test_a_character_across_tokens_comes_whole() -> None:
    stream = TextStream(ByteTokenizer())
    assert [stream.push(byte) for byte in "aé€".encode()] == ["a", "", "é", "", "", "€"]


def stopped(stops: Sequence[str], pieces: Sequence[str]) -> tuple[str, bool]:
    filter_ = StopFilter(stops)
    shown = ""
    for piece in pieces:
        shown += filter_.push(piece)
        if filter_.stopped:
            return shown, True
    return shown + filter_.finish(), False


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (["END"], ["abEN", "D rest"], ("ab", True)),
        (["END"], ["abE", "N", "x"], ("abENx", False)),
        (["END"], ["abEN"], ("abEN", False)),
        (["bc", "abcd"], ["a", "bcd"], ("a", True)),
        (["\n\n"], ["a\n", "b\n", "\nc"], ("a\nb", True)),
        ([], ["a", "b"], ("ab", False)),
        (["aab"], ["aa", "ab"], ("a", True)),
    ],
)
def test_text_ends_before_a_stop_string(
    stops: list[str], pieces: list[str], expected: tuple[str, bool]
) -> None:
    assert stopped(stops, pieces) == expected


@given(
    st.lists(st.text("ab", max_size=4), max_size=5),
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
)
def test_stop_strings_cut_the_same_place_however_the_text_arrives(
    pieces: list[str], stops: list[str]
) -> None:
    text = "".join(pieces)
    assert stopped(stops, pieces) == stopped(stops, list(text))
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    expected = (text[: min(ends)[1]], True) if ends else (text, False)
    assert stopped(stops, pieces) == expected


# Generation


def run(prompt: str, **options: Any) -> Generation:
    model = byte_model()
    tokenizer = ByteTokenizer()
    generation = Generation(
        model,
        tokenizer,
        prompt_ids(model, tokenizer, prompt),
        Options(**({"sampling": GREEDY} | options)),
    )
    generation.pieces = list(generation)  # type: ignore[attr-defined]
    return generation


def test_pieces_join_to_the_text_of_the_result() -> None:
    generation = run("hello", max_tokens=40)
    result = generation.result
    assert "".join(generation.pieces) == result.text  # type: ignore[attr-defined]
    assert result.text == bytes(result.tokens).decode("utf-8", "replace")
    assert (result.prompt_tokens, len(result.tokens), result.finish_reason) == (5, 40, "length")
    assert result.tokens_per_second > 0


def test_a_stop_string_ends_the_text_and_is_not_part_of_it() -> None:
    whole = run("hello", max_tokens=40).result.text
    stop = whole[10:13]
    result = run("hello", max_tokens=40, stop=(stop,)).result
    assert result.finish_reason == "stop"
    assert result.text == whole[: whole.index(stop)]


def test_the_end_token_ends_the_text_unless_ignored() -> None:
    end = run("hello", max_tokens=8).result.tokens[3]
    model = byte_model(eos_token_id=end)
    tokenizer = ByteTokenizer()
    prompt = tokenizer.encode("hello")

    def tokens(ignore: bool) -> tuple[list[int], str]:
        options = Options(max_tokens=8, sampling=GREEDY, ignore_eos=ignore)
        generation = Generation(model, tokenizer, prompt, options)
        text = "".join(generation)
        assert text == generation.result.text
        return generation.result.tokens, generation.result.finish_reason

    ended, reason = tokens(False)
    assert reason == "stop"
    assert ended[-1] == end
    assert end not in ended[:-1]
    assert tokens(True) == (run("hello", max_tokens=8).result.tokens, "length")


def test_the_models_positions_end_the_text() -> None:
    result = run("x" * 120, max_tokens=1000).result
    assert (len(result.tokens), result.finish_reason) == (8, "length")


def test_a_prompt_that_fills_the_positions_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="128 tokens and the model 128 positions"):
        run("x" * 128)


def test_an_empty_prompt_starts_with_the_first_token_or_is_refused() -> None:
    tokenizer = ByteTokenizer()
    assert prompt_ids(byte_model(bos_token_id=7), tokenizer, "") == [7]
    with pytest.raises(InvalidArgumentError, match="prompt is empty"):
        prompt_ids(byte_model(), tokenizer, "")


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="token 256 is outside") as caught:
        Generation(byte_model(), ByteTokenizer(), [1, 256], Options())
    assert caught.value.token == 256


def test_a_cancelled_generation_says_so() -> None:
    calls = []

    def cancelled() -> bool:
        calls.append(1)
        return len(calls) > 3

    generation = Generation(
        byte_model(), ByteTokenizer(), [1], Options(sampling=GREEDY), cancelled=cancelled
    )
    assert "".join(generation) == generation.result.text
    assert (len(generation.result.tokens), generation.result.finish_reason) == (3, "cancelled")


# The tokenizers package

WORDS = {
    "version": "1.0",
    "truncation": {
        "max_length": 2,
        "stride": 0,
        "strategy": "LongestFirst",
        "direction": "Right",
    },
    "added_tokens": [
        {
            "id": 1,
            "content": "<end>",
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "pre_tokenizer": {"type": "Whitespace"},
    "decoder": None,
    "model": {
        "type": "WordLevel",
        "vocab": {"<unk>": 0, "<end>": 1, "a": 2, "b": 3},
        "unk_token": "<unk>",
    },
}


def words(**facts: Any) -> JsonTokenizer:
    return JsonTokenizer(json.dumps(WORDS), read_facts(facts), "a test")


def test_the_whole_text_is_encoded_whatever_truncation_the_file_asks_for() -> None:
    assert words().encode("a b a b") == [2, 3, 2, 3]


def test_the_first_token_is_added_where_the_facts_call_for_it_and_only_once() -> None:
    tokenizer = words(bos_token_id=1, add_bos_token=True)
    assert tokenizer.encode("a b") == [1, 2, 3]
    assert tokenizer.encode("<end> a") == [1, 2]
    assert tokenizer.encode("a b", special=False) == [2, 3]
    assert words(bos_token_id=1, add_bos_token=False).encode("a") == [2]


def test_special_tokens_are_not_part_of_a_text() -> None:
    assert words().decode([2, 1, 3]) == "a b"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {"type": "Magic"}}'])
def test_a_tokenizer_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not one that the tokenizers package reads"):
        JsonTokenizer(text, read_facts({}), "a test")


def test_facts_come_in_the_spellings_of_hugging_face() -> None:
    facts = read_facts(
        {
            "bos_token": {"content": "<s>", "special": True},
            "eos_token": "</s>",
            "eos_token_id": [2, 3],
            "stop_token_ids": [4],
            "bos_token_id": 1,
            "chat_template": [
                {"name": "tool", "template": "t"},
                {"name": "default", "template": "d"},
            ],
            "add_bos_token": True,
        }
    )
    assert facts.special == {"bos_token": "<s>", "eos_token": "</s>"}
    assert (facts.bos_id, facts.eos_ids, facts.add_bos) == (1, (2, 3, 4), True)
    assert facts.chat_template == "d"


# The command

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def byte_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_byte_model(tmp_path_factory.mktemp("model") / "bytes.dmexp")


def test_json_has_exactly_the_promised_keys(byte_file: Path, capsys: Capture) -> None:
    status = main(
        [
            "generate",
            str(byte_file),
            "--prompt",
            "hi",
            "--max-tokens",
            "5",
            "--temperature",
            "0",
            "--json",
        ]
    )
    document = json.loads(capsys.readouterr().out)
    assert status == 0
    assert list(document) == [
        "prompt_tokens",
        "tokens",
        "text",
        "finish_reason",
        "tokens_per_second",
    ]
    assert document["prompt_tokens"] == 2
    assert len(document["tokens"]) == 5
    assert document["text"] == bytes(document["tokens"]).decode("utf-8", "replace")
    assert document["finish_reason"] == "length"


def test_text_goes_to_stdout_and_nothing_to_stderr(byte_file: Path, capsys: Capture) -> None:
    arguments = ["generate", str(byte_file), "--prompt", "hi", "--max-tokens", "5", "--seed", "3"]
    assert main(arguments) == 0
    first = capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    assert first.out == json.loads(capsys.readouterr().out)["text"] + "\n"
    assert first.err == ""


def test_a_prompt_from_stdin_is_taken_byte_by_byte(
    byte_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff\n")))
    assert main(["generate", str(byte_file), "--prompt", "-", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] == 4


def test_narrow_weights_give_the_same_text_with_little_memory(
    tmp_path: Path, capsys: Capture
) -> None:
    path = write_byte_model(tmp_path / "narrow.dmexp", dtype="bf16")
    arguments = ["generate", str(path), "--prompt", "hi", "--temperature", "0", "--json"]
    texts = []
    for more in ([], ["--low-memory"]):
        assert main([*arguments, *more]) == 0
        texts.append(json.loads(capsys.readouterr().out)["tokens"])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--temperature", "-1"],
        ["--temperature", "nan"],
        ["--temperature", "inf"],
        ["--temperature", "warm"],
        ["--top-p", "0"],
        ["--top-p", "1.01"],
        ["--top-k", "-1"],
        ["--max-tokens", "0"],
        ["--seed", "-3"],
        ["--stop", ""],
        ["--no-such-option"],
    ],
)
def test_bad_usage_exits_with_2(byte_file: Path, arguments: list[str], capsys: Capture) -> None:
    assert main(["generate", str(byte_file), "--prompt", "x", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_an_empty_prompt_without_a_first_token_is_one_line(
    byte_file: Path, capsys: Capture
) -> None:
    assert main(["generate", str(byte_file), "--prompt", ""]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("dmexp: the prompt is empty")
    assert output.err.count("\n") == 1


def test_a_model_without_a_tokenizer_is_refused_with_the_way_out(
    tmp_path: Path, capsys: Capture
) -> None:
    path = write_case(case("llama"), tmp_path / "llama.dmexp")
    assert main(["generate", str(path), "--prompt", "x"]) == 1
    assert "--tokenizer" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["metadata", "beside", "named"])
def test_the_tokenizer_is_found(where: str, tmp_path: Path, capsys: Capture) -> None:
    metadata = {"tokenizer": {"json": json.dumps(WORDS)}} if where == "metadata" else None
    path = write_case(case("llama"), tmp_path / "llama.dmexp", metadata=metadata)
    arguments = ["generate", str(path), "--prompt", "a b a", "--max-tokens", "3", "--json"]
    if where == "beside":
        (tmp_path / "tokenizer.json").write_text(json.dumps(WORDS))
    if where == "named":
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "tokenizer.json").write_text(json.dumps(WORDS))
        arguments += ["--tokenizer", str(tmp_path / "other")]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] == 3


def test_greedy_text_of_an_export_is_the_references(tmp_path: Path, capsys: Capture) -> None:
    recorded = case("gemma3")
    path = write_case(recorded, tmp_path / "gemma.dmexp", dtype="f32")
    loaded = open_model(path, tokenizer=_saved(tmp_path))
    options = Options(max_tokens=40, sampling=GREEDY, ignore_eos=True)
    generation = Generation(loaded.model, loaded.tokenizer, recorded.tokens[:9], options)
    for _ in generation:
        pass
    assert generation.result.tokens == recorded.greedy


def _saved(directory: Path) -> Path:
    path = directory / "words.json"
    path.write_text(json.dumps(WORDS))
    return path


def test_a_chat_without_a_template_is_refused(byte_file: Path, capsys: Capture) -> None:
    assert main(["generate", str(byte_file), "--prompt", "x", "--chat"]) == 1
    assert "no chat template" in capsys.readouterr().err


def test_a_terminal_gets_no_control_bytes(
    byte_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    text = "a\x1b[2Jb\x9bc\x07\td\ne\x7f"
    _replace_text(monkeypatch, text)
    assert main(["generate", str(byte_file), "--prompt", "x"]) == 0
    assert capsys.readouterr().out == text + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["generate", str(byte_file), "--prompt", "x"]) == 0
    assert capsys.readouterr().out == "a[2Jbc\td\ne\n"


def _replace_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def pieces(self: Generation) -> Any:
        yield text

    monkeypatch.setattr(Generation, "__iter__", pieces)


def test_the_command_works_where_the_terminal_knows_only_ascii(tmp_path: Path) -> None:
    path = write_byte_model(tmp_path / "bytes.dmexp")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dmexp",
            "generate",
            str(path),
            "--prompt",
            "é",
            "--temperature",
            "2",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONWARNINGS": "error"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
