"""Typed, bounded access to a model config that came from a file.

A config is untrusted: keys are missing, have another type, or hold numbers that no model has.
Every accessor answers with a plain value or raises `Undescribed`, which `families.describe`
turns into a verdict that names the key. Nothing here allocates by a number from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Larger than any dim or count of a real model, small enough that products stay cheap.
LARGEST_COUNT = 2**40

_ABSENT = object()


class Undescribed(Exception):
    """The config cannot be turned into a table of tensors; the text says why."""


class NotKnown(Exception):
    """The family is known, this variant of it is not; the text says which. No check is claimed."""


def shown(value: object) -> str:
    """A value from a file, short enough for a message."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        # Printing a huge integer is quadratic, and refused by Python from 4300 digits on.
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Config:
    """One table of a config, read key by key.

    Parameters
    ----------
    values
        Parsed TOML or JSON.
    where
        Prefix for messages: ``"text_config."`` for a nested table, empty at the top.
    defaults
        Values that the family's own config class gives to keys that are left out. Only nested
        tables have them: there the usual exporter writes what differs from the class, while at
        the top level it writes every size.
    outer
        The table around a nested one.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        where: str = "",
        defaults: Mapping[str, Any] | None = None,
        outer: Config | None = None,
    ) -> None:
        self._values = values
        self._where = where
        self._defaults = defaults or {}
        self.outer = outer

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True

    def has(self, key: str) -> bool:
        return self._raw(key) is not None

    def count(self, *keys: str, default: int | None = None, zero: bool = False) -> int:
        """A positive integer under the first of ``keys``; the others are other spellings of it.

        Two spellings that disagree are refused: one of them is stale, and nothing says which.
        ``zero`` allows 0.
        """
        value, key = self._spelled(keys)
        if value is None:
            if default is None:
                raise Undescribed(f'the config lacks "{self._where}{keys[0]}"')
            return default
        least = 0 if zero else 1
        if isinstance(value, bool) or not isinstance(value, int):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected an integer'
            )
        if not least <= value <= LARGEST_COUNT:
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, '
                f"expected {least} to {LARGEST_COUNT}"
            )
        return value

    def flag(self, *keys: str, default: bool) -> bool:
        value, key = self._spelled(keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected true or false'
            )
        return value

    def number(self, key: str, default: float) -> float:
        value = self._raw(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected a number'
            )
        if not abs(value) <= LARGEST_COUNT:
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, '
                f"expected at most {LARGEST_COUNT}"
            )
        return float(value)

    def text(self, key: str) -> str | None:
        value = self._raw(key)
        if value is not None and not isinstance(value, str):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected a string'
            )
        return value

    def is_text(self, key: str, text: str) -> bool:
        """Whether ``key`` holds just that string; any other type is the caller's to refuse."""
        return bool(self._raw(key) == text)

    def replaced(self, key: str, value: object) -> Config:
        """The same table with one key set."""
        return Config({**self._values, key: value}, self._where, self._defaults, self.outer)

    def texts(self, key: str) -> list[str] | None:
        """A list of strings, or None where the key is absent."""
        value = self._raw(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected a list of strings'
            )
        return value

    def counts(self, key: str) -> list[int] | None:
        """A list of integers of at least 0, or None where the key is absent."""
        value = self._raw(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= LARGEST_COUNT
            for item in value
        ):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, '
                "expected a list of integers of at least 0"
            )
        return value

    def section(self, key: str, defaults: Mapping[str, Any] | None = None) -> Config | None:
        """A nested table, or None where the key is absent."""
        value = self._raw(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise Undescribed(
                f'"{self._where}{key}" is {shown(value)} in the config, expected a table'
            )
        return Config(value, f"{self._where}{key}.", defaults)

    def nested(self, key: str, defaults: Mapping[str, Any]) -> Config:
        """The table of a language model inside the config of a larger model.

        Whether the head is tied is said inside, outside, or in both places; the two must agree.
        """
        inner = self.section(key, defaults)
        if inner is None:
            raise Undescribed(f'the config lacks "{self._where}{key}"')
        inner.outer = self
        said = "tie_word_embeddings"
        if said in self._values and self._values[said] is not None:
            outside = self.flag(said, default=False)
            if inner._values.get(said, outside) != outside:
                raise Undescribed(
                    f'the config says "{said}" is {shown(self._values[said])} and '
                    f'"{key}.{said}" is {shown(inner._values[said])}'
                )
            inner._values = {**inner._values, said: outside}
        return inner

    def fail(self, key: str, expected: str) -> Undescribed:
        """An `Undescribed` that says what ``key`` holds and what was expected. Raise it."""
        return Undescribed(
            f'"{self._where}{key}" is {shown(self._raw(key))} in the config, expected {expected}'
        )

    def _raw(self, key: str) -> Any:
        value = self._values.get(key, _ABSENT)
        return self._defaults.get(key) if value is _ABSENT else value

    def _spelled(self, keys: tuple[str, ...]) -> tuple[Any, str]:
        given = [(value, key) for key in keys if (value := self._values.get(key, None)) is not None]
        for value, key in given[1:]:
            if value != given[0][0]:
                raise Undescribed(
                    f'the config says "{self._where}{given[0][1]}" is {shown(given[0][0])} and '
                    f'"{self._where}{key}" is {shown(value)}, which are two names of one number'
                )
        if given:
            return given[0]
        for key in keys:
            if (value := self._defaults.get(key)) is not None:
                return value, key
        return None, keys[0]
