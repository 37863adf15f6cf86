"""Text that is safe on any terminal: no control characters, no encoding errors.

Names, configs and messages come from files, and a file may try to move the cursor, to reverse the
reading direction, or to print what the terminal's encoding lacks.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

# C0 and C1 controls and DEL move the cursor or start escape sequences; the marks, embeddings,
# overrides and isolates reorder what a person reads; the separators break lines; the rest of the
# list is invisible, so that two names could look alike.
_UNSAFE = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD,
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xE0000, 0xE0080),
)
_ESCAPES = {
    code: f"\\x{code:02x}"
    if code < 0x100
    else f"\\u{code:04x}"
    if code < 0x10000
    else f"\\U{code:08x}"
    for code in _UNSAFE
}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_BLOCK_ESCAPES = {code: text for code, text in _ESCAPES.items() if code not in (0x09, 0x0A)}


def printable(text: str) -> str:
    """One line: every control, bidirectional and invisible character as its escape."""
    return text.translate(_ESCAPES)


def printable_block(text: str) -> str:
    """Several lines: as `printable`, but line feeds and tabs stay."""
    return text.replace("\r\n", "\n").translate(_BLOCK_ESCAPES)


def prepare_streams() -> None:
    """What the encoding of stdout or stderr lacks is printed as an escape, not an exception.

    A stream that the shell closed (``>&-``) is opened on the null device: without it the next file
    to be opened would get its number.
    """
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # a test's or an IDE's stand-in may have none
            reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    # Kept open to the end of the process, as the standard streams are.
    return open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)


def print_error(message: str) -> None:
    """One line on stderr."""
    print(f"dmexp: {printable(message)}", file=sys.stderr)


def print_notice(message: str) -> None:
    """One line on stderr that is no error."""
    print(f"note: {printable(message)}", file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON document on stdout, ASCII only, so that every encoding can carry it.

    JSON has no infinity and no NaN: they become the strings ``"inf"``, ``"-inf"`` and ``"nan"``.
    """
    try:
        text = json.dumps(value, indent=2, allow_nan=False, default=_plain)
    except ValueError:
        text = json.dumps(_finite(value), indent=2, allow_nan=False, default=_plain)
    print(text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(below) for below in value]
    if hasattr(value, "item"):
        value = value.item()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    as_dict = getattr(value, "as_dict", None)
    if as_dict is not None:
        return as_dict()
    item = getattr(value, "item", None)  # NumPy scalars
    return item() if item is not None else str(value)


LONGEST_VALUE = 200
"""Characters of one value that are printed; a tokenizer in the metadata would fill the screen."""


def shortened(value: Any) -> str:
    """One value of a config or of metadata, printable and not too long."""
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= LONGEST_VALUE:
        return printable(text)
    return f"{printable(text[:LONGEST_VALUE])}... ({len(text):,} characters, whole with --json)"


def bytes_text(count: int) -> str:
    """``1.25 MiB (1,310,720 bytes)``; plain bytes below 1 KiB."""
    size, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    if unit == "bytes":
        return f"{count} bytes"
    return f"{size:.4g} {unit} ({count:,} bytes)"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> str:
    """Columns padded to their widest cell; ``right`` has ``>`` for each column of numbers."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    sides = [right[index : index + 1] or "<" for index in range(len(widths))]
    return "\n".join(
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in (head, *rows)
    )
