"""Header text: what a file says of itself, in one spelling.

Two modes. Ours carries the optional keys, a checksum of each tensor and one of the header itself,
and is padded so that the payload is aligned. ``compat`` text is what the format's first writer
would have written, and carries none of that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _native
from ._header_toml import parse_toml
from ._toml_text import float_text, string_text
from .errors import InvalidArgumentError, LimitExceededError

ALIGNMENT_BYTES = 64
PREFIX_BYTES = 24
MAX_HEADER_BYTES = 2**32 - 1
"""H is a u32. The reader accepts whatever the writer writes."""

_I64_MAX = 2**63 - 1
# "0.", 44 zeros and 17 digits: the smallest f32 widened to f64. No f32 needs more.
_WIDEST_FLOAT = "0." + "0" * 62


class TensorLine(NamedTuple):
    """What a header says of one tensor."""

    name: str
    dims: tuple[int, ...]
    crc32: int


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """Everything that a header says before its tensors."""

    dtype: str
    source: str
    step: int
    config: str
    metadata: str
    """The ``[metadata]`` table as text, empty where there is none; see `metadata_text`."""
    compat: bool
    extra: tuple[str, str] = ("", "")
    """Keys that are not ours, as text: plain ones for the top, tables for the end."""


class Totals(NamedTuple):
    """What is known only once the payload is written."""

    flushed: int
    subnormal: int
    max_abs: float
    min_nonzero_abs: float


def writer_name() -> str:
    """What the header's ``writer`` says."""
    return f"dmexp {_native.__version__}"


def metadata_text(metadata: Mapping[str, Any] | None) -> str:
    """The ``[metadata]`` table as TOML text, checked by reading it back.

    Raises
    ------
    InvalidArgumentError
        For values that TOML has no type for (None, bytes, arrays), for integers beyond 64 bits
        and for text that is not Unicode.
    """
    if metadata is None:
        return ""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata is {type(metadata).__name__}; a mapping is expected")
    if not metadata:
        return ""
    try:
        _check_integers(metadata, "metadata")
        text = _toml({"metadata": dict(metadata)})
        text.encode()
        again = parse_toml(text)
    except InvalidArgumentError:
        raise
    except (TypeError, ValueError, RecursionError) as cause:
        raise InvalidArgumentError(
            f"metadata cannot be written as TOML: {cause}. Known: strings, integers, floats, "
            "booleans, dates, and lists and tables of them.",
            argument="metadata",
        ) from cause
    if set(again) != {"metadata"}:
        raise InvalidArgumentError("metadata keys do not survive TOML.", argument="metadata")
    return text


def _toml(table: dict[str, Any]) -> str:
    # Most files are written without a mapping that needs it.
    import tomli_w

    return tomli_w.dumps(table)


def _check_integers(value: object, where: str) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        if not -_I64_MAX - 1 <= value <= _I64_MAX:
            raise InvalidArgumentError(
                f"{where} is {value}, beyond TOML's 64 bits. Write it as a string.",
                argument=where,
            )
    elif isinstance(value, Mapping):
        for key, below in value.items():
            if not isinstance(key, str):
                raise InvalidArgumentError(
                    f"{where} has the key {key!r}; keys are strings.", argument=where
                )
            _check_integers(below, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for below in value:
            _check_integers(below, where)


def config_text(config: str | Mapping[str, Any] | None) -> str:
    """The header's ``config``: TOML text, checked; a mapping is written as TOML first.

    Raises
    ------
    InvalidArgumentError
        Where the text is not TOML (line and column), or the mapping cannot be written as TOML.
    """
    if config is None:
        return ""
    if not isinstance(config, str):
        if not isinstance(config, Mapping):
            raise TypeError(f"config is {type(config).__name__}; a str or a mapping is expected")
        try:
            _check_integers(config, "config")
            text = _toml(dict(config))
        except InvalidArgumentError:
            raise
        except (TypeError, ValueError, RecursionError) as cause:
            raise InvalidArgumentError(
                f"config cannot be written as TOML: {cause}. Leave out what is None.",
                argument="config",
            ) from cause
    else:
        # TOML reads CRLF as a line feed inside a string, so CR would not survive the header.
        text = config.replace("\r\n", "\n")
    try:
        text.encode()
        parse_toml(text)
    except (ValueError, RecursionError) as cause:
        raise InvalidArgumentError(
            f"config is not TOML: {cause}. It is the model's configuration as TOML text.",
            argument="config",
        ) from cause
    return text


def header_text(
    facts: HeaderFacts, tensors: Sequence[TensorLine], num_params: int, totals: Totals
) -> bytes:
    """The header without padding. The order of the keys is part of the format."""
    lines = _top(
        facts,
        len(tensors),
        num_params,
        flushed=str(totals.flushed),
        subnormal=str(totals.subnormal),
        max_abs=float_text(totals.max_abs),
        min_nonzero_abs=float_text(totals.min_nonzero_abs),
    )
    text = (lines + _table(facts, tensors) + _below(facts)).encode()
    if not facts.compat:
        text += _native.header_crc32_line(text).encode()
    return text


def room_bytes(
    facts: HeaderFacts, tensors: Sequence[tuple[str, tuple[int, ...]]], num_params: int
) -> int:
    """The header's length: enough for the longest numbers that the payload can give.

    It depends on what is known before the payload is read and on nothing else, so the same input
    gives the same file. In ``compat`` mode the length that the header ends with may be smaller.
    """
    count = str(num_params)
    lines = _top(
        facts,
        len(tensors),
        num_params,
        flushed=count,
        subnormal=count,
        max_abs=_WIDEST_FLOAT,
        min_nonzero_abs=_WIDEST_FLOAT,
    )
    table = _table(facts, [TensorLine(name, dims, 0) for name, dims in tensors])
    length = len((lines + table + _below(facts)).encode())
    if not facts.compat:
        length += len(_native.header_crc32_line(b""))
        length += -(PREFIX_BYTES + length) % ALIGNMENT_BYTES
    if length > MAX_HEADER_BYTES:
        raise LimitExceededError(
            f"the header would have {length} bytes; the format allows {MAX_HEADER_BYTES}. "
            "Use fewer tensors, shorter names or less metadata.",
            limit=MAX_HEADER_BYTES,
            found=length,
        )
    return length


def padded(text: bytes, room: int) -> bytes:
    """The header filled up with line feeds to its reserved room."""
    return text + b"\n" * (room - len(text))


def _top(
    facts: HeaderFacts,
    num_tensors: int,
    num_params: int,
    *,
    flushed: str,
    subnormal: str,
    max_abs: str,
    min_nonzero_abs: str,
) -> str:
    lines = [
        "format = 1",
        f'dtype = "{facts.dtype}"',
        f"source = {string_text(facts.source)}",
        f"step = {facts.step}",
        f"num_params = {num_params}",
        f"num_tensors = {num_tensors}",
        f"flushed = {flushed}",
        f"max_abs = {max_abs}",
        f"min_nonzero_abs = {min_nonzero_abs}",
    ]
    if not facts.compat:
        lines += [f"subnormal = {subnormal}", f'writer = "{writer_name()}"']
    lines.append(f"config = {string_text(facts.config)}")
    if facts.extra[0]:
        lines.append(facts.extra[0])
    if not num_tensors:
        lines.append("tensors = []")
    return "\n".join(lines) + "\n"


def _table(facts: HeaderFacts, tensors: Sequence[TensorLine]) -> str:
    if facts.compat:
        return "".join(
            f"\n[[tensors]]\nname = {string_text(name)}\ndims = {list(dims)}\noverflowed = 0\n"
            for name, dims, _ in tensors
        )
    return "".join(
        f"\n[[tensors]]\nname = {string_text(name)}\ndims = {list(dims)}\noverflowed = 0\n"
        f'crc32 = "{crc32:08x}"\n'
        for name, dims, crc32 in tensors
    )


def _below(facts: HeaderFacts) -> str:
    if facts.compat:
        return ""
    return "".join(f"\n{text}" for text in (facts.metadata, facts.extra[1]) if text)
