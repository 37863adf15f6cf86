"""Argument types and options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ..errors import UnsupportedDtypeError


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``: the same option, with the same promise, everywhere."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document on stdout, errors too (exit status 1)",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """``--quiet``."""
    parser.add_argument(
        "--quiet", "-q", action="store_true", help="print nothing but errors: no report, no notes"
    )


def dtype(text: str) -> str:
    """A storage dtype in any accepted spelling, as its canonical name."""
    from .._dtypes import storage_dtype

    try:
        return storage_dtype(text)
    except UnsupportedDtypeError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def count(text: str) -> int:
    """An integer that fits the header: 0 to 2^63 - 1."""
    return _integer(text, 0)


def positive(text: str) -> int:
    """An integer of at least 1."""
    return _integer(text, 1)


def _integer(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not least <= value < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from {least} to 2^63 - 1")
    return value


def pair(text: str) -> tuple[str, str]:
    """``KEY=VALUE``; the value may be empty and may hold further equals signs."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def unique_pairs(
    parser: argparse.ArgumentParser, option: str, pairs: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """The pairs as a dict; a key given twice is a usage error, since one of the two would be lost."""
    result: dict[str, str] = {}
    for key, value in pairs:
        if key in result:
            parser.error(f"argument {option}: {key!r} is given twice")
        result[key] = value
    return result
