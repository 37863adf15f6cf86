"""What a file is, by its content. The suffix is not looked at: people rename files.

Nothing is unpacked and nothing is unpickled. Of a zip archive only the list of names is read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import BinaryIO

from ._kinds import Kind
from ._refusal import refusal

__all__ = ["HEAD_BYTES", "Kind", "refusal", "sniff"]

HEAD_BYTES = 4096
"""How much of a file `sniff` looks at."""

_MAGICS: tuple[tuple[bytes, Kind], ...] = (
    (b"DMEXPRT", Kind.DMEXP),
    (b"DMCK", Kind.DORMOUSE),
    (b"FUGG", Kind.GGUF_SWAPPED),
    (b"lmgg", Kind.GGML),
    (b"fmgg", Kind.GGML),
    (b"tjgg", Kind.GGML),
    (b"\x93NUMPY", Kind.NPY),
    (b"\x89HDF\r\n\x1a\n", Kind.HDF5),
    (b"\x1f\x8b", Kind.GZIP),
    (b"\xfd7zXZ\x00", Kind.XZ),
    (b"\x28\xb5\x2f\xfd", Kind.ZSTD),
    (b"version https://git-lfs.github.com/spec/", Kind.GIT_LFS),
    (b"version https://hawser.github.com/spec/", Kind.GIT_LFS),
)

_LARGEST_SAFETENSORS_HEADER = 100 * 1024 * 1024
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_HTML = re.compile(rb"<(!doctype\s+html|html|head|body|title|script)[\s>]", re.IGNORECASE)
_XML = re.compile(rb"<(\?xml|error>)", re.IGNORECASE)
# Protocol 0 has no marker; these are the openings that checkpoints of its time have.
_PICKLE_0 = re.compile(
    rb"\(dp?\d*\n|\(lp?\d*\n|c(collections|__builtin__|builtins|torch|numpy)[.\w]*\n"
)


def sniff(source: str | os.PathLike[str] | bytes) -> Kind | None:
    """Name the kind of a file, or None where it is none that is known.

    Parameters
    ----------
    source
        A path, or the first bytes of a file (4096 are enough).

    Raises
    ------
    OSError
        The file cannot be opened or read.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        head = bytes(source[:HEAD_BYTES])
        return _zip_kind([_first_member(head)]) if _is_zip(head) else _kind_of_head(head)
    with Path(source).open("rb") as file:
        head = file.read(HEAD_BYTES)
        if _is_zip(head):
            return _zip_kind(_member_names(file) or [_first_member(head)])
    return _kind_of_head(head)


def _kind_of_head(head: bytes) -> Kind | None:
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if head.startswith(b"GGUF"):
        # The magic stays as it is in big-endian files; the version after it does not.
        swapped = len(head) >= 8 and head[4:6] == b"\0\0" and head[6:8] != b"\0\0"
        return Kind.GGUF_SWAPPED if swapped else Kind.GGUF
    if _is_safetensors(head):
        return Kind.SAFETENSORS
    if (len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5) or _PICKLE_0.match(head):
        return Kind.PICKLE
    if _BZIP2.match(head):
        return Kind.BZIP2
    if head[257:262] == b"ustar":
        return Kind.TAR
    return _kind_of_text(head) or (Kind.ONNX if _is_onnx(head) else None)


def _kind_of_text(head: bytes) -> Kind | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _HTML.match(text) or (_XML.match(text) and b"<html" in text.lower()):
        return Kind.HTML
    if _XML.match(text):
        return Kind.XML
    if re.match(rb'\{\s*["}]|\[\s*[\[{"\]]', text):
        return Kind.JSON
    return None


def _is_safetensors(head: bytes) -> bool:
    length = int.from_bytes(head[:8], "little")
    return (
        len(head) > 8
        and 0 < length <= _LARGEST_SAFETENSORS_HEADER
        and head[8:].lstrip(b" \t\r\n").startswith(b"{")
    )


def _is_onnx(head: bytes) -> bool:
    """Protobuf has no magic. An ONNX model opens with its format's version (field 1, a small
    number), then most often with the name of the tool that wrote it (field 2, a string)."""
    if len(head) < 8 or head[0] != 0x08 or not 1 <= head[1] <= 30:
        return False
    if head[2] != 0x12:
        # Graph (field 7) or imported operator sets (field 8) directly after the version.
        return head[2] in (0x3A, 0x42)
    name = head[4 : 4 + head[3]]
    return (
        0 < head[3] < 0x80
        and len(name) == head[3]
        and name.isascii()
        and name.decode().isprintable()
    )


def _is_zip(head: bytes) -> bool:
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def _first_member(head: bytes) -> str:
    """The name in the first local header, for when the list at the end is out of reach."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")].decode("utf-8", "replace")


def _member_names(file: BinaryIO) -> list[str]:
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        # A truncated or strange archive is still a zip archive. Sizes in it may lead to a seek
        # that the system refuses.
        return []


def _zip_kind(names: list[str]) -> Kind:
    files = [name for name in names if name and not name.endswith("/")]
    if any(name == "data.pkl" or name.endswith(("/data.pkl", "/constants.pkl")) for name in files):
        return Kind.PYTORCH
    if "model.weights.h5" in files:
        return Kind.KERAS
    if files and all(name.endswith(".npy") for name in files):
        return Kind.NPZ
    return Kind.ZIP
