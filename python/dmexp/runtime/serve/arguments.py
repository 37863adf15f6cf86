"""Reading the body of a request: every argument typed, bounded, and either honoured or refused."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from .errors import RequestError

Number = TypeVar("Number", int, float)

IGNORED = frozenset(
    {"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "store", "user"}
)
"""Arguments that say nothing about the answer."""


class Body:
    """The JSON object of a request. Messages name the argument; it is the error's ``param``."""

    def __init__(self, data: bytes) -> None:
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the body is not JSON: {error}", code="invalid_json") from None
        if not isinstance(values, dict):
            raise RequestError(400, f"the body is {_kind(values)}, expected a JSON object.")
        self._values: dict[str, Any] = values

    def get(self, name: str) -> Any:
        """The value; None where it is null or absent."""
        return self._values.get(name)

    def require(self, name: str) -> Any:
        value = self.get(name)
        if value is None:
            raise RequestError(
                400, f"'{name}' is missing.", param=name, code="missing_required_parameter"
            )
        return value

    def allow(self, known: Collection[str], neutral: Mapping[str, Collection[Any]]) -> None:
        """Refuse arguments that are not ``known``, unless their value asks for nothing.

        Silently ignoring one would answer another question than the one that was asked.
        """
        for name, value in self._values.items():
            if name in known or name in IGNORED or value is None:
                continue
            if name not in neutral:
                raise RequestError(
                    400, f"unrecognized argument '{name}'.", param=name, code="unknown_parameter"
                )
            if not any(
                value == allowed and type(value) is type(allowed) for allowed in neutral[name]
            ):
                raise RequestError(
                    400,
                    f"'{name}' is not supported by this server: leave it out.",
                    param=name,
                    code="unsupported_parameter",
                )

    def integer(self, name: str, least: int, most: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise mistyped(name, value, "an integer")
        return self._in_range(name, value, least, most)

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mistyped(name, value, "a number")
        # Python's JSON reader knows NaN and the infinities; they fail here.
        return self._in_range(name, value, least, most)

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise mistyped(name, value, "true or false")
        return value

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise mistyped(name, value, "an object")
        return value

    def strings(self, name: str, *, most: int, longest: int) -> tuple[str, ...]:
        """One string or a list of them."""
        value = self.get(name)
        items = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise mistyped(name, value, "a string or a list of strings")
        if len(items) > most or any(not 0 < len(item) <= longest for item in items):
            raise RequestError(
                400,
                f"'{name}' takes {most} strings at most, each of 1 to {longest} characters.",
                param=name,
                code="invalid_value",
            )
        return tuple(items)

    def _in_range(self, name: str, value: Number, least: float, most: float) -> Number:
        if not least <= value <= most:
            raise RequestError(
                400,
                f"'{name}' is {value}, expected {_bound(least)} to {_bound(most)}.",
                param=name,
                code="invalid_value",
            )
        return value


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) and abs(value) < 1e6 else str(value)


def mistyped(name: str, value: Any, expected: str) -> RequestError:
    """The error for an argument of another type."""
    return RequestError(
        400,
        f"'{name}' is {_kind(value)}, expected {expected}.",
        param=name,
        code="invalid_type",
    )


def _kind(value: Any) -> str:
    return {
        type(None): "null",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }[type(value)]
