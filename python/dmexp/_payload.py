"""Stream tensors into a new file in one pass: payload first, header last.

The header stands in front of the payload but holds what only the payload shows, so its room is
reserved. Where all names and dims are known beforehand the room is exact. Where they are not (an
iterable), the payload is written behind a guess and moved once at the end.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _native
from ._arrays import OWED_BYTES, Array, non_finite, require_float, segments
from ._atomic import replacing
from ._dtypes import WIDTH_BYTES
from ._emit import (
    PREFIX_BYTES,
    HeaderFacts,
    TensorLine,
    Totals,
    header_text,
    padded,
    room_bytes,
)
from ._header import MAGIC
from ._header_toml import VERSION
from .errors import InvalidArgumentError, TruncatedError
from .families import Verdict

Progress = Callable[[int, int | None], object]
"""Called with bytes of source done, and in all where that is known."""

_BATCH_BYTES = 128 << 20
"""Source bytes that are handed to native code together: threads wait for each other at the end of
each batch, and whoever pressed Ctrl-C waits for it too."""

_LARGE_BYTES = 1 << 20
_GUESSED_ROOM_BYTES = 1 << 16

_MOST_VALUES = (2**63 - 1) // 4
"""A reader refuses a tensor that it could not widen to float32."""

_PREFIX = struct.Struct("<8sIQI")


class Tensor(NamedTuple):
    """A tensor whose shape is known before its values are read."""

    name: str
    dims: tuple[int, ...]


class TensorReport(NamedTuple):
    """What narrowing one tensor cost."""

    name: str
    dims: tuple[int, ...]
    source_dtype: str
    flushed: int
    subnormal: int
    max_abs: float
    min_nonzero_abs: float
    crc32: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was written.

    Attributes
    ----------
    path : str
    dtype : str
    file_bytes, num_params, num_tensors : int
    flushed : int
        Values that were non-zero before narrowing and are zero after.
    subnormal : int
        Non-zero values stored below the dtype's smallest normal.
    max_abs, min_nonzero_abs : float
        Magnitudes after narrowing; 0.0 where there is no (non-zero) value.
    crc32 : int
        Of the payload.
    shapes : Verdict
        Whether the config describes the tensors.
    tensors : tuple of TensorReport
        In file order.
    """

    path: str
    dtype: str
    file_bytes: int
    num_params: int
    num_tensors: int
    flushed: int
    subnormal: int
    max_abs: float
    min_nonzero_abs: float
    crc32: int
    shapes: Verdict
    tensors: tuple[TensorReport, ...]


class Names:
    """The names of one file, checked as they come."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def add(self, name: object) -> str:
        """Check one name and note it.

        Raises
        ------
        InvalidArgumentError
            For a name that is not a string, is empty, was there before, or holds control
            characters or half of a surrogate pair.
        """
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"a tensor is named {name!r}; names are strings.", argument="tensors"
            )
        if not name:
            raise InvalidArgumentError("a tensor has an empty name.", argument="tensors")
        if not name.isprintable() and any(_is_control(letter) for letter in name):
            raise InvalidArgumentError(
                f"the tensor name {name!r} holds a control character or half of a surrogate pair. "
                "Rename the tensor.",
                argument="tensors",
            )
        if name in self._seen:
            raise InvalidArgumentError(f"two tensors are named {name!r}.", argument="tensors")
        self._seen.add(name)
        return name


def _is_control(letter: str) -> bool:
    code = ord(letter)
    return code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF


@dataclass(frozen=True, slots=True)
class Job:
    """One file to be written.

    Attributes
    ----------
    facts : HeaderFacts
    tensors : iterable of (str, ndarray)
        Consumed one at a time.
    known : sequence of Tensor or None
        The same tensors by name and dims, where they are known before they are read. Small arrays
        are then held a few at a time; otherwise each is done with before the next is asked for.
    hold : bool
        Whether large arrays may be held too. Not where a source may have built them.
    describe : callable
        Compares the tensor list with the config; called before the payload is read if possible.
    lenient : bool
        Report a config that does not describe the tensors instead of refusing it.
    threads : int
    progress : callable or None
    total_bytes : int or None
        Source bytes in all, for ``progress``.
    """

    facts: HeaderFacts
    tensors: Iterable[tuple[str, Array]]
    known: Sequence[Tensor] | None
    describe: Callable[[Sequence[Tensor]], Verdict]
    threads: int
    progress: Progress | None = None
    total_bytes: int | None = None
    hold: bool = True
    lenient: bool = False


def write_file(job: Job, target: Path, *, sync: bool = True) -> Report:
    """Write a new file at ``target``, or leave everything as it was and raise."""
    shapes, room = _prepare(job)
    with replacing(target, sync=sync) as temporary:
        writer = _native.PayloadWriter(temporary, job.facts.dtype, room, job.threads, sync)
        try:
            report = _write(writer, job, shapes, room, str(target))
            if sync:
                writer.sync()
        finally:
            writer.close()
    return report


def write_bytes(job: Job) -> bytes:
    """The bytes that `write_file` would write."""
    shapes, room = _prepare(job)
    writer = _native.PayloadWriter(None, job.facts.dtype, room, job.threads)
    _write(writer, job, shapes, room, "")
    return writer.take()


def _prepare(job: Job) -> tuple[Verdict | None, int]:
    """The verdict on the shapes and where the payload starts, as far as known before it."""
    if job.known is None:
        return None, PREFIX_BYTES + _GUESSED_ROOM_BYTES
    names = Names()
    for tensor in job.known:
        names.add(tensor.name)
    shapes = _shapes(job, job.known)
    return shapes, PREFIX_BYTES + room_bytes(job.facts, job.known, _count(job.known))


def _shapes(job: Job, tensors: Sequence[Tensor]) -> Verdict:
    shapes = job.describe(tensors)
    if not job.lenient:
        shapes.require()
    return shapes


def _write(
    writer: _native.PayloadWriter, job: Job, shapes: Verdict | None, room: int, path: str
) -> Report:
    facts = job.facts
    lost = _native.pages_lost()
    if job.known is not None:
        writer.reserve(room + _count(job.known) * WIDTH_BYTES[facts.dtype])
    stream = _Stream(writer, job)
    for name, array in job.tensors:
        stream.add(name, array)
    stream.flush()
    if _native.pages_lost() != lost:
        raise TruncatedError(
            "a mapped file shrank while its tensors were read, so some of their values are lost. "
            "Copy the file before reading it, or get it again."
        )
    tensors = stream.tensors
    if shapes is None:
        shapes = _shapes(job, tensors)
    num_params = _count(tensors)
    tallies = writer.tallies(len(tensors))
    reports = tuple(
        TensorReport(tensor.name, tensor.dims, source, t[1], t[2], t[5], t[6], t[9])
        for tensor, source, t in zip(tensors, stream.sources, tallies, strict=True)
    )
    totals = sum_up(reports)
    lines = [TensorLine(report.name, report.dims, report.crc32) for report in reports]
    text = header_text(facts, lines, num_params, totals)
    length = room - PREFIX_BYTES
    if job.known is None:
        length = room_bytes(facts, tensors, num_params)
    if facts.compat:
        length = len(text)
    if PREFIX_BYTES + length != room:
        while not writer.move_to(PREFIX_BYTES + length):
            pass
    payload_bytes = num_params * WIDTH_BYTES[facts.dtype]
    crc32 = writer.crc32()
    prefix = _PREFIX.pack(MAGIC + bytes([VERSION]), length, payload_bytes, crc32)
    writer.write_at(0, prefix + padded(text, length))
    return Report(
        path=path,
        dtype=facts.dtype,
        file_bytes=PREFIX_BYTES + length + payload_bytes,
        num_params=num_params,
        num_tensors=len(tensors),
        flushed=totals.flushed,
        subnormal=totals.subnormal,
        max_abs=totals.max_abs,
        min_nonzero_abs=totals.min_nonzero_abs,
        crc32=crc32,
        shapes=shapes,
        tensors=reports,
    )


class _Stream:
    """Hands arrays to the native writer, small ones together where they may be held."""

    def __init__(self, writer: _native.PayloadWriter, job: Job) -> None:
        self.tensors: list[Tensor] = []
        self.sources: list[str] = []
        self._writer = writer
        self._job = job
        self._names = Names()
        self._held: dict[int, Array] = {}
        self._batch: list[tuple[int, Array, str]] = []
        self._batch_bytes = 0
        self._owed_bytes = 0
        self._done_bytes = 0

    def add(self, name: str, array: Array) -> None:
        """Write one tensor, now or with the next ones."""
        name = self._names.add(name)
        dtype = require_float(array, name)
        place = len(self.tensors)
        tensor = Tensor(name, tuple(array.shape))
        known = self._job.known
        if known is not None and (place >= len(known) or known[place] != tensor):
            raise InvalidArgumentError(
                f"tensor {name!r} has dims {list(tensor.dims)}, which is not what its source "
                "announced. The source changed while it was read.",
                argument="tensors",
            )
        self.tensors.append(tensor)
        self.sources.append(dtype)
        self._held[place] = array
        mapped = _is_mapped(array)
        for part in segments(array, dtype):
            self._batch.append((place, part, dtype))
            self._batch_bytes += part.nbytes
            if mapped or not np.may_share_memory(part, array):
                self._owed_bytes += part.nbytes
            if self._batch_bytes >= _BATCH_BYTES or self._owed_bytes >= OWED_BYTES:
                self.flush()
        built = not (self._job.hold or mapped) and array.nbytes >= _LARGE_BYTES
        # An iterable may put the next tensor into the same memory.
        if known is None or built:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        if not self._batch:
            return
        bad = self._writer.write(self._batch)
        if bad is not None:
            place, index = bad
            name, dtype = self.tensors[place].name, self._job.facts.dtype
            raise non_finite(name, self._held[place], index, dtype)
        self._done_bytes += self._batch_bytes
        self._batch.clear()
        self._batch_bytes = self._owed_bytes = 0
        last = len(self.tensors) - 1
        self._held = {last: self._held[last]} if last in self._held else {}
        if self._job.progress is not None:
            self._job.progress(self._done_bytes, self._job.total_bytes)


def _is_mapped(array: Array) -> bool:
    """Whether an array lies over a file's bytes."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, _native.FileBytes)


def sum_up(reports: Sequence[TensorReport]) -> Totals:
    """The totals that a header states, from those of its tensors."""
    return Totals(
        flushed=sum(report.flushed for report in reports),
        subnormal=sum(report.subnormal for report in reports),
        max_abs=max((report.max_abs for report in reports), default=0.0),
        min_nonzero_abs=min(
            (report.min_nonzero_abs for report in reports if report.min_nonzero_abs), default=0.0
        ),
    )


def _count(tensors: Iterable[Tensor]) -> int:
    total = 0
    for tensor in tensors:
        # An empty tensor too has dims that a reader has to multiply.
        if math.prod(dim for dim in tensor.dims if dim) > _MOST_VALUES:
            raise InvalidArgumentError(
                f"tensor {tensor.name!r} has dims {list(tensor.dims)}, beyond 64 bits in bytes. "
                "Leave it out.",
                argument="tensors",
            )
        total += math.prod(tensor.dims)
    if total > _MOST_VALUES:
        raise InvalidArgumentError(
            f"the tensors have {total} values, beyond 64 bits in bytes. Leave some out.",
            argument="tensors",
        )
    return total
