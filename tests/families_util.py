"""Configs and tensor lists of every fixture that the family tests go through."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"

Dims = dict[str, tuple[int, ...]]


def header_of(path: Path) -> dict[str, Any]:
    """The JSON header of a safetensors file, read with nothing but the standard library."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return header


def fixture(name: str) -> tuple[dict[str, Any], Dims]:
    """Config and dims of one fixture: a checkpoint in small, or a list of a published one."""
    listed = CORPUS / "hf" / "families" / f"{name}.json"
    if listed.exists():
        data = json.loads(listed.read_text("utf-8"))
        return data["config"], {key: tuple(dims) for key, dims in data["tensors"].items()}
    folder = CORPUS / "gguf" / name
    config = json.loads((folder / "config.json").read_text("utf-8"))
    header = header_of(folder / "model.safetensors")
    return config, {key: tuple(entry["shape"]) for key, entry in header.items()}


CHECKPOINTS = sorted(path.parent.name for path in CORPUS.glob("gguf/*/model.safetensors"))
LISTS = sorted(path.stem for path in CORPUS.glob("hf/families/*.json"))
FIXTURES = CHECKPOINTS + LISTS
