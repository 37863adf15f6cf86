"""Typed reading of a model's config, which came from a file and may hold anything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import FormatError, LimitExceededError, UnsupportedError

LARGEST_COUNT = 1 << 31
"""No count in a real config is larger. It keeps products of two of them inside 64 bits."""


class Fields:
    """A table of the config and the way to it, for messages.

    A key that is absent takes ``default``; without one it is a `FormatError`. A key that is there
    with another type is a `FormatError` too: nothing is converted on a guess.
    """

    __slots__ = ("_prefix", "_table")

    def __init__(self, table: Mapping[str, Any], prefix: str = "") -> None:
        self._table = table
        self._prefix = prefix

    def __contains__(self, key: str) -> bool:
        return self._table.get(key) is not None

    def raw(self, key: str) -> Any:
        """The value as it is, or None."""
        return self._table.get(key)

    def name(self, key: str) -> str:
        """The key as a message names it."""
        return f"{self._prefix}{key}"

    def table(self, key: str) -> Fields | None:
        """A nested table, or None where there is none."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._mistyped(key, value, "a table")
        return Fields(value, f"{self._prefix}{key}.")

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer of at least ``least``."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._mistyped(key, value, "an integer")
        if value < least:
            raise FormatError(
                f"config key '{self.name(key)}' is {value}, expected {least} or more.",
                key=self.name(key),
            )
        if value > LARGEST_COUNT:
            raise LimitExceededError(
                f"config key '{self.name(key)}' is {value}; no real model needs more than "
                f"{LARGEST_COUNT}.",
                limit=LARGEST_COUNT,
                found=value,
            )
        return value

    def number(self, key: str, default: float | None = None, *, positive: bool = True) -> float:
        """A finite number, greater than zero unless ``positive`` is false."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._mistyped(key, value, "a number")
        if not math.isfinite(value) or (positive and value <= 0):
            raise FormatError(
                f"config key '{self.name(key)}' is {value}, expected a finite number"
                f"{' above zero' if positive else ''}.",
                key=self.name(key),
            )
        return float(value)

    def optional_number(self, key: str) -> float | None:
        """A finite number above zero, or None where the key is absent."""
        return self.number(key) if key in self else None

    def flag(self, key: str, default: bool) -> bool:
        """A boolean."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            self._mistyped(key, value, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            self._mistyped(key, value, "a string")
        return value

    def texts(self, key: str) -> list[str] | None:
        """A list of strings, or None where the key is absent."""
        value = self._table.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self._mistyped(key, value, "a list of strings")
        return list(value)

    def ids(self, key: str) -> tuple[int, ...]:
        """One token id or a list of them; empty where the key is absent."""
        value = self._table.get(key)
        items = [] if value is None else value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int):
                self._mistyped(key, value, "a token id or a list of token ids")
        # Some configs say -1 for "there is none".
        return tuple(item for item in items if item >= 0)

    def refuse(self, key: str, why: str, expected: Any = None) -> NoReturn:
        """Raise `UnsupportedError` naming the key, its value and what would be honoured."""
        value = self._table.get(key)
        raise UnsupportedError(
            f"config key '{self.name(key)}' is {value!r}: {why}.",
            key=self.name(key),
            found=value,
            expected=expected,
        )

    def _value(self, key: str, default: Any) -> Any:
        value = self._table.get(key)
        if value is None:
            value = default
        if value is None:
            raise FormatError(
                f"config key '{self.name(key)}' is missing; the runtime does not guess it.",
                key=self.name(key),
            )
        return value

    def _mistyped(self, key: str, value: Any, expected: str) -> NoReturn:
        raise FormatError(
            f"config key '{self.name(key)}' is {value!r}, expected {expected}.",
            key=self.name(key),
        )
