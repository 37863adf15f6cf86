"""From any source to a file: choose the tensors, refuse what cannot be stored, write."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._arrays import Array
from ._dtypes import WIDTH_BYTES, storage_dtype
from ._header_toml import parse_toml
from ._payload import Job, Progress, Report, Tensor, TensorReport, write_file
from ._threads import resolve
from ._writer import header_facts
from .errors import InvalidArgumentError, TargetExistsError, UnsupportedDtypeError
from .families import Verdict, describe
from .loaders._source import Source, TensorEntry

_FLOATS = ("f32", "f64", "f16", "bf16")
_NAMED_AT_MOST = 8


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written, and what it was made from. Fields as in `Report`, and the source's."""

    path: str
    dtype: str
    file_bytes: int
    source_bytes: int
    num_params: int
    num_tensors: int
    flushed: int
    subnormal: int
    max_abs: float
    min_nonzero_abs: float
    shapes: Verdict
    notices: list[str]
    per_tensor: tuple[TensorReport, ...]


def export(
    source: Source,
    out: Path,
    *,
    dtype: str = "bf16",
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    source_label: str | None = None,
    step: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    compat: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    force: bool = False,
    sync: bool = True,
) -> ExportReport:
    """Write the tensors of an open source to ``out``.

    Tensors are read one at a time; memory is bounded by the largest of them. Everything that can
    be refused from headers alone is refused before a value is read.

    Parameters
    ----------
    source : Source
    out : Path
        Refused where it exists, unless ``force``.
    include, exclude : sequences of shell patterns
        Names to keep and names to leave out; ``exclude`` wins.
    source_label, step
        What the header says instead of what the source says.
    metadata : mapping, optional
        Added to the source's own.

    Raises
    ------
    TargetExistsError
    UnsupportedDtypeError
        Tensors that are no floats; the message prints the ``--exclude`` that leaves them out.
    InvalidArgumentError
        No tensor is left, or what `save_file` refuses.
    NonFiniteError, ShapeMismatchError, OSError
        As `save_file`.
    """
    dtype = storage_dtype(dtype)
    if not force and os.path.lexists(out):
        raise TargetExistsError(
            f"{out} exists. Name another file with -o, or replace it with --force.",
            target=str(out),
        )
    notices = list(source.info.notices)
    entries = source.entries()
    chosen = choose(entries, include, exclude, notices)
    require_floats(chosen, source)
    notices += _dtype_notices(chosen, dtype)
    if compat and source.info.metadata:
        keys = ", ".join(source.info.metadata)
        notices.append(f"--compat {compat} leaves out the metadata of the source: {keys}.")
    facts = header_facts(
        dtype,
        source.info.config,
        _as_text(source.info.label) if source_label is None else source_label,
        source.info.step if step is None else step,
        None if compat else {**source.info.metadata, **(metadata or {})},
        compat,
    )
    if compat and metadata:
        raise InvalidArgumentError(
            f"--compat {compat} has no place for metadata. Leave one of the two out.",
            argument="metadata",
        )
    parsed = parse_toml(facts.config)

    def verdict(found: Sequence[Tensor]) -> Verdict:
        return describe(parsed, found)

    def arrays() -> Iterator[tuple[str, Array]]:
        for entry in chosen:
            yield entry.name, source.read(entry.name)

    job = Job(
        facts,
        arrays(),
        [Tensor(entry.name, entry.dims) for entry in chosen],
        verdict,
        resolve(threads),
        progress,
        sum(_values(entry) * WIDTH_BYTES[entry.dtype] for entry in chosen),
        hold=False,
    )
    report = write_file(job, out, sync=sync)
    # A loader may find something worth saying only while it reads.
    notices += [notice for notice in source.info.notices if notice not in notices]
    return _report(report, source.info.weight_bytes, notices)


def _as_text(path: str) -> str:
    """A path for the header, which is UTF-8; names of files are any bytes."""
    return os.fsencode(path).decode("utf-8", "replace")


def choose(
    entries: Sequence[TensorEntry],
    include: Sequence[str],
    exclude: Sequence[str],
    notices: list[str],
) -> list[TensorEntry]:
    """The tensors whose names match; patterns that match nothing are mentioned."""
    names = [entry.name for entry in entries]
    for option, patterns in (("--include", include), ("--exclude", exclude)):
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                notices.append(f"{option} {shlex.quote(pattern)} matches no tensor.")
    chosen = [
        entry
        for entry in entries
        if (not include or _matches(entry.name, include)) and not _matches(entry.name, exclude)
    ]
    if entries and not chosen:
        raise InvalidArgumentError(
            f"none of the {len(entries)} tensors is left by --include and --exclude.",
            argument="include",
        )
    return chosen


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def require_floats(entries: Sequence[TensorEntry], source: Source) -> None:
    """Refuse tensors that are no floats, all at once, with the way out."""
    others = [entry for entry in entries if entry.dtype not in _FLOATS]
    if not others:
        return
    listed = ", ".join(f"{entry.name!r} ({entry.dtype})" for entry in others[:_NAMED_AT_MOST])
    if len(others) > _NAMED_AT_MOST:
        listed += f" and {len(others) - _NAMED_AT_MOST} more"
    # A bracket starts a set in a pattern, so a literal one is put into a set of its own.
    patterns = [re.sub(r"([*?[])", r"[\1]", entry.name) for entry in others]
    options = " ".join(f"--exclude {shlex.quote(pattern)}" for pattern in patterns)
    tensors = "a tensor is no float" if len(others) == 1 else f"{len(others)} tensors are no floats"
    raise UnsupportedDtypeError(
        f"{tensors}, and only f32, f64, f16 and bf16 can be stored: {listed}. "
        f"Leave out what is not a weight: {options}",
        path=str(source.info.path),
        tensor=others[0].name,
        dtype=others[0].dtype,
        tensors=[entry.name for entry in others],
        known=list(_FLOATS),
    )


def _dtype_notices(entries: Sequence[TensorEntry], dtype: str) -> list[str]:
    counts = Counter(entry.dtype for entry in entries)
    notices = []
    if len(counts) > 1:
        listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        notices.append(f"the source mixes dtypes ({listed}); every tensor is stored as {dtype}.")
    for kept, other in (("f16", "bf16"), ("bf16", "f16")):
        if counts[kept] and dtype == other:
            tensors = "1 tensor is" if counts[kept] == 1 else f"{counts[kept]} tensors are"
            notices.append(
                f"{tensors} {kept} already, and {other} does not keep every "
                f"bit. --dtype {kept} would."
            )
    return notices


def _values(entry: TensorEntry) -> int:
    count = 1
    for dim in entry.dims:
        count *= dim
    return count


def _report(report: Report, source_bytes: int, notices: list[str]) -> ExportReport:
    return ExportReport(
        path=report.path,
        dtype=report.dtype,
        file_bytes=report.file_bytes,
        source_bytes=source_bytes,
        num_params=report.num_params,
        num_tensors=report.num_tensors,
        flushed=report.flushed,
        subnormal=report.subnormal,
        max_abs=report.max_abs,
        min_nonzero_abs=report.min_nonzero_abs,
        shapes=report.shapes,
        notices=notices,
        per_tensor=report.tensors,
    )
