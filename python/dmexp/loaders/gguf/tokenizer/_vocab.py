"""The tokens of a GGUF file, checked, and the parts that both kinds of tokenizer share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .._arrays import listed

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""``tokenizer.ggml.token_type``."""


class LeftOut(Exception):
    """The tokenizer cannot be carried over; the text says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, with type and score.

    ``ids`` has each text once: of tokens with the same text the first counts.
    """

    tokens: list[str]
    types: list[int]
    scores: list[float]
    ids: dict[str, int]
    special: Mapping[str, int] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """The text of a special token such as ``"bos"``."""
        index = self.special.get(name)
        return None if index is None else self.tokens[index]


SPECIAL_NAMES = {
    "bos": "bos",
    "eos": "eos",
    "eot": "eot",
    "eom": "eom",
    "unk": "unknown",
    "sep": "seperator",
    "pad": "padding",
    "mask": "mask",
}
"""Our names and those of the keys; the misspelling is the format's."""


def read_vocabulary(metadata: Mapping[str, Any], defaults: Mapping[str, int]) -> Vocabulary:
    """Read tokens, types, scores and special ids.

    Parameters
    ----------
    metadata
        The header's.
    defaults
        Ids of special tokens that readers take where the file has no key.

    Raises
    ------
    LeftOut
        Where the lists disagree or hold something else.
    """
    tokens = _list(metadata, "tokens", str)
    if not tokens:
        raise LeftOut("it has no tokens")
    types = _list(metadata, "token_type", int) or [NORMAL] * len(tokens)
    scores = _list(metadata, "scores", (int, float)) or [0.0] * len(tokens)
    if not len(tokens) == len(types) == len(scores):
        raise LeftOut(
            f"it has {len(tokens)} tokens, {len(types)} token types and {len(scores)} scores"
        )
    special: dict[str, int] = {}
    for name, key in SPECIAL_NAMES.items():
        stated = metadata.get(f"tokenizer.ggml.{key}_token_id")
        value = defaults.get(name) if stated is None else stated
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < len(tokens):
            continue
        # A default that meets an ordinary token belongs to another vocabulary.
        if stated is not None or types[value] in (CONTROL, UNKNOWN):
            special[name] = value
    ids: dict[str, int] = {}
    for index, token in enumerate(tokens):
        ids.setdefault(token, index)
    return Vocabulary(tokens, types, [float(score) for score in scores], ids, special)


def _list(
    metadata: Mapping[str, Any], name: str, kind: type | tuple[type, ...]
) -> list[Any] | None:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if value is None:
        return None
    if isinstance(value, (str, int, float)):
        raise LeftOut(f"tokenizer.ggml.{name} is no list")
    items = listed(value)
    if not all(isinstance(item, kind) for item in items):
        raise LeftOut(f"tokenizer.ggml.{name} holds values of another type")
    return items


def merges_of(metadata: Mapping[str, Any]) -> list[str]:
    merges = _list(metadata, "merges", str)
    if merges is None:
        raise LeftOut("it has no merges")
    return merges


def added_tokens(vocab: Vocabulary) -> list[dict[str, Any]]:
    """Tokens that are found in the text before anything else happens to it."""
    # An unknown token is special too: text that spells it must not turn into it by merges.
    special = {CONTROL, UNKNOWN}
    chosen = set(vocab.special.values())
    return [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind in special or index in chosen,
        }
        for index, (token, kind) in enumerate(zip(vocab.tokens, vocab.types, strict=True))
        if token
        and vocab.ids[token] == index
        and (kind in special or kind == USER_DEFINED or index in chosen)
    ]


def flag(metadata: Mapping[str, Any], name: str, default: bool) -> bool:
    value = metadata.get(f"tokenizer.ggml.{name}")
    return value if isinstance(value, bool) else default


def template(vocab: Vocabulary, *, bos: bool, eos: bool) -> dict[str, Any] | None:
    """The step that puts a first and a last token around the text."""
    first = vocab.text("bos") if bos else None
    last = vocab.text("eos") if eos else None
    if first is None and last is None:
        return None

    def around(sequence: str, type_id: int) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if first is not None:
            parts.append({"SpecialToken": {"id": first, "type_id": type_id}})
        parts.append({"Sequence": {"id": sequence, "type_id": type_id}})
        if last is not None:
            parts.append({"SpecialToken": {"id": last, "type_id": type_id}})
        return parts

    return {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": around("A", 0) + around("B", 1),
        "special_tokens": {
            token: {"id": token, "ids": [vocab.ids[token]], "tokens": [token]}
            for token in (first, last)
            if token is not None
        },
    }


def document(
    vocab: Vocabulary,
    *,
    normalizer: dict[str, Any] | None,
    pre_tokenizer: dict[str, Any] | None,
    post_processor: dict[str, Any] | None,
    decoder: dict[str, Any],
    model: dict[str, Any],
) -> str:
    """The text of a ``tokenizer.json``, without white space between its parts."""
    return compact(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added_tokens(vocab),
            "normalizer": normalizer,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": post_processor,
            "decoder": decoder,
            "model": model,
        }
    )


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
