"""A config file as TOML text: ``config.json`` key by key, or TOML as it is.

What TOML cannot say is left out: a null, wherever it is; a list that holds one, because dropping
an item would shift the others; an integer beyond 64 bits. The last two are named in a notice, and
refused in a key that dmexp reads. ``Infinity`` and ``NaN`` exist in TOML and stay, unless a key
that dmexp reads holds one. Nothing is replaced by a number that the file does not have.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli
import tomli_w

from dmexp.errors import FormatError, SizeOverflowError

from ._bounded import read_at_most
from ._nulls import METADATA_KEY, null_places
from .hf_used_keys import USED_KEYS

LARGEST_CONFIG_BYTES = 32 * 1024 * 1024
DEEPEST_NESTING = 64

_USED_TABLES = frozenset({"rope_parameters", "rope_scaling"})
_NESTED_MODELS = frozenset({"text_config"})

_I64 = range(-(2**63), 2**63)
_LONGEST_I64 = 20


@dataclass(slots=True)
class ConfigFile:
    """A config that was read."""

    path: Path
    text: str
    """TOML, as a header stores it."""
    values: dict[str, Any]
    """The same, parsed."""
    parsed: dict[str, Any] = field(default_factory=dict)
    """What the file itself says, nulls included."""
    notices: list[str] = field(default_factory=list)
    """Sentences about keys that could not be carried over."""

    @property
    def metadata(self) -> dict[str, Any]:
        """For the header, beside the text: which keys hold a null."""
        places = null_places(self.parsed)
        return {METADATA_KEY: places} if places else {}


class _Huge:
    """An integer that does not fit 64 bits; its digits are not converted."""

    def __init__(self, digits: str) -> None:
        self.shown = digits if len(digits) <= 40 else f"{digits[:20]}… ({len(digits)} digits)"


def load_config(path: str | os.PathLike[str]) -> str:
    """Read a ``config.json`` or a TOML file as TOML text. Content decides, not the suffix.

    Parameters
    ----------
    path
        The file; from 1 byte to 32 MiB.

    Raises
    ------
    FormatError
        Not JSON and not TOML, not an object, a key twice, a wrong length, or ``Infinity``, ``NaN``
        or a null inside a list under a key that dmexp reads.
    SizeOverflowError
        An integer beyond 64 bits under such a key, or a number beyond f64 anywhere.
    OSError
        The file cannot be read.
    """
    return read_config(path).text


def read_config(path: str | os.PathLike[str]) -> ConfigFile:
    """As `load_config`, with the parsed values and the notices."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = read_at_most(file, LARGEST_CONFIG_BYTES)
    if not 1 <= len(data) <= LARGEST_CONFIG_BYTES:
        found = "no bytes" if not data else f"more than {LARGEST_CONFIG_BYTES} bytes"
        raise FormatError(
            f"the config has {found}, expected 1 to {LARGEST_CONFIG_BYTES}.", path=name
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"the config is not UTF-8: byte 0x{data[error.start]:02x} at byte {error.start}.",
            path=name,
            offset=error.start,
        ) from None
    if text.lstrip().startswith("{"):
        return _from_json(text, name)
    _require_no_array(text, name)
    return _from_toml(text, name)


def _require_no_array(text: str, name: str) -> None:
    """Refuse what TOML would take for a table without keys, and so for no config at all."""
    found = "blank" if not text.strip() else None
    if text.lstrip().startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            found = "JSON of kind array"
    if found is not None:
        raise FormatError(f"the config is {found}, expected a JSON object or TOML.", path=name)


def _from_toml(text: str, name: str) -> ConfigFile:
    try:
        values = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        wanted = "JSON (it does not begin with {)" if name.endswith(".json") else "TOML"
        raise FormatError(
            f"the config is not {wanted}: {error}.",
            path=name,
            line=getattr(error, "lineno", None),
            column=getattr(error, "colno", None),
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the config is not TOML: {error}.", path=name) from None
    return ConfigFile(Path(name), text.replace("\r\n", "\n"), values, values)


def _from_json(text: str, name: str) -> ConfigFile:
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=float,
        )
    except FormatError as error:
        raise _with_line(error, text).with_path(name) from None
    except SizeOverflowError as error:
        raise error.with_path(name) from None
    except json.JSONDecodeError as error:
        raise FormatError(
            f"the config is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            path=name,
            line=error.lineno,
            column=error.colno,
        ) from None
    except RecursionError:
        raise _too_deep(name) from None
    try:
        values, notices = _representable(parsed, text)
        out = tomli_w.dumps(values)
        out.encode("utf-8")
    except (FormatError, SizeOverflowError) as error:
        raise error.with_path(name) from None
    except UnicodeEncodeError:
        raise FormatError(
            "a string of the config holds half of a surrogate pair, which is no character.",
            path=name,
        ) from None
    return ConfigFile(Path(name), out, values, parsed, notices)


def _too_deep(name: str | None) -> FormatError:
    return FormatError(
        f"the config is nested deeper than {DEEPEST_NESTING} levels, which no real one is.",
        path=name,
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise FormatError(
                f'the config has "{key}" twice in one object. Two readers would take two values: '
                "remove one of them.",
                key=key,
            )
        result[key] = value
    return result


def _integer(digits: str) -> int | _Huge:
    # Converting a million digits takes minutes.
    if len(digits) > _LONGEST_I64 or int(digits) not in _I64:
        return _Huge(digits)
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise SizeOverflowError(
            f"the config has the number {digits[:40]}, which is beyond a 64-bit float."
        )
    return value


def _with_line(error: FormatError, text: str) -> FormatError:
    """Name the line of the second occurrence of a repeated key, where there are just two."""
    places = list(re.finditer(re.escape(json.dumps(error.facts.get("key"))) + r"\s*:", text))
    if len(places) == 2:
        error.facts["line"] = text.count("\n", 0, places[1].start()) + 1
    return error


def _representable(parsed: dict[str, Any], text: str) -> tuple[dict[str, Any], list[str]]:
    """What TOML can say, and a sentence for each key that it cannot."""
    notices: list[str] = []

    def table(source: dict[str, Any], where: tuple[str, ...]) -> dict[str, Any]:
        if len(where) > DEEPEST_NESTING:
            raise _too_deep(None)
        kept: dict[str, Any] = {}
        for key, value in source.items():
            if value is None:
                continue
            place = (*where, key)
            if isinstance(value, dict):
                kept[key] = table(value, place)
                continue
            fault = _fault(value, len(place))
            if fault is not None and _is_used(place):
                raise fault.error(".".join(place), _line_of(key, text))
            if fault is not None and fault.unsayable:
                notices.append(
                    f'"{".".join(place)}" of the config is left out: it holds {fault.what}, '
                    "which TOML cannot say."
                )
                continue
            kept[key] = value
        return kept

    return table(parsed, ()), notices


@dataclass(slots=True)
class _Fault:
    what: str
    kind: type[FormatError] | type[SizeOverflowError]
    unsayable: bool

    def error(self, key: str, line: int | None) -> FormatError | SizeOverflowError:
        place = "" if line is None else f" (line {line})"
        return self.kind(
            f'"{key}"{place} of the config holds {self.what}. dmexp reads this key and takes no '
            "other value for it: correct the config.",
            key=key,
            line=line,
        )


def _fault(value: Any, depth: int) -> _Fault | None:
    """The worst that a value holds, or None. Lists are walked, and tables inside lists."""
    worst: _Fault | None = None
    for item, level in _leaves(value, depth):
        if level > DEEPEST_NESTING:
            raise _too_deep(None)
        if isinstance(item, _Huge):
            return _Fault(
                f"the integer {item.shown}, beyond 64 bits", SizeOverflowError, unsayable=True
            )
        if item is None:
            return _Fault("a null inside a list", FormatError, unsayable=True)
        if isinstance(item, float) and not math.isfinite(item):
            worst = _Fault(_spelt(item), FormatError, unsayable=False)
    return worst


def _leaves(value: Any, depth: int) -> Iterator[tuple[Any, int]]:
    pending: list[tuple[Any, int]] = [(value, depth)]
    while pending:
        item, level = pending.pop()
        if isinstance(item, list):
            pending += [(inner, level + 1) for inner in item]
        elif isinstance(item, dict):
            # A null in a table inside a list cannot be told from an absent key, as elsewhere.
            for inner in [key for key, held in item.items() if held is None]:
                del item[inner]
            pending += [(inner, level + 1) for inner in item.values()]
        yield item, level


def _spelt(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_used(place: tuple[str, ...]) -> bool:
    inner = place[1:] if place[0] in _NESTED_MODELS else place
    return bool(inner) and (inner[0] in _USED_TABLES or inner[0] in USED_KEYS)


def _line_of(key: str, text: str) -> int | None:
    """The line of a key that occurs once; None where it could be any of several."""
    places = [m.start() for m in re.finditer(re.escape(json.dumps(key)) + r"\s*:", text)]
    return text.count("\n", 0, places[0]) + 1 if len(places) == 1 else None
