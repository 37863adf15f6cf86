"""The tokenizer of a Hugging Face directory, in the same form as one from a GGUF file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._vocab import compact

SIZE_LIMIT_BYTES = 64 << 20
"""Larger files are no tokenizer; the largest published ones are around 35 MB."""

_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "mask")


def tokenizer_from_directory(
    directory: str | Path,
) -> tuple[dict[str, Any] | None, list[str]]:
    """Take over ``tokenizer.json`` and what stands beside it.

    Reads ``tokenizer.json``; special tokens and the chat template from ``tokenizer_config.json``,
    ``special_tokens_map.json`` and ``chat_template.jinja``; further stop tokens from
    ``generation_config.json``.

    Parameters
    ----------
    directory
        A model directory.

    Returns
    -------
    tuple
        What goes into the header's metadata as ``tokenizer``, or None where there is no usable
        ``tokenizer.json``; and sentences on what was left out and why.
    """
    base = Path(directory)
    notices: list[str] = []
    tokenizer = _read(base / "tokenizer.json", notices)
    if tokenizer is None:
        return None, notices
    if not isinstance(tokenizer, dict) or not isinstance(tokenizer.get("model"), dict):
        notices.append("tokenizer.json has no model; the tokenizer is left out")
        return None, notices
    config = _table(base / "tokenizer_config.json", notices)
    found: dict[str, Any] = {"json": compact(tokenizer), "kind": "tokenizer.json"}
    found |= _templates(base, config, notices)
    names = {**_table(base / "special_tokens_map.json", notices), **config}
    ids = _ids(tokenizer)
    for name in _SPECIAL:
        text = _content(names.get(f"{name}_token"))
        if text is not None:
            found[f"{name}_token"] = text
            if text in ids:
                found[f"{name}_token_id"] = ids[text]
    for key in ("add_bos_token", "add_eos_token"):
        if isinstance(config.get(key), bool):
            found[key] = config[key]
    stops = _stops(_table(base / "generation_config.json", notices), found.get("eos_token_id"))
    if stops:
        found["stop_token_ids"] = stops
    return found, notices


def _read(path: Path, notices: list[str]) -> Any:
    if not path.is_file():
        return None
    size = path.stat().st_size
    if size > SIZE_LIMIT_BYTES:
        notices.append(f"{path.name} is left out: {size} bytes are more than any tokenizer has")
        return None
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        notices.append(f"{path.name} is left out: it is not JSON ({error})")
        return None


def _table(path: Path, notices: list[str]) -> dict[str, Any]:
    value = _read(path, notices)
    return value if isinstance(value, dict) else {}


def _templates(base: Path, config: Mapping[str, Any], notices: list[str]) -> dict[str, Any]:
    own = base / "chat_template.jinja"
    if own.is_file() and own.stat().st_size <= SIZE_LIMIT_BYTES:
        try:
            return {"chat_template": own.read_text(encoding="utf-8")}
        except UnicodeDecodeError:
            notices.append(f"{own.name} is left out: it is not UTF-8")
    return templates(config.get("chat_template"))


def templates(value: Any) -> dict[str, Any]:
    """One chat template, or a list of named ones of which ``default`` is the usual one."""
    if isinstance(value, str):
        return {"chat_template": value}
    named = {
        item["name"]: item["template"]
        for item in (value if isinstance(value, list) else [])
        if isinstance(item, dict)
        and isinstance(item.get("name"), str)
        and isinstance(item.get("template"), str)
    }
    found: dict[str, Any] = {}
    if "default" in named:
        found["chat_template"] = named.pop("default")
    if named:
        found["chat_templates"] = named
    return found


def _content(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _ids(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Text to id, of the model's vocabulary where it is a table and of the added tokens."""
    found: dict[str, int] = {}
    vocab = tokenizer["model"].get("vocab")
    if isinstance(vocab, dict):
        found.update((k, v) for k, v in vocab.items() if isinstance(v, int))
    elif isinstance(vocab, list):
        found.update(
            (entry[0], index)
            for index, entry in enumerate(vocab)
            if isinstance(entry, list) and entry and isinstance(entry[0], str)
        )
    added = tokenizer.get("added_tokens")
    for item in added if isinstance(added, list) else []:
        if isinstance(item, dict) and isinstance(item.get("id"), int):
            content = item.get("content")
            if isinstance(content, str):
                found[content] = item["id"]
    return found


def _stops(generation: Mapping[str, Any], eos: Any) -> list[int]:
    value = generation.get("eos_token_id")
    listed = value if isinstance(value, list) else [value]
    found = [eos, *listed]
    return sorted({item for item in found if isinstance(item, int) and not isinstance(item, bool)})
