"""The header of an ``.npy`` member, parsed as a literal; nothing in it is evaluated."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from dmexp._dtypes import source_dtype
from dmexp.errors import (
    FormatError,
    SizeOverflowError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)

LARGEST_HEADER_BYTES = 64 * 1024
LARGEST_RANK = 64

_MAGIC = b"\x93NUMPY"
_DESCRIPTION = re.compile(r"[<>|=]?([a-zA-Z])(\d*)(\[[a-zA-Z]+\])?")
_NOT_NUMBERS = {"O": "object", "U": "text", "S": "bytes", "a": "bytes", "M": "time", "m": "time"}


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a member says of itself. ``offset`` is where the data begins, in bytes.

    ``dtype`` is None for what is no number (objects, text, times, structs); ``kind`` names it.
    """

    dims: tuple[int, ...]
    dtype: np.dtype[Any] | None
    kind: str
    fortran: bool
    offset: int


def read_npy_header(stream: IO[bytes], member_bytes: int, name: str) -> NpyHeader:
    """Read the header from the start of a member and compare it with the member's length.

    Raises
    ------
    FormatError
        No ``.npy``, a header that NumPy does not write, or dims that do not fill the member.
    SizeOverflowError, UnsupportedShapeError
        Dims beyond 64 bits, or more than 64 of them.
    UnsupportedDtypeError
        An anonymous void, which bfloat16 becomes when NumPy saves it; the message has the cure.
    """
    text, offset = _text(stream, name)
    descr, fortran, dims = _fields(text, name)
    dtype, kind = _dtype(descr, name)
    if dtype is not None:
        count = 1
        for dim in dims:
            count *= dim
        data_bytes = count * dtype.itemsize
        if data_bytes >= 1 << 63:
            raise SizeOverflowError(
                f"array {name!r}: dims {list(dims)} are more bytes than 64 bits can count.",
                tensor=name,
                dims=list(dims),
            )
        if offset + data_bytes != member_bytes:
            raise broken(
                name,
                f"dims {list(dims)} of {dtype} are {data_bytes} bytes, and "
                f"{member_bytes - offset} follow its header",
            )
    return NpyHeader(dims, dtype, kind, fortran, offset)


def broken(name: str, problem: str) -> FormatError:
    """The error for a member that is damaged."""
    return FormatError(
        f"array {name!r}: {problem}. The archive is damaged or was not written by NumPy.",
        tensor=name,
    )


def _text(stream: IO[bytes], name: str) -> tuple[str, int]:
    start = stream.read(len(_MAGIC) + 2)
    if len(start) < len(_MAGIC) + 2 or not start.startswith(_MAGIC):
        raise broken(name, "it does not start as an .npy file does")
    version = (start[-2], start[-1])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise broken(name, f"its .npy version is {version[0]}.{version[1]}; 1.0 to 3.0 are read")
    size = 2 if version == (1, 0) else 4
    raw_length = stream.read(size)
    length = int.from_bytes(raw_length, "little")
    if len(raw_length) < size or length > LARGEST_HEADER_BYTES:
        raise broken(name, f"a header of {length} bytes; at most {LARGEST_HEADER_BYTES} are read")
    raw = stream.read(length)
    if len(raw) < length:
        raise broken(name, f"its header ends after {len(raw)} bytes of {length}")
    try:
        text = raw.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        raise broken(name, "its header is not UTF-8") from None
    return text, len(start) + size + length


def _fields(text: str, name: str) -> tuple[Any, bool, tuple[int, ...]]:
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise broken(name, "its header is no literal") from None
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise broken(name, "its header has not just the keys descr, fortran_order and shape")
    fortran, shape = header["fortran_order"], header["shape"]
    if not isinstance(fortran, bool):
        raise broken(name, "fortran_order is neither True nor False")
    if not isinstance(shape, tuple) or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise broken(name, "shape is no tuple of integers of 0 or more")
    if len(shape) > LARGEST_RANK:
        raise UnsupportedShapeError(
            f"array {name!r} has {len(shape)} dims; at most {LARGEST_RANK} are read.",
            tensor=name,
            dims=None,
            rank=len(shape),
        )
    return header["descr"], fortran, shape


def _dtype(descr: Any, name: str) -> tuple[np.dtype[Any] | None, str]:
    if not isinstance(descr, str):
        return None, "struct"
    match = _DESCRIPTION.fullmatch(descr)
    if match is None:
        raise broken(name, f"dtype {descr[:40]!r} is none that NumPy writes")
    letter, width = match[1], match[2]
    if letter == "V":
        raise _void(descr, width, name)
    if letter in _NOT_NUMBERS:
        return None, _NOT_NUMBERS[letter]
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError):
        raise broken(name, f"dtype {descr!r} is none that NumPy knows") from None
    return dtype, source_dtype(dtype) or _kind(dtype)


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "bool"
    # A long double is 80 bits in 96 or 128; its width in bytes would not name it.
    return "longdouble" if dtype.char == "g" else f"{dtype.kind}{8 * dtype.itemsize}"


def _void(descr: str, width: str, name: str) -> UnsupportedDtypeError:
    cure = (
        "NumPy saves bfloat16 like that, without its name. If it was bfloat16, "
        "x.view(ml_dtypes.bfloat16).astype(numpy.float32) brings it back exactly: save that, or "
        "save a safetensors file, which has bfloat16"
        if width == "2"
        else "its elements have a size and no meaning. Save them as float32"
    )
    return UnsupportedDtypeError(
        f"array {name!r} is an anonymous void of {width or 'no'} bytes ({descr}); {cure}.",
        tensor=name,
        dtype=descr,
        known=["f64", "f32", "f16"],
    )
