"""A config named by the user or found beside the weights, as TOML text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tomli

from dmexp.errors import FormatError

LARGEST_CONFIG_BYTES = 32 * 1024 * 1024


def read_config(path: str | os.PathLike[str]) -> str:
    """Read a config file of either kind.

    Returns
    -------
    str
        TOML as it stands in the file, or what a ``config.json`` becomes: key by key, nulls left
        out. The content decides which of the two it is.

    Raises
    ------
    FormatError
        Empty, larger than 32 MiB, not UTF-8, or neither TOML nor JSON; with line and column.
    OSError
        The file cannot be read.
    """
    text = _read_text(path)
    if text.lstrip().startswith("{"):
        from .hf_config import load_config

        return load_config(path)
    parse_toml(text, path)
    return text


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and parse a TOML file; errors as in `read_config`."""
    return parse_toml(_read_text(path), path)


def parse_toml(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Parse TOML from a file, with every failure a `FormatError` that names it."""
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        line, column = getattr(error, "lineno", None), getattr(error, "colno", None)
        raise FormatError(
            f"the config is not TOML: {error}. Expected TOML or a config.json.",
            path=os.fspath(path),
            line=line,
            column=column,
        ) from None
    except (RecursionError, ValueError) as error:
        # Nesting without end, and integers too long for Python to convert.
        raise FormatError(
            f"the config is not TOML that any model needs: {error}.", path=os.fspath(path)
        ) from None


def _read_text(path: str | os.PathLike[str]) -> str:
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_CONFIG_BYTES + 1)
    if not data.strip():
        raise FormatError("the config is empty.", path=os.fspath(path))
    if len(data) > LARGEST_CONFIG_BYTES:
        raise FormatError(
            f"the config has more than {LARGEST_CONFIG_BYTES} bytes, which none needs.",
            path=os.fspath(path),
            limit=LARGEST_CONFIG_BYTES,
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the config is not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start}.",
            path=os.fspath(path),
            offset=error.start,
        ) from None
