r"""Where byte-level BPE may not merge: the pre-tokenizers that ``tokenizer.ggml.pre`` names.

Each is the expression that the original ``tokenizer.json`` of the named model has. Splits are
*isolated*: matches and the text between them become pieces, each split further by the next
expression. ``digits`` and ``gpt2`` stand for the two that the tokenizers package has built in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DIGITS = "digits"
GPT2 = "gpt2"

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_PUNCTUATED = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"

_LLAMA3 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1,3}}|{_SYMBOLS}|{_SPACES}"
_QWEN2 = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}|{_SYMBOLS}|{_SPACES}"
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s"
    rf"|\p{{N}}%s| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
)
_TEKKEN = _CASED % ("", "", "")
_GPT4O = _CASED % (f"{_CONTRACTIONS}?", f"{_CONTRACTIONS}?", "{1,3}")
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = rf"{_CONTRACTIONS}|{_WORDS}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
# The cased letters of Unicode 13. Escaped, because some of them do not survive normalization,
# which editors and version control may apply.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293"
    "\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c"
    "\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59"
    "\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc"
    "\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
    "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee"
    "\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e"
    "\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_DEEPSEEK3 = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _PUNCTUATED)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"


@dataclass(frozen=True, slots=True)
class Pre:
    """A pre-tokenizer and what goes with it.

    Attributes
    ----------
    splits
        Expressions, or `DIGITS` or `GPT2`, applied one after the other.
    whole_words
        Whether a piece that is a token as it stands is not taken apart (``ignore_merges``).
    bos
        Whether the first token is added unless the file says otherwise.
    nfc
        Whether text is brought to Unicode's composed form first.
    """

    splits: tuple[str, ...]
    whole_words: bool = False
    bos: bool = False
    nfc: bool = False


PRE_TOKENIZERS: dict[str, Pre] = {}


def _add(names: str, *splits: str, **more: bool) -> None:
    for name in names.split():
        PRE_TOKENIZERS[name] = Pre(splits, **more)


_add(
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
    "gigachat a.x-4.0 mellum modern-bert mpt olmo jais trillion exaone4 granite-docling",
    GPT2,
)
_add("starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", DIGITS, GPT2)
_add(
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
    _LLAMA3,
    whole_words=True,
    bos=True,
)
_add("dbrx smaug-bpe chatglm-bpe glm4", _LLAMA3)
_add("qwen2", _QWEN2, nfc=True)
_add("qwen35", _QWEN35, nfc=True)
_add("deepseek-r1-qwen stablelm2 hunyuan megrez solar-open grok-2 kormo f2llmv2", _QWEN2)
_add("tekken", _TEKKEN, whole_words=True, bos=True)
_add("gpt-4o llama4 kanana2 talkie minimax-m2", _GPT4O)
_add("bailingmoe bailingmoe2 llada-moe", _BAILING)
_add("seed-coder", _SEED)
_add("deepseek-v3 hunyuan-dense joyai-llm hy_v4", *_DEEPSEEK3)
_add("deepseek-coder", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")
_add(
    "deepseek-llm",
    r"[\r\n]",
    rf"\s?[{_DEEPSEEK_LETTERS}]+",
    "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    r"\s+$",
    _CJK,
    r"\p{N}+",
)
_add("falcon", r"[\p{P}\$\+<=>\^~\|`]+", _GPT2_SPLIT, "[0-9][0-9][0-9]")
_add("poro-chat bloom gpt3-finnish", _BLOOM)
_add("viking", _BLOOM, r"\p{N}")
# What readers take for a file whose exporter did not know the model.
_add("default", r"[\p{P}\$\+<=>\^~\|]+", _GPT2_SPLIT, r"\p{N}+", "[0-9][0-9][0-9]")


def pre_tokenizer(pre: Pre) -> dict[str, Any]:
    """The ``pre_tokenizer`` of a ``tokenizer.json``."""
    steps: list[dict[str, Any]] = []
    for split in pre.splits:
        if split == DIGITS:
            steps.append({"type": "Digits", "individual_digits": True})
        elif split != GPT2:
            steps.append(
                {
                    "type": "Split",
                    "pattern": {"Regex": split},
                    "behavior": "Isolated",
                    "invert": False,
                }
            )
    steps.append(byte_level(use_regex=GPT2 in pre.splits))
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps}


def byte_level(*, use_regex: bool) -> dict[str, Any]:
    """The step that spells bytes as printable letters."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }
