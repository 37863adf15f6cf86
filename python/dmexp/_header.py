"""What a file says of itself: prefix, header, and their arithmetic. The payload is not touched.

Text in our writer's own words is read by the native scan. Any other TOML goes through ``tomli``,
which also knows where a fault is. Both fill the same `Header`, and the tensor table is laid out
and checked by the same native code.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

import tomli

from . import _native
from ._dtypes import STORAGE_DTYPES, WIDTH_BYTES
from ._sniff import refusal, sniff
from .errors import (
    ChecksumError,
    FormatError,
    SizeOverflowError,
    TruncatedError,
    UnsupportedDtypeError,
    UnsupportedError,
)
from .families import Verdict, describe

MAGIC = b"DMEXPRT"
VERSION = 1
PREFIX_BYTES = 24

_PREFIX = struct.Struct("<8sIQI")
_I64_MAX = 2**63 - 1
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


class Buffer(Protocol):
    """Anything with a length whose bytes Python can slice through a memoryview."""

    def __len__(self) -> int: ...


class Header:
    """The header of one file, checked.

    Attributes
    ----------
    format, step, num_params, num_tensors, flushed : int
    dtype : str
        ``"f32"``, ``"f16"`` or ``"bf16"``.
    source : str
    max_abs, min_nonzero_abs : float
        Magnitudes after narrowing; 0.0 where there is no (non-zero) value.
    subnormal : int or None
        None where the file does not say.
    writer : str or None
    config : str
        TOML text; `config_dict` is the same, parsed.
    metadata : dict
        Empty where there is none.
    extra : dict
        Top-level keys that this version does not know.
    payload_offset, payload_bytes : int
        Where the payload lies in the file.
    payload_crc32 : int
    """

    __slots__ = (
        "__dict__",
        "config",
        "dtype",
        "extra",
        "flushed",
        "format",
        "index",
        "max_abs",
        "metadata",
        "min_nonzero_abs",
        "num_params",
        "num_tensors",
        "payload_bytes",
        "payload_crc32",
        "payload_offset",
        "source",
        "step",
        "subnormal",
        "tensor_extra",
        "writer",
    )

    def __init__(
        self,
        fields: Mapping[str, Any],
        index: _native.HeaderIndex,
        *,
        payload_offset: int,
        payload_bytes: int,
        payload_crc32: int,
        extra: dict[str, Any] | None = None,
        tensor_extra: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.format: int = fields["format"]
        self.dtype: str = fields["dtype"]
        self.source: str = fields["source"]
        self.step: int = fields["step"]
        self.num_params: int = fields["num_params"]
        self.num_tensors: int = fields["num_tensors"]
        self.flushed: int = fields["flushed"]
        self.max_abs = float(fields["max_abs"])
        self.min_nonzero_abs = float(fields["min_nonzero_abs"])
        self.subnormal: int | None = fields.get("subnormal")
        self.writer: str | None = fields.get("writer")
        self.config: str = fields["config"]
        self.metadata: dict[str, Any] = fields.get("metadata", {})
        self.index = index
        self.payload_offset = payload_offset
        self.payload_bytes = payload_bytes
        self.payload_crc32 = payload_crc32
        self.extra = extra or {}
        self.tensor_extra = tensor_extra or {}

    @cached_property
    def config_dict(self) -> dict[str, Any]:
        """The config, parsed. Empty where the file has none."""
        if not self.config:
            return {}
        try:
            return tomli.loads(self.config)
        except (ValueError, RecursionError) as cause:
            raise FormatError(
                f"the header's config is not TOML: {_toml_fault(cause, self.config)}. "
                "It was edited by hand: get the file again, or export again.",
                key="config",
            ) from cause

    @cached_property
    def shapes(self) -> Verdict:
        """Whether the config describes the tensors, as `dmexp.families.describe` finds."""
        entries = (self.index.get(place) for place in range(len(self.index)))
        return describe(self.config_dict, ((entry[0], entry[1]) for entry in entries))

    def __repr__(self) -> str:
        return (
            f"Header(dtype={self.dtype!r}, num_params={self.num_params}, "
            f"num_tensors={self.num_tensors}, source={self.source!r})"
        )


def read_header(data: Any, length: int, path: str | None) -> Header:
    """Check prefix, length and header of a file, in that order.

    Parameters
    ----------
    data
        A C-contiguous buffer of the whole file.
    length
        Its length in bytes.
    path
        The file's name for messages; None for bytes in memory.

    Raises
    ------
    TruncatedError, UnsupportedFormatError, UnsupportedError, ChecksumError, FormatError,
    UnsupportedDtypeError, SizeOverflowError, ShapeMismatchError
        Without ``path``: the caller names the file.
    """
    header_bytes, payload_bytes, crc32 = _read_prefix(data, length, path)
    sums = _native.header_crc32(data, PREFIX_BYTES, header_bytes)
    if sums is not None and sums[0] != sums[1]:
        raise ChecksumError(
            f"header: checksum is 0x{sums[1]:08x}, the header itself says 0x{sums[0]:08x}. "
            "The file is damaged or was edited by hand: get it again.",
            stored=f"{sums[0]:08x}",
            computed=f"{sums[1]:08x}",
            tensor=None,
            what="header",
        )
    place: dict[str, Any] = {
        "payload_offset": PREFIX_BYTES + header_bytes,
        "payload_bytes": payload_bytes,
        "payload_crc32": crc32,
    }
    found = _native.scan_header(data, PREFIX_BYTES, header_bytes, payload_bytes)
    if found is not None:
        fields, index, metadata = found
        if metadata is not None:
            fields["metadata"] = _parse(metadata).get("metadata", {})
        header = Header(fields, index, **place)
    else:
        raw = bytes(memoryview(data)[PREFIX_BYTES : PREFIX_BYTES + header_bytes])
        header = _general(raw, payload_bytes, place)
    _check_arithmetic(header)
    return header


def _read_prefix(data: Any, length: int, path: str | None) -> tuple[int, int, int]:
    if length < PREFIX_BYTES:
        raise TruncatedError(
            f"the file has {length} bytes; a .dmexp file starts with a prefix of {PREFIX_BYTES}. "
            "It was cut off, or is something else: get it again.",
            expected=PREFIX_BYTES,
            actual=length,
        )
    view = memoryview(data)
    magic, header_bytes, payload_bytes, crc32 = _PREFIX.unpack(view[:PREFIX_BYTES])
    if magic[:7] != MAGIC:
        head = bytes(view[:4096])
        raise refusal(sniff(path if path is not None else head), path, head)
    if magic[7] != VERSION:
        raise UnsupportedError(
            f"the file has format version {magic[7]}; this reader knows version {VERSION}. "
            "Update dmexp, or export the model again.",
            found=magic[7],
            expected=VERSION,
        )
    expected = PREFIX_BYTES + header_bytes + payload_bytes
    if expected != length:
        there = length - PREFIX_BYTES - header_bytes
        if there < 0:
            what = f"the header alone should have {header_bytes} bytes"
        elif there < payload_bytes:
            what = f"the payload should have {payload_bytes} bytes, {there} are there"
        else:
            what = f"{there - payload_bytes} bytes too many follow the payload of {payload_bytes}"
        raise TruncatedError(
            f"the file has {length} bytes, its prefix calls for {expected}: {what}. "
            "It was cut off or changed on the way: get it again.",
            expected=expected,
            actual=length,
        )
    return header_bytes, payload_bytes, crc32


def _general(raw: bytes, payload_bytes: int, place: dict[str, Any]) -> Header:
    """Read a header in any words that TOML allows."""
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
            f"the header's dtype is {table['dtype']!r}. Known: 'f32', 'f16', 'bf16' "
            "(lower case). Export the model again.",
            dtype=table["dtype"],
            known=list(STORAGE_DTYPES),
        )
    _check_version(table["format"])
    tensors = [_tensor(nth, entry) for nth, entry in enumerate(table["tensors"])]
    index = _native.HeaderIndex(WIDTH_BYTES[table["dtype"]], payload_bytes, tensors)
    known = {key for key, _ in _REQUIRED} | set(_OPTIONAL)
    extra = {key: value for key, value in table.items() if key not in known}
    tensor_extra = {}
    for entry in table["tensors"]:
        more = {k: v for k, v in entry.items() if k not in ("name", "dims", "overflowed", "crc32")}
        if more:
            tensor_extra[entry["name"]] = more
    return Header(table, index, extra=extra, tensor_extra=tensor_extra, **place)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomli.loads(text)
    except (ValueError, RecursionError) as cause:
        raise FormatError(
            f"the header is not TOML: {_toml_fault(cause, text)}. "
            "The file is damaged or was edited by hand: get it again.",
            line=getattr(cause, "lineno", None),
            column=getattr(cause, "colno", None),
        ) from cause


def _toml_fault(cause: Exception, text: str) -> str:
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
    where = f"tensor {tensor!r}: " if tensor is not None else "the header's "
    if not good:
        raise FormatError(
            f"{where}'{key}' is {str(value)[:40]!r}, expected {_article(kind)}. "
            "Export the model again.",
            key=key,
            tensor=tensor,
        )
    if kind == "integer" and not 0 <= value <= _I64_MAX:  # type: ignore[operator]
        raise FormatError(
            f"{where}'{key}' is {value}, expected an integer from 0 to {_I64_MAX}. "
            "Export the model again.",
            key=key,
            tensor=tensor,
        )


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _tensor(nth: int, entry: dict[str, Any]) -> tuple[str, list[int], int | None]:
    for key in ("name", "dims", "overflowed"):
        if key not in entry:
            raise FormatError(
                f"tensor {entry.get('name', nth)!r} has no key '{key}'. Export the model again.",
                key=key,
                tensor=entry.get("name"),
            )
    name, dims, crc32 = entry["name"], entry["dims"], entry.get("crc32")
    if not isinstance(name, str):
        raise FormatError(f"the 'name' of tensor {nth} is {name!r}, expected a string.", key="name")
    if not isinstance(dims, list):
        raise FormatError(
            f"tensor {name!r}: 'dims' is {dims!r}, expected an array of integers.",
            key="dims",
            tensor=name,
        )
    for dim in dims:
        if isinstance(dim, int) and not isinstance(dim, bool) and dim > _I64_MAX:
            raise SizeOverflowError(
                f"tensor {name!r}: its dims {dims} are beyond 64 bits.", tensor=name, dims=dims
            )
        _check_type("dims", dim, "integer", name)
    _check_type("overflowed", entry["overflowed"], "integer", name)
    if entry["overflowed"] != 0:
        raise FormatError(
            f"tensor {name!r}: 'overflowed' is {entry['overflowed']}, expected 0: an export never "
            "holds a value that overflowed. Export the model again.",
            key="overflowed",
            tensor=name,
        )
    if crc32 is None:
        return name, dims, None
    if not isinstance(crc32, str) or not _CRC32.fullmatch(crc32):
        raise FormatError(
            f"tensor {name!r}: 'crc32' is {crc32!r}, expected 8 lower-case hex digits.",
            key="crc32",
            tensor=name,
        )
    return name, dims, int(crc32, 16)


def _check_version(version: int) -> None:
    if version != VERSION:
        raise UnsupportedError(
            f"the header says format = {version}, the prefix says version {VERSION}. "
            "This reader knows version 1: update dmexp, or export the model again.",
            found=version,
            expected=VERSION,
        )


def _check_arithmetic(header: Header) -> None:
    _check_version(header.format)
    width = WIDTH_BYTES[header.dtype]
    _check_claim("num_tensors", header.num_tensors, len(header.index), "tensors are listed")
    if header.num_params * width != header.payload_bytes:
        _check_claim(
            "num_params",
            header.num_params,
            header.payload_bytes // width,
            f"{header.dtype} values are in the payload",
        )
    for key in ("flushed", "subnormal"):
        count = getattr(header, key)
        if count is not None and count > header.num_params:
            raise FormatError(
                f"the header's '{key}' is {count}, but there are {header.num_params} values. "
                "The header was edited: export the model again.",
                key=key,
            )
    for key in ("max_abs", "min_nonzero_abs"):
        value = getattr(header, key)
        if not (math.isfinite(value) and value >= 0.0):
            raise FormatError(
                f"the header's '{key}' is {value}, expected a finite magnitude. "
                "The header was edited: export the model again.",
                key=key,
            )


def _check_claim(key: str, said: int, found: int, words: str) -> None:
    if said != found:
        raise FormatError(
            f"the header's '{key}' is {said}, but {found} {words}. "
            "The header was edited: export the model again.",
            key=key,
            expected=found,
            found=said,
        )
