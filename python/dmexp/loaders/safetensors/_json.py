"""JSON from a file nobody vouches for: one strict grammar, and every failure is a `FormatError`.

The standard parser does the scanning. What it tolerates is closed here: repeated keys, ``NaN`` and
``Infinity``, numbers that would take minutes to convert, nesting that would exhaust the stack,
and escapes that decode to no character.
"""

from __future__ import annotations

import json
from typing import Any

from dmexp.errors import FormatError

BEYOND_64_BITS = 1 << 64
"""Stands for every integer that no size can have."""

_LONGEST_U64 = len(str(BEYOND_64_BITS - 1))


def parse_object(data: bytes, *, path: str, what: str = "header") -> dict[str, Any]:
    """Parse ``data`` as one JSON object.

    Parameters
    ----------
    data
        UTF-8 bytes of the whole document. White space may surround the object.
    path, what
        The file and the part of it that ``data`` is, for messages.

    Returns
    -------
    dict
        Keys in file order. An integer of 2⁶⁴ or more is `BEYOND_64_BITS`, and a negative number
        is a float, so that a reader of sizes has two checks to make.

    Raises
    ------
    FormatError
        For anything that is not exactly one JSON object. Facts: ``line`` and ``column`` or
        ``offset`` (bytes) where known, ``key`` where a key is repeated.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the {what} is not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start} of it. "
            "The file is damaged.",
            path=path,
            offset=error.start,
        ) from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_int=_unsigned,
            parse_constant=_refuse_constant,
        )
    except FormatError as error:
        error.message = f"the {what} is not acceptable JSON: {error.message}"
        raise error.with_path(path) from None
    except json.JSONDecodeError as error:
        raise FormatError(
            f"the {what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            "Expected one JSON object and nothing after it.",
            path=path,
            line=error.lineno,
            column=error.colno,
        ) from None
    except RecursionError:
        raise FormatError(
            f"the {what} is JSON nested deeper than any real file needs. Expected a few levels.",
            path=path,
        ) from None
    if not isinstance(value, dict):
        raise FormatError(
            f"the {what} is JSON of kind {kind_of(value)}. Expected an object.", path=path
        )
    return value


def kind_of(value: object) -> str:
    """The JSON name of a parsed value's kind, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((dict, "object"), (list, "array"), (str, "string")):
        if isinstance(value, kind):
            return name
    return "number"


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise FormatError(
                    f"name {key!r} appears twice in one object. Two readers would take two "
                    "different values: write the file again with unique names.",
                    key=key,
                )
            seen.add(key)
    for key in result:
        if not key.isascii():
            try:
                key.encode("utf-8")
            except UnicodeEncodeError:
                raise FormatError(
                    f"name {key!r} holds half of a surrogate pair, which is no character.",
                    key=key,
                ) from None
    return result


def _unsigned(digits: str) -> int | float:
    if digits.startswith("-"):
        return float(digits)
    # Converting a million digits takes minutes, and no size has more than twenty.
    return int(digits) if len(digits) <= _LONGEST_U64 else BEYOND_64_BITS


def _refuse_constant(word: str) -> Any:
    raise FormatError(f"{word} is no JSON value.", key=word)
