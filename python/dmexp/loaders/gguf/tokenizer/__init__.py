"""Tokenizers as the ``tokenizer.json`` that the tokenizers package loads.

What comes back goes into the header's metadata under ``tokenizer``:

``json``
    The text of the ``tokenizer.json``.
``kind``
    What it was made from.
``chat_template``, ``chat_templates``
    The usual template, and others by name. Text: nothing here evaluates it.
``bos_token``, ``bos_token_id``, ``eos_token`` …
    Special tokens, as text and as ids.
``add_bos_token``, ``add_eos_token``
    Whether they are put around a prompt.
``stop_token_ids``
    Every token that ends an answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dmexp.errors import FileFormatError

from ._bpe import byte_level_bpe
from ._directory import tokenizer_from_directory
from ._pre import PRE_TOKENIZERS
from ._spm import sentencepiece
from ._vocab import SPECIAL_NAMES, LeftOut, flag

__all__ = ["tokenizer_from_directory", "tokenizer_from_metadata"]

_BUILDERS = {"gpt2": byte_level_bpe, "llama": sentencepiece}


def tokenizer_from_metadata(
    metadata: Mapping[str, Any],
) -> tuple[dict[str, Any] | None, list[str]]:
    """Turn the tokenizer block of a GGUF header into a ``tokenizer.json``.

    Byte-level BPE (``gpt2``) with a pre-tokenizer that is known, and SentencePiece BPE
    (``llama``), are carried over. A file that holds a whole ``tokenizer.json`` keeps that one.

    Parameters
    ----------
    metadata
        The header's.

    Returns
    -------
    tuple
        The table for the header's metadata, or None where there is no tokenizer that can be
        carried over; and sentences on what was left out and why.
    """
    kind = metadata.get("tokenizer.ggml.model")
    notices: list[str] = []
    if kind is None and "tokenizer.huggingface.json" not in metadata:
        return None, notices
    try:
        table = _own(metadata) or _built(metadata, kind, notices)
    except (LeftOut, FileFormatError) as error:
        notices.append(f"the tokenizer {kind!r} is left out: {error}")
        return None, notices
    return table | _templates(metadata), notices


def _own(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``tokenizer.json`` that some writers put into the file as it is."""
    text = metadata.get("tokenizer.huggingface.json")
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "model" not in value:
        return None
    table: dict[str, Any] = {"json": text, "kind": "tokenizer.huggingface.json"}
    for name, key in SPECIAL_NAMES.items():
        index = metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(index, int) and not isinstance(index, bool):
            table[f"{name}_token_id"] = index
    return table


def _built(metadata: Mapping[str, Any], kind: Any, notices: list[str]) -> dict[str, Any]:
    build = _BUILDERS.get(kind) if isinstance(kind, str) else None
    if build is None:
        raise LeftOut("only byte-level BPE (gpt2) and SentencePiece BPE (llama) are carried over")
    text, vocab = build(metadata, notices)
    twice = len(vocab.tokens) - len(vocab.ids)
    if twice:
        notices.append(
            f"{twice} of {len(vocab.tokens)} tokens have the text of an earlier one and are left "
            "out of the tokenizer"
        )
    pre = metadata.get("tokenizer.ggml.pre")
    table: dict[str, Any] = {"json": text, "kind": f"{kind}/{pre}" if pre else str(kind)}
    for name, index in vocab.special.items():
        table[f"{name}_token"] = vocab.tokens[index]
        table[f"{name}_token_id"] = index
    bos = kind == "llama" or (pre in PRE_TOKENIZERS and PRE_TOKENIZERS[pre].bos)
    table["add_bos_token"] = flag(metadata, "add_bos_token", bos)
    table["add_eos_token"] = flag(metadata, "add_eos_token", False)
    stops = sorted({vocab.special[name] for name in ("eos", "eot", "eom") if name in vocab.special})
    if stops:
        table["stop_token_ids"] = stops
    return table


def _templates(metadata: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    value = metadata.get("tokenizer.chat_template")
    if isinstance(value, str):
        found["chat_template"] = value
    prefix = "tokenizer.chat_template."
    named = {
        key.removeprefix(prefix): text
        for key, text in metadata.items()
        if key.startswith(prefix) and isinstance(text, str)
    }
    if named:
        found["chat_templates"] = named
    return found
