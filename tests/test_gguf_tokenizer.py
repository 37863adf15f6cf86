"""Tokenizers of GGUF files and of directories, held against the tokenizers package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from dmexp.loaders.gguf import (
    read_header,
    tokenizer_from_directory,
    tokenizer_from_metadata,
)
from dmexp.loaders.gguf.tokenizer._pre import PRE_TOKENIZERS

CORPUS = Path(__file__).parent / "corpus" / "gguf"

TEXT = [
    "the cat sat on the mat, and the dog sat on the log.",
    "I've said it's what WE'LL do; they'd said so, hadn't they?",
    "numbers 1 22 333 4444 55555 3.14159 1,000,000",
    "def f(x):\n    return x + 1\n\n\n\tif x == 2: pass\r\n",
    "Größe über naïve façade — ‘quoted’ … ¿qué? 日本語のテキスト 中文 한국어",
    "emoji 🚀 👩‍👩‍👧 ✅  spaces   and    more     ",
] * 4

TRICKY = [
    "",
    " ",
    "   leading and trailing   ",
    "a\u00a0b\u200bc\ufeff",
    "e\u0301 versus \u00e9",
    "line\r\nline\n\n\n\ttab",
    "'''\"\"\"\\ \\n <|endoftext|> <s> </s>",
    "I'LL they'Ve 12345678 ½ ٣٤ x²",
    "🚀👩‍👩‍👧 日本語1234テキスト ไทย हिन्दी",
    "\x00\x01\x7f",
]

GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


# Written out a second time, as the published tokenizer.json of each model has it.
PUBLISHED: dict[str, tuple[Any, Any]] = {
    "gpt-2": (None, GPT2),
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), GPT2])),
    "llama-bpe": (
        None,
        pre_tokenizers.Sequence(
            [
                split(
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        ),
    ),
    "qwen2": (
        normalizers.NFC(),
        pre_tokenizers.Sequence(
            [
                split(
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        ),
    ),
    "tekken": (
        None,
        pre_tokenizers.Sequence(
            [
                split(
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
                    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        ),
    ),
    "gpt-4o": (
        None,
        pre_tokenizers.Sequence(
            [
                split(
                    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
                    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
                    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        ),
    ),
    "deepseek-v3": (
        None,
        pre_tokenizers.Sequence(
            [
                split(r"\p{N}{1,3}"),
                split("[一-龥\u3040-ゟ゠-ヿ]+"),
                split(
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
                    r"|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        ),
    ),
}


def trained(pre: Any, normalizer: Any = None, whole_words: bool = False) -> Tokenizer:
    """A byte-level tokenizer with all 256 bytes and two special tokens, trained on `TEXT`."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole_words))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=420,
            special_tokens=["<|endoftext|>", "<|im_start|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def as_metadata(tokenizer: Tokenizer, pre: str | None, **more: Any) -> dict[str, Any]:
    """The block that an exporter writes for this tokenizer."""
    document = json.loads(tokenizer.to_str())
    vocab = document["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.__getitem__)
    special = {item["content"] for item in document["added_tokens"]}
    metadata: dict[str, Any] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in special else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in document["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }
    if pre is not None:
        metadata["tokenizer.ggml.pre"] = pre
    return metadata


def imported(metadata: dict[str, Any]) -> tuple[Tokenizer, dict[str, Any], list[str]]:
    table, notices = tokenizer_from_metadata(metadata)
    assert table is not None, notices
    return Tokenizer.from_str(table["json"]), table, notices


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_byte_level_tokenizer_comes_back_as_it_was(name: str) -> None:
    normalizer, pre = PUBLISHED[name]
    original = trained(pre, normalizer, PRE_TOKENIZERS[name].whole_words)
    copy, _, notices = imported(as_metadata(original, name))
    assert notices == []
    assert copy.get_vocab() == original.get_vocab()
    for text in [*TEXT[:6], *TRICKY]:
        expected = original.encode(text, add_special_tokens=False)
        found = copy.encode(text, add_special_tokens=False)
        assert found.ids == expected.ids, text
        assert found.offsets == expected.offsets, text


@pytest.mark.parametrize("name", sorted(PRE_TOKENIZERS))
def test_every_pre_tokenizer_loads_and_loses_no_text(name: str) -> None:
    copy, _, _ = imported(as_metadata(trained(GPT2), name))
    for text in [*TEXT[:6], *TRICKY]:
        if PRE_TOKENIZERS[name].nfc and text.startswith("e\u0301"):
            continue
        ids = copy.encode(text, add_special_tokens=False).ids
        assert copy.decode(ids, skip_special_tokens=False) == text


SMOLLM = imported(as_metadata(trained(PUBLISHED["smollm"][1]), "smollm"))[0]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_decode_undoes_encode_for_any_text(text: str) -> None:
    ids = SMOLLM.encode(text, add_special_tokens=False).ids
    assert SMOLLM.decode(ids, skip_special_tokens=False) == text


def test_readers_split_like_this_where_the_pre_tokenizer_is_not_named() -> None:
    copy, _, notices = imported(as_metadata(trained(GPT2), None))
    pieces = [piece for piece, _ in copy.pre_tokenizer.pre_tokenize_str("ab 1234... $x")]
    assert pieces == ["ab", "Ġ", "123", "4", "...", "Ġ", "$", "x"]
    assert ["'default' is taken" in notice for notice in notices] == [True]


@pytest.mark.parametrize(
    ("name", "flags", "wrapped"),
    [
        ("smollm", {}, (False, False)),
        ("llama-bpe", {}, (True, False)),
        ("llama-bpe", {"add_bos_token": False}, (False, False)),
        ("smollm", {"add_bos_token": True, "add_eos_token": True}, (True, True)),
    ],
)
def test_first_and_last_tokens_are_added_as_the_file_says(
    name: str, flags: dict[str, bool], wrapped: tuple[bool, bool]
) -> None:
    copy, table, _ = imported(as_metadata(trained(GPT2), name, **flags))
    plain = copy.encode("the cat", add_special_tokens=False).ids
    first, last = wrapped
    assert copy.encode("the cat").ids == [1] * first + plain + [0] * last
    assert (table["add_bos_token"], table["add_eos_token"]) == wrapped


def test_special_tokens_are_found_in_text_and_skipped_in_decoding() -> None:
    copy, table, _ = imported(as_metadata(trained(GPT2), "gpt-2", eot_token_id=1))
    ids = copy.encode("<|im_start|>the<|endoftext|>").ids
    assert (ids[0], ids[-1]) == (1, 0)
    assert copy.decode(ids) == "the"
    assert (table["bos_token"], table["bos_token_id"]) == ("<|im_start|>", 1)
    assert (table["eos_token"], table["eos_token_id"]) == ("<|endoftext|>", 0)
    assert table["stop_token_ids"] == [0, 1]


def test_tokens_of_the_user_are_whole_and_not_special() -> None:
    original = trained(GPT2)
    metadata = as_metadata(original, "gpt-2")
    metadata["tokenizer.ggml.tokens"] += ["\n\n\n", "<tool>"]
    metadata["tokenizer.ggml.token_type"] += [4, 4]
    copy, _, _ = imported(metadata)
    count = original.get_vocab_size()
    ids = copy.encode("a<tool>b\n\n\nc").ids
    assert ids[1] == count + 1
    assert ids[3] == count
    assert copy.decode(ids) == "a<tool>b\n\n\nc"


def test_chat_templates_come_along_as_text() -> None:
    metadata = as_metadata(trained(GPT2), "gpt-2")
    metadata["tokenizer.chat_template"] = "{{ messages }}"
    metadata["tokenizer.chat_templates"] = ["tool_use"]
    metadata["tokenizer.chat_template.tool_use"] = "{{ tools }}"
    _, table, _ = imported(metadata)
    assert table["chat_template"] == "{{ messages }}"
    assert table["chat_templates"] == {"tool_use": "{{ tools }}"}


def left_out(metadata: dict[str, Any]) -> str:
    table, notices = tokenizer_from_metadata(metadata)
    assert table is None
    return notices[-1]


def test_what_cannot_be_carried_over_is_named_and_left_out() -> None:
    good = as_metadata(trained(GPT2), "gpt-2")
    cases = [
        ({"tokenizer.ggml.model": "bert"}, "'bert' is left out: only byte-level BPE"),
        ({"tokenizer.ggml.pre": "kimi-k2"}, "its pre-tokenizer 'kimi-k2' is not known"),
        ({"tokenizer.ggml.pre": 7}, "its pre-tokenizer 7 is not known"),
        ({"tokenizer.ggml.tokens": []}, "it has no tokens"),
        ({"tokenizer.ggml.tokens": "abc"}, "tokens is no list"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "tokens holds values of another type"),
        ({"tokenizer.ggml.token_type": [1]}, "1 token types"),
        ({"tokenizer.ggml.merges": None}, "it has no merges"),
        ({"tokenizer.ggml.merges": ["nosuch pair"]}, "its merge 0, 'nosuch pair', leads out"),
        ({"tokenizer.ggml.merges": ["ab"]}, "its merge 0, 'ab', leads out"),
    ]
    for change, part in cases:
        assert part in left_out({**good, **change}), change
    assert tokenizer_from_metadata({}) == (None, [])


def test_tokens_of_the_same_text_are_counted_in_a_notice() -> None:
    metadata = as_metadata(trained(GPT2), "gpt-2")
    metadata["tokenizer.ggml.tokens"] += ["a"]
    metadata["tokenizer.ggml.token_type"] += [1]
    copy, _, notices = imported(metadata)
    assert notices[0].startswith("1 of ")
    assert copy.token_to_id("a") == metadata["tokenizer.ggml.tokens"].index("a")


def test_a_whole_tokenizer_json_in_the_file_is_kept_as_it_is() -> None:
    text = trained(GPT2).to_str()
    table, notices = tokenizer_from_metadata(
        {"tokenizer.huggingface.json": text, "tokenizer.ggml.eos_token_id": 0}
    )
    assert notices == []
    assert table is not None
    assert table["json"] == text
    assert table["eos_token_id"] == 0


# --- SentencePiece ---------------------------------------------------------------------------


PIECES = ["▁", "t", "h", "e", "c", "a", "s", "o", "n", "r", "▁t", "he", "▁the", "at", "▁c", "▁cat"]
PIECES += ["▁s", "▁sat", "on", "▁on", "ca", "cat", "th", "the"]


def sentencepiece(*, byte_tokens: bool = True, **more: Any) -> dict[str, Any]:
    tokens = ["<unk>", "<s>", "</s>"]
    types = [2, 3, 3]
    if byte_tokens:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        types += [6] * 256
    scores = [0.0] * len(tokens)
    tokens += PIECES
    types += [1] * len(PIECES)
    scores += [-float(index) for index in range(len(PIECES))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }


def joined(metadata: dict[str, Any], text: str, prefix: bool = True) -> list[str]:
    """SentencePiece by its definition: join the neighbours whose union scores best, leftmost
    first, until no union is a piece."""
    tokens = metadata["tokenizer.ggml.tokens"]
    scores = dict(zip(tokens, metadata["tokenizer.ggml.scores"], strict=True))
    pieces = list(("▁" if prefix and text else "") + text.replace(" ", "▁"))
    while True:
        best = None
        for at in range(len(pieces) - 1):
            union = pieces[at] + pieces[at + 1]
            if union in PIECES and (best is None or scores[union] > scores[best[1]]):
                best = (at, union)
        if best is None:
            break
        pieces[best[0] : best[0] + 2] = [best[1]]
    found = []
    for piece in pieces:
        if piece in PIECES:
            found.append(piece)
        else:
            found += [f"<0x{byte:02X}>" for byte in piece.encode()]
    return found


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="thecason r é\n", max_size=24), st.booleans())
def test_sentencepiece_joins_as_its_definition_says(text: str, prefix: bool) -> None:
    metadata = sentencepiece(add_space_prefix=prefix)
    copy, _, _ = imported(metadata)
    encoded = copy.encode(text, add_special_tokens=False)
    assert encoded.tokens == joined(metadata, text, prefix)
    assert copy.decode(encoded.ids) == text


def test_sentencepiece_defaults_are_those_of_its_readers() -> None:
    copy, table, notices = imported(sentencepiece())
    assert notices == []
    assert copy.encode("the cat").tokens == ["<s>", "▁the", "▁cat"]
    assert (table["bos_token_id"], table["eos_token_id"], table["unk_token_id"]) == (1, 2, 0)
    assert table["add_bos_token"] is True


def test_defaults_are_not_forced_on_a_vocabulary_that_has_other_tokens_there() -> None:
    metadata = sentencepiece()
    # Ids 1 and 2 are words here, and nothing names a first or a last token.
    metadata["tokenizer.ggml.token_type"][1:3] = [1, 1]
    copy, table, _ = imported(metadata)
    assert "bos_token_id" not in table
    assert copy.encode("the cat").tokens == ["▁the", "▁cat"]
    assert "<s>" not in [token.content for token in copy.get_added_tokens_decoder().values()]


def test_control_characters_of_a_file_do_not_reach_a_notice() -> None:
    metadata = sentencepiece()
    metadata["tokenizer.ggml.model"] = "\x1b[2Jbert"
    assert "\x1b" not in left_out(metadata)


def test_without_byte_tokens_what_is_unknown_becomes_the_unknown_token() -> None:
    copy, _, _ = imported(sentencepiece(byte_tokens=False))
    tokens = copy.encode("the éé cat", add_special_tokens=False).tokens
    assert tokens == ["▁the", "▁", "<unk>", "▁cat"]


def test_a_control_token_does_not_come_out_of_its_letters() -> None:
    metadata = sentencepiece()
    # With "<s" and ">" as pieces, merges could spell "<s>".
    metadata["tokenizer.ggml.tokens"] += ["<s", ">", "<"]
    metadata["tokenizer.ggml.token_type"] += [1, 1, 1]
    metadata["tokenizer.ggml.scores"] += [-50.0, -51.0, -52.0]
    table, _ = tokenizer_from_metadata(metadata)
    assert table is not None
    merges = json.loads(table["json"])["model"]["merges"]
    assert "< s" in merges
    assert "<s >" not in merges


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*.f32.gguf")), ids=lambda p: p.stem)
def test_tokenizers_of_the_corpus_load(path: Path) -> None:
    metadata = read_header(path).metadata
    table, notices = tokenizer_from_metadata(metadata)
    if metadata["tokenizer.ggml.model"] == "bert":
        assert table is None
        assert "the tokenizer 'bert' is left out" in notices[0]
        return
    assert table is not None
    copy = Tokenizer.from_str(table["json"])
    tokens = metadata["tokenizer.ggml.tokens"].values()
    assert [copy.id_to_token(index) for index in range(len(tokens))] == tokens
    assert copy.encode("the rock", add_special_tokens=False).tokens in (
        ["the", "Ġro", "ck"],
        ["▁the", "▁ro", "ck"],
    )


# --- directories -----------------------------------------------------------------------------


def directory(tmp_path: Path, **files: Any) -> Path:
    for name, content in files.items():
        path = tmp_path / name.replace("__", ".")
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return tmp_path


def test_a_directory_gives_the_same_table(tmp_path: Path) -> None:
    original = trained(GPT2)
    base = directory(
        tmp_path,
        tokenizer__json=original.to_str(pretty=True),
        tokenizer_config__json={
            "bos_token": {"content": "<|im_start|>", "lstrip": False},
            "eos_token": "<|endoftext|>",
            "chat_template": "{{ x }}",
            "add_bos_token": False,
        },
        generation_config__json={"eos_token_id": [0, 1]},
    )
    table, notices = tokenizer_from_directory(base)
    assert notices == []
    assert table is not None
    copy = Tokenizer.from_str(table["json"])
    assert copy.encode(TEXT[0]).ids == original.encode(TEXT[0]).ids
    assert "\n" not in table["json"]
    del table["json"]
    assert table == {
        "kind": "tokenizer.json",
        "chat_template": "{{ x }}",
        "bos_token": "<|im_start|>",
        "bos_token_id": 1,
        "eos_token": "<|endoftext|>",
        "eos_token_id": 0,
        "add_bos_token": False,
        "stop_token_ids": [0, 1],
    }


def test_the_template_file_comes_before_the_config_and_lists_are_taken_apart(
    tmp_path: Path,
) -> None:
    named = [{"name": "default", "template": "D"}, {"name": "rag", "template": "R"}]
    base = directory(
        tmp_path,
        tokenizer__json=trained(GPT2).to_str(),
        tokenizer_config__json={"chat_template": named},
    )
    table, _ = tokenizer_from_directory(base)
    assert table is not None
    assert (table["chat_template"], table["chat_templates"]) == ("D", {"rag": "R"})
    directory(tmp_path, chat_template__jinja="J")
    table, _ = tokenizer_from_directory(base)
    assert table is not None
    assert table["chat_template"] == "J"


@pytest.mark.parametrize(
    ("content", "part"),
    [("{", "is not JSON"), ("[]", "has no model"), ("[" * 100_000, "is not JSON")],
)
def test_a_broken_tokenizer_file_is_left_out_and_named(
    tmp_path: Path, content: str, part: str
) -> None:
    table, notices = tokenizer_from_directory(directory(tmp_path, tokenizer__json=content))
    assert table is None
    assert part in notices[0]
    assert "tokenizer.json" in notices[0]


def test_a_directory_without_one_has_nothing_to_say(tmp_path: Path) -> None:
    assert tokenizer_from_directory(tmp_path) == (None, [])
