"""A header in any words that TOML allows: slower than the native scan, but it knows where a fault is."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from . import _native
from ._dtypes import STORAGE_DTYPES, WIDTH_BYTES
from .errors import FormatError, SizeOverflowError, UnsupportedDtypeError, UnsupportedError

VERSION = 1

_I64_MAX = 2**63 - 1
_SHOWN_LETTERS = 200

# The parser's memory grows by more than a hundred bytes with each digit of a number.
_LONG_NUMBER = re.compile(
    r"[=\[,\n][ \t]*+[+-]?(?:0[xob])?(?:[0-9a-fA-F_]{5000}|[0-9_]++\.[0-9_]{5000})"
)
_TABLE = re.compile(r"\n[ \t]*\[")
_MOST_TABLES = 100_000

_CRC32 = re.compile(r"[0-9a-f]{8}")

# Key, types accepted, in the order in which a header has them.
_REQUIRED: tuple[tuple[str, str], ...] = (
    ("format", "integer"),
    ("dtype", "string"),
    ("source", "string"),
    ("step", "integer"),
    ("num_params", "integer"),
    ("num_tensors", "integer"),
    ("flushed", "integer"),
    ("max_abs", "float"),
    ("min_nonzero_abs", "float"),
    ("config", "string"),
    ("tensors", "array of tables"),
)
_OPTIONAL = {"subnormal": "integer", "writer": "string", "metadata": "table"}


class Parsed(NamedTuple):
    """A header taken apart: its known keys, its tensor table, and what this version ignores."""

    fields: dict[str, Any]
    table: _native.HeaderIndex
    extra: dict[str, Any]
    tensor_extra: dict[str, dict[str, Any]]


def parse_header(raw: bytes, payload_bytes: int) -> Parsed:
    """Read a header in any words that TOML allows.

    Raises
    ------
    FormatError, UnsupportedError, UnsupportedDtypeError, SizeOverflowError, ShapeMismatchError
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise FormatError(
            f"the header is not UTF-8: byte {cause.start} of it is 0x{raw[cause.start]:02x}. "
            "The file is damaged: get it again.",
            offset=cause.start,
        ) from cause
    table = _parse(text)
    for key, kind in _REQUIRED:
        if key not in table:
            raise FormatError(
                f"the header has no key '{key}'. Every key of the format is required; a key "
                "below the first [[tensors]] belongs to that tensor. Export the model again.",
                key=key,
            )
        _check_type(key, table[key], kind)
    for key, kind in _OPTIONAL.items():
        if key in table:
            _check_type(key, table[key], kind)
    if table["format"] == VERSION and table["dtype"] not in STORAGE_DTYPES:
        raise UnsupportedDtypeError(
            f"the header's dtype is {_shown(table['dtype'])}. Known: 'f32', 'f16', 'bf16' "
            "(lower case). Export the model again.",
            dtype=table["dtype"],
            known=list(STORAGE_DTYPES),
        )
    check_version(table["format"])
    known = {key for key, _ in _REQUIRED} | set(_OPTIONAL)
    extra = {key: value for key, value in table.items() if key not in known}
    tensors = [_tensor(nth, entry) for nth, entry in enumerate(table["tensors"])]
    index = _native.HeaderIndex(WIDTH_BYTES[table["dtype"]], payload_bytes, tensors)
    tensor_extra = {}
    for entry in table["tensors"]:
        more = {k: v for k, v in entry.items() if k not in ("name", "dims", "overflowed", "crc32")}
        if more:
            tensor_extra[entry["name"]] = more
    return Parsed(table, index, extra, tensor_extra)


def parse_toml(text: str) -> dict[str, Any]:
    """Any TOML text of a file: a header, the metadata or the config in it.

    Raises
    ------
    ValueError, RecursionError
        It is not TOML, nests too deeply, or holds a number beyond 64 bits.
    """
    table = _native.parse_toml(text)
    if table is None:
        table = _loads(text)
        _check_numbers("", table)
    return table


def _loads(text: str) -> dict[str, Any]:
    """Parse, unless the result would take a hundred times the memory of the text."""
    # Seldom needed, and most of what opening a file would load.
    import tomli

    if _LONG_NUMBER.search(text):
        raise ValueError("it holds a number of thousands of digits")
    tables = sum(1 for _ in _TABLE.finditer(text)) - text.count("\n[[tensors]]")
    if tables > _MOST_TABLES:
        raise ValueError(f"it holds {tables} tables, of which no header needs {_MOST_TABLES}")
    return tomli.loads(text)


def _parse(text: str) -> dict[str, Any]:
    try:
        table = _loads(text)
        for key, value in table.items():
            entries = value if key == "tensors" and isinstance(value, list) else [value]
            for entry in entries:
                # Dims have an error of their own.
                dims = key == "tensors" and isinstance(entry, dict)
                _check_numbers(key, {**entry, "dims": None} if dims else entry)
        return table
    except (ValueError, RecursionError) as cause:
        raise FormatError(
            f"the header is not TOML: {toml_fault(cause, text)}. "
            "The file is damaged or was edited by hand: get it again.",
            line=getattr(cause, "lineno", None),
            column=getattr(cause, "colno", None),
        ) from cause


def toml_fault(cause: Exception, text: str) -> str:
    """What is wrong with ``text`` and where, in words."""
    if isinstance(cause, RecursionError):
        return "its values are nested too deeply"
    line = getattr(cause, "lineno", None)
    if line is None:
        return str(cause)
    lines = text.split("\n")
    found = lines[line - 1].strip()[:60] if line <= len(lines) else ""
    return f"line {line}, column {getattr(cause, 'colno', 0)} ({found!r}): {getattr(cause, 'msg', cause)}"


def _check_type(key: str, value: object, kind: str, tensor: str | None = None) -> None:
    if kind == "string":
        good = isinstance(value, str)
    elif kind == "integer":
        good = isinstance(value, int) and not isinstance(value, bool)
    elif kind == "float":
        good = isinstance(value, float) or (
            isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _I64_MAX
        )
    elif kind == "table":
        good = isinstance(value, dict)
    else:
        good = isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    if good and kind == "integer":
        good = 0 <= value <= _I64_MAX  # type: ignore[operator]
        kind = f"integer from 0 to {_I64_MAX}"
    if not good:
        where = f"tensor {_shown(tensor)}: " if tensor is not None else "the header's "
        raise FormatError(
            f"{where}'{key}' is {_shown(value)}, expected {_article(kind)}. "
            "Export the model again.",
            key=key,
            tensor=tensor,
        )


def _check_numbers(key: str, value: object) -> None:
    """Refuse integers that TOML cannot carry; parsers differ in what they make of them."""
    if isinstance(value, dict):
        for name, below in value.items():
            _check_numbers(name, below)
    elif isinstance(value, list):
        for below in value:
            _check_numbers(key, below)
    elif isinstance(value, int) and not -_I64_MAX - 1 <= value <= _I64_MAX:
        raise ValueError(f"{_shown(key)} is {_shown(value)}, beyond TOML's 64 bits")


def _shown(value: object) -> str:
    """A value from a file in a message: short, whatever it is."""
    if isinstance(value, str):
        # Nobody needs more of a long name, and making the repr of a huge one takes its time.
        value = value[:_SHOWN_LETTERS] + "…" * (len(value) > _SHOWN_LETTERS)
        return repr(value)
    try:
        text = str(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}…"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _tensor(nth: int, entry: dict[str, Any]) -> tuple[str, list[int], int | None]:
    for key in ("name", "dims", "overflowed"):
        if key not in entry:
            raise FormatError(
                f"tensor {_shown(entry.get('name', nth))} has no key '{key}'. Export the model again.",
                key=key,
                tensor=entry.get("name"),
            )
    name, dims, crc32 = entry["name"], entry["dims"], entry.get("crc32")
    if not isinstance(name, str):
        raise FormatError(
            f"the 'name' of tensor {nth} is {_shown(name)}, expected a string.", key="name"
        )
    if not isinstance(dims, list):
        raise FormatError(
            f"tensor {_shown(name)}: 'dims' is {_shown(dims)}, expected an array of integers.",
            key="dims",
            tensor=name,
        )
    for dim in dims:
        if isinstance(dim, int) and not isinstance(dim, bool) and dim > _I64_MAX:
            raise SizeOverflowError(
                f"tensor {_shown(name)}: its dims {_shown(dims)} are beyond 64 bits. "
                "Export the model again.",
                tensor=name,
                dims=dims,
            )
        _check_type("dims", dim, "integer", name)
    _check_type("overflowed", entry["overflowed"], "integer", name)
    if entry["overflowed"] != 0:
        raise FormatError(
            f"tensor {_shown(name)}: 'overflowed' is {entry['overflowed']}, expected 0: an export never "
            "holds a value that overflowed. Export the model again.",
            key="overflowed",
            tensor=name,
        )
    if crc32 is None:
        return name, dims, None
    if not isinstance(crc32, str) or not _CRC32.fullmatch(crc32):
        raise FormatError(
            f"tensor {_shown(name)}: 'crc32' is {_shown(crc32)}, expected 8 lower-case hex digits.",
            key="crc32",
            tensor=name,
        )
    return name, dims, int(crc32, 16)


def check_version(version: int) -> None:
    if version != VERSION:
        raise UnsupportedError(
            f"the header says format = {version}, the prefix says version {VERSION}. "
            "This reader knows version 1: update dmexp, or export the model again.",
            found=version,
            expected=VERSION,
        )
