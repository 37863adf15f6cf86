"""SentencePiece BPE, which GGUF calls ``llama``, as a ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._vocab import (
    BYTE,
    NORMAL,
    Vocabulary,
    document,
    flag,
    read_vocabulary,
    template,
)

SPACE = "\u2581"
"""What stands for a space inside pieces."""

# The ids that readers take where a file of this kind names none.
DEFAULTS = {"bos": 1, "eos": 2, "unk": 0}


def sentencepiece(metadata: Mapping[str, Any], notices: list[str]) -> tuple[str, Vocabulary]:
    """Build the tokenizer.

    SentencePiece joins the two neighbours whose union scores best; a ``tokenizer.json`` lists
    the unions in that order instead, so the list is made here.

    Returns
    -------
    tuple
        The text of the ``tokenizer.json``, and the vocabulary.
    """
    del notices
    vocab = read_vocabulary(metadata, DEFAULTS)
    prefix = flag(metadata, "add_space_prefix", True)
    bytes_found = sum(1 for kind in vocab.types if kind == BYTE)
    spaces: dict[str, Any] = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    first: dict[str, Any] = {"type": "Prepend", "prepend": SPACE}
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    text = document(
        vocab,
        normalizer={"type": "Sequence", "normalizers": [first, spaces]} if prefix else spaces,
        pre_tokenizer=None,
        post_processor=template(
            vocab,
            bos=flag(metadata, "add_bos_token", True),
            eos=flag(metadata, "add_eos_token", False),
        ),
        decoder={"type": "Sequence", "decoders": decoders},
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": vocab.text("unk"),
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            # All 256, or a byte without a token would become nothing.
            "byte_fallback": bytes_found == 256,
            "ignore_merges": False,
            "vocab": vocab.ids,
            "merges": ranked_merges(vocab),
        },
    )
    return text, vocab


def ranked_merges(vocab: Vocabulary) -> list[str]:
    """Every way to join two pieces to a third, best third first.

    Only pieces of ordinary text take part: a control token must not come out of its spelling.
    """
    ids, scores = vocab.ids, vocab.scores
    ordinary = {
        token: index
        for token, index in ids.items()
        if vocab.types[index] == NORMAL and " " not in token
    }
    found: list[tuple[float, int, int, str]] = []
    for token, index in ordinary.items():
        for cut in range(1, len(token)):
            left = token[:cut]
            right = token[cut:]
            if left in ordinary and right in ordinary:
                found.append((-scores[index], ordinary[left], ordinary[right], f"{left} {right}"))
    # Equal scores fall back to the ids of the halves, so that the order is always the same.
    found.sort(key=lambda merge: merge[:3])
    return [merge[3] for merge in found]
