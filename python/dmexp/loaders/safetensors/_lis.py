"""Whether a file stays inside the narrow subset that the LIS project reads, and what LIS says.

LIS scans the header with a tolerant scanner of its own, not with a JSON parser, and stops at the
first thing it does not take. This module walks the same bytes by the same rules, so that the
verdict holds for files that are no JSON at all. Past the first fault it goes on as long as it can
find its way, to say something about every tensor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dmexp.errors import DmexpError, InvalidArgumentError

from ._header import LARGEST_HEADER_BYTES, LARGEST_RANK, METADATA_KEY, PREFIX_BYTES
from ._json import BEYOND_64_BITS

LIS_WIDTH_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I32": 4, "U32": 4}
"""The dtypes of LIS's subset, exactly as they must be spelt."""

OK = "OK"

_SPACE = re.compile(rb"[ \n\r\t]*")
# Possessive, so that a string without an end costs one pass.
_STRING = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_PLAIN = re.compile(rb'[^"{}\[\],]+')
_DIGITS = re.compile(rb"[0-9]+")
_PICKLE_SUFFIXES = (".pt", ".pth", ".bin")


@dataclass(frozen=True, slots=True)
class LisTensor:
    """One tensor by LIS's rules. ``status`` is ``"OK"`` or the status LIS would stop with."""

    name: str
    status: str
    reason: str = ""

    @property
    def inside(self) -> bool:
        """Whether the tensor is one that LIS takes."""
        return self.status == OK


@dataclass(frozen=True, slots=True)
class LisReport:
    """What LIS would say of a file."""

    path: str
    status: str
    """``"OK"``, or the status of the first fault in LIS's reading order."""
    reason: str
    tensors: tuple[LisTensor, ...]
    complete: bool
    """False where the scan lost its way; tensors after that point are not listed."""
    stricter: str | None
    """The code with which dmexp's own reader refuses the file, or None where it reads it."""

    @property
    def inside(self) -> bool:
        """Whether LIS reads the file."""
        return self.status == OK


def lis_scope(path: str | os.PathLike[str]) -> LisReport:
    """Report, tensor by tensor, whether a file is inside LIS's subset and what status LIS gives.

    The statuses are those of LIS without their prefix. ``IO`` and ``NO_MEMORY`` are not reported:
    `OSError` and `MemoryError` pass through.

    Parameters
    ----------
    path
        A file, or a directory with ``config.json`` and ``model.safetensors``, of which the latter
        is looked at. LIS judges some paths by their suffix without opening them, so those need
        not exist.

    Raises
    ------
    InvalidArgumentError
        ``path`` is not a path; LIS's own status for another kind of source.
    OSError
        The file cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"a path is needed, not {type(path).__name__}. LIS reads model files by their path alone.",
            argument="path",
        )
    name = os.fspath(path)
    if name.endswith(_PICKLE_SUFFIXES):
        return _outside(
            name, "UNSUPPORTED_FORMAT", f"the suffix {Path(name).suffix} is that of a pickle"
        )
    if os.path.isdir(path):
        return _directory(Path(name))
    by_content = not name.endswith(".safetensors")
    try:
        with open(path, "rb") as file:
            file_bytes = os.fstat(file.fileno()).st_size
            prefix = file.read(PREFIX_BYTES)
            length = int.from_bytes(prefix, "little")
            reason = _prefix_fault(length, file_bytes)
            header = b"" if reason else file.read(length)
    except OSError as error:
        if by_content:
            # An address of the network ends here too.
            return _outside(
                name, "UNSUPPORTED_FORMAT", f"no file that can be read: {error.strerror}"
            )
        raise
    scan = _Scan(header, file_bytes - PREFIX_BYTES - length)
    if not reason and not scan.opens():
        reason = "the header does not open with {"
    if reason:
        status = "UNSUPPORTED_FORMAT" if by_content else "FORMAT"
        return _outside(name, status, reason, stricter=_our_code(path))
    complete = scan.run()
    status, reason = scan.verdict or (OK, "")
    return LisReport(name, status, reason, tuple(scan.tensors), complete, _our_code(path))


def _directory(path: Path) -> LisReport:
    weights = path / "model.safetensors"
    if not (path / "config.json").is_file():
        return _outside(str(path), "UNSUPPORTED_FORMAT", "a directory without config.json")
    if not weights.exists() and (path / f"{weights.name}.index.json").exists():
        return _outside(str(path), "UNSUPPORTED_FORMAT", "an index of shards and no merged file")
    return lis_scope(weights)


def _outside(name: str, status: str, reason: str, stricter: str | None = None) -> LisReport:
    return LisReport(name, status, reason, (), False, stricter or status)


def _our_code(path: str | os.PathLike[str]) -> str | None:
    from ._file import SafetensorsFile

    try:
        SafetensorsFile(path).close()
    except DmexpError as error:
        return error.code
    return None


def _prefix_fault(length: int, file_bytes: int) -> str:
    if file_bytes < PREFIX_BYTES:
        return f"the file has {file_bytes} bytes, fewer than the header's length needs"
    if not 0 < length <= LARGEST_HEADER_BYTES:
        return f"a header length of {length} bytes"
    if length > file_bytes - PREFIX_BYTES:
        return f"a header of {length} bytes in a file of {file_bytes}"
    return ""


class _Lost(Exception):
    """The scan cannot tell where it is. Caught in `_Scan.run`."""


@dataclass(slots=True)
class _Scan:
    """A walk over the header's bytes. ``verdict`` is the first fault of all."""

    data: bytes
    payload_bytes: int
    position: int = 0
    verdict: tuple[str, str] | None = None
    tensors: list[LisTensor] = field(default_factory=list)
    _fault: tuple[str, str] | None = None
    """The first fault of the tensor at hand."""

    def opens(self) -> bool:
        return self._peek() == b"{"

    def run(self) -> bool:
        self.position += 1
        try:
            self._members(self._member)
        except _Lost:
            return False
        if not self.tensors:
            self._record("FORMAT", "no tensor at all")
        return True

    def _record(self, status: str, reason: str) -> None:
        self._fault = self._fault or (status, reason)
        self.verdict = self.verdict or (status, reason)

    def _lose(self, reason: str) -> _Lost:
        self._record("FORMAT", f"{reason} at byte {self.position} of the header")
        return _Lost()

    def _peek(self) -> bytes:
        self.position = _SPACE.match(self.data, self.position).end()  # type: ignore[union-attr]
        return self.data[self.position : self.position + 1]

    def _expect(self, character: bytes) -> None:
        if self._peek() != character:
            raise self._lose(f"{character.decode()} is missing")
        self.position += 1

    def _string(self) -> str:
        self._peek()
        found = _STRING.match(self.data, self.position)
        if found is None:
            raise self._lose("a string is missing or has no end")
        self.position = found.end()
        if b"\\" in found[1]:
            self._record("FORMAT", "a backslash in a string")
        # Names are C strings there: they end at the first NUL.
        return found[1].split(b"\0")[0].decode("utf-8", "backslashreplace")

    def _members(self, member: Callable[[str], None]) -> None:
        """The members of an object whose opening brace is behind. A comma may come last."""
        while self._peek() != b"}":
            key = self._string()
            member(key)
            following = self._peek()
            if following == b",":
                self.position += 1
            elif following != b"}":
                raise self._lose(", or } is missing")
        self.position += 1

    def _member(self, name: str) -> None:
        if name == METADATA_KEY:
            self._expect(b":")
            self._skip()
            self._fault = None
            return
        entry = _Entry()
        try:
            self._expect(b":")
            self._expect(b"{")
            self._members(lambda key: self._entry_field(entry, key))
            self._finish(entry)
        finally:
            status, reason = self._fault or (OK, "")
            self.tensors.append(LisTensor(name, status, reason))
            self._fault = None

    def _entry_field(self, entry: _Entry, key: str) -> None:
        self._expect(b":")
        if key == "dtype":
            entry.dtype = self._string()
            if entry.dtype not in LIS_WIDTH_BYTES:
                self._record("UNSUPPORTED_DTYPE", f"dtype {entry.dtype}")
        elif key == "shape":
            entry.dims = self._shape()
        elif key == "data_offsets":
            entry.offsets = self._offsets()
        else:
            self._skip()

    def _shape(self) -> list[int]:
        self._expect(b"[")
        dims: list[int] = []
        if self._peek() == b"]":
            self._record("UNSUPPORTED_SHAPE", "rank 0")
            self.position += 1
            return dims
        while True:
            if len(dims) == LARGEST_RANK:
                self._record("UNSUPPORTED_SHAPE", f"a rank above {LARGEST_RANK}")
                self._leave_array()
                return dims
            dims.append(self._size("a dim"))
            following = self._peek()
            if following not in (b",", b"]"):
                self._record("FORMAT", "a dim that is no plain integer")
                self._leave_array()
                return dims
            self.position += 1
            if following == b"]":
                break
        if 0 in dims:
            self._record("UNSUPPORTED_SHAPE", "a dim of 0")
        elif _product(dims) >= BEYOND_64_BITS:
            self._record("OVERFLOW", "more elements than 64 bits count")
        return dims

    def _offsets(self) -> tuple[int, int] | None:
        self._expect(b"[")
        begin = self._size("an offset")
        if self._peek() == b",":
            self.position += 1
            end = self._size("an offset")
            if self._peek() == b"]":
                self.position += 1
                return begin, end
        self._record("FORMAT", "data_offsets that are not two integers")
        self._leave_array()
        return None

    def _size(self, what: str) -> int:
        self._peek()
        digits = _DIGITS.match(self.data, self.position)
        if digits is None:
            self._record("FORMAT", f"{what} that is no plain integer")
            return 0
        self.position = digits.end()
        text = digits[0].lstrip(b"0")
        value = int(text or b"0") if len(text) <= 20 else BEYOND_64_BITS
        if value >= BEYOND_64_BITS:
            self._record("OVERFLOW", f"{what} beyond 64 bits")
        return value

    def _leave_array(self) -> None:
        """Find the way out of an array that LIS would have given up on."""
        end = self.data.find(b"]", self.position)
        if end < 0:
            raise self._lose("] is missing")
        self.position = end + 1

    def _finish(self, entry: _Entry) -> None:
        if entry.dtype is None or entry.dims is None or entry.offsets is None:
            self._record("FORMAT", "dtype, shape or data_offsets is missing")
            return
        begin, end = entry.offsets
        if end < begin or end > self.payload_bytes:
            self._record("FORMAT", f"data_offsets {begin} to {end} of {self.payload_bytes} bytes")
        width = LIS_WIDTH_BYTES.get(entry.dtype, 0)
        expected = _product(entry.dims) * width
        if expected >= BEYOND_64_BITS:
            self._record("OVERFLOW", "more bytes than 64 bits count")
        elif expected != end - begin:
            self._record("SHAPE_MISMATCH", f"{end - begin} bytes where the shape needs {expected}")

    def _skip(self) -> None:
        """Pass over a value by counting brackets, of either kind, outside strings."""
        depth = 0
        self._peek()
        while self.position < len(self.data):
            plain = _PLAIN.match(self.data, self.position)
            if plain is not None:
                self.position = plain.end()
                continue
            character = self.data[self.position : self.position + 1]
            if character == b'"':
                self._string()
                continue
            if depth == 0 and character == b",":
                return
            if character in b"{[":
                depth += 1
            elif character in b"}]":
                if depth == 0:
                    # A scalar that is the last member: LIS takes the brace for an unmatched one.
                    self._record("FORMAT", "a value that is passed over stands last in its object")
                    return
                depth -= 1
            self.position += 1
            if depth == 0 and character in b"}]":
                return
        raise self._lose("the header ends inside a value")


@dataclass(slots=True)
class _Entry:
    dtype: str | None = None
    dims: list[int] | None = None
    offsets: tuple[int, int] | None = None


def _product(dims: list[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count
