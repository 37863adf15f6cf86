"""Byte-level BPE, which GGUF calls ``gpt2``, as a ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._pre import PRE_TOKENIZERS, byte_level, pre_tokenizer
from ._vocab import LeftOut, Vocabulary, document, flag, merges_of, read_vocabulary, template

# The ids that readers take where a file of this kind names none.
DEFAULTS: dict[str, int] = {}


def byte_level_bpe(metadata: Mapping[str, Any], notices: list[str]) -> tuple[str, Vocabulary]:
    """Build the tokenizer.

    Returns
    -------
    tuple
        The text of the ``tokenizer.json``, and the vocabulary.

    Raises
    ------
    LeftOut
        A pre-tokenizer that is not known, or merges that lead out of the vocabulary.
    """
    name = metadata.get("tokenizer.ggml.pre")
    if name is None:
        name = "default"
        notices.append(
            "the tokenizer does not name its pre-tokenizer; 'default' is taken, as other readers do"
        )
    pre = PRE_TOKENIZERS.get(name) if isinstance(name, str) else None
    if pre is None:
        raise LeftOut(f"its pre-tokenizer {name!r} is not known")
    vocab = read_vocabulary(metadata, DEFAULTS)
    bos = flag(metadata, "add_bos_token", pre.bos)
    eos = flag(metadata, "add_eos_token", False)
    text = document(
        vocab,
        normalizer={"type": "NFC"} if pre.nfc else None,
        pre_tokenizer=pre_tokenizer(pre),
        post_processor=template(vocab, bos=bos, eos=eos),
        decoder=byte_level(use_regex=False),
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre.whole_words,
            "vocab": vocab.ids,
            "merges": _checked(merges_of(metadata), vocab),
        },
    )
    return text, vocab


def _checked(merges: list[str], vocab: Vocabulary) -> list[str]:
    ids = vocab.ids
    for index, merge in enumerate(merges):
        left, space, right = merge.partition(" ")
        if not space or left not in ids or right not in ids or left + right not in ids:
            raise LeftOut(f"its merge {index}, {merge!r}, leads out of the vocabulary")
    return merges
