"""What a file says of itself: prefix, header, and their arithmetic. The payload is not touched.

Text in our writer's own words is read by the native scan. Any other TOML goes through ``tomli``,
which also knows where a fault is. Both fill the same `Header`, and the tensor table is laid out
and checked by the same native code.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from . import _native
from ._dtypes import WIDTH_BYTES
from ._header_toml import VERSION, check_version, parse_header, parse_toml, toml_fault
from .errors import ChecksumError, FormatError, TruncatedError, UnsupportedError
from .families import Verdict, describe

MAGIC = b"DMEXPRT"
PREFIX_BYTES = 24

_PREFIX = struct.Struct("<8sIQI")


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

    format: int
    dtype: str
    source: str
    step: int
    num_params: int
    num_tensors: int
    flushed: int
    max_abs: float
    min_nonzero_abs: float
    subnormal: int | None
    writer: str | None
    config: str
    metadata: dict[str, Any]
    extra: dict[str, Any]
    tensor_extra: dict[str, dict[str, Any]]
    payload_offset: int
    payload_bytes: int
    payload_crc32: int
    index: _native.HeaderIndex

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
        self.index = index
        self._fill(fields)
        self.metadata = fields.get("metadata", {})
        self.extra = extra or {}
        self.tensor_extra = tensor_extra or {}
        self.payload_offset = payload_offset
        self.payload_bytes = payload_bytes
        self.payload_crc32 = payload_crc32

    @classmethod
    def found(cls, index: _native.HeaderIndex) -> Header:
        """The header that a quick reader has read; its fields come over when one is asked for."""
        header = cls.__new__(cls)
        header.index = index
        return header

    def __getattr__(self, name: str) -> Any:
        # Slots come first: this is asked only for what is not there, or not yet.
        fields = self.index.fields() if name != "index" and name in self.__slots__ else None
        if fields is None or name not in fields:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        self._fill(fields)
        for key in (
            "metadata",
            "extra",
            "tensor_extra",
            "payload_offset",
            "payload_bytes",
            "payload_crc32",
        ):
            setattr(self, key, fields[key])
        return fields[name]

    def _fill(self, fields: Mapping[str, Any]) -> None:
        self.format = fields["format"]
        self.dtype = fields["dtype"]
        self.source = fields["source"]
        self.step = fields["step"]
        self.num_params = fields["num_params"]
        self.num_tensors = fields["num_tensors"]
        self.flushed = fields["flushed"]
        self.max_abs = float(fields["max_abs"])
        self.min_nonzero_abs = float(fields["min_nonzero_abs"])
        self.subnormal = fields.get("subnormal")
        self.writer = fields.get("writer")
        self.config = fields["config"]

    @cached_property
    def config_dict(self) -> dict[str, Any]:
        """The config, parsed. Empty where the file has none."""
        if not self.config:
            return {}
        try:
            return parse_toml(self.config)
        except (ValueError, RecursionError) as cause:
            raise FormatError(
                f"the header's config is not TOML: {toml_fault(cause, self.config)}. "
                "It was edited by hand: get the file again, or export again.",
                key="config",
            ) from cause

    @cached_property
    def shapes(self) -> Verdict:
        """Whether the config describes the tensors, as `dmexp.families.describe` finds."""
        if self.index.lacks_config:
            return describe({}, ())
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
    header = _quick(data, header_bytes, payload_bytes, place)
    if header is None:
        raw = bytes(memoryview(data)[PREFIX_BYTES : PREFIX_BYTES + header_bytes])
        fields, index, extra, tensor_extra = parse_header(raw, payload_bytes)
        header = Header(fields, index, extra=extra, tensor_extra=tensor_extra, **place)
    check_arithmetic(header)
    return header


def _quick(
    data: Any, header_bytes: int, payload_bytes: int, place: dict[str, Any]
) -> Header | None:
    """Read a header that needs no complete parser; None for any other."""
    index = _native.read_header(data, PREFIX_BYTES, header_bytes, payload_bytes)
    fields = index.fields() if index is not None else None
    if index is None or fields is None:
        return None
    if index.metadata_text is not None:
        try:
            table = parse_toml(index.metadata_text)
        except (ValueError, RecursionError):
            # Whoever reads the whole header finds the same fault and knows its line.
            return None
        # The scan did not look into this text, where tables of any name can follow.
        if table.keys() != {"metadata"} or not isinstance(table["metadata"], dict):
            return None
        fields["metadata"] = table["metadata"]
    return Header(
        fields, index, extra=fields["extra"], tensor_extra=fields["tensor_extra"], **place
    )


def file_bytes(head: bytes | bytearray) -> int:
    """The length that a file calls for by its first bytes; 0 where it is no file of this format."""
    if len(head) < PREFIX_BYTES or head[:8] != MAGIC + bytes([VERSION]):
        return 0
    _, header_bytes, payload_bytes, _ = _PREFIX.unpack_from(head)
    return PREFIX_BYTES + int(header_bytes) + int(payload_bytes)


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
        from ._sniff import HEAD_BYTES, refusal, sniff

        head = bytes(view[:HEAD_BYTES])
        # The end of a zip archive says more than its start, but a pipe cannot be opened twice.
        again = path if path is not None and os.path.isfile(path) else head
        raise refusal(sniff(again), path, head)
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


def check_arithmetic(header: Header) -> None:
    """Compare what a header says in one place with what it says in another.

    Raises
    ------
    UnsupportedError, FormatError
    """
    check_version(header.format)
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
