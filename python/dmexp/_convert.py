"""``.dmexp`` to ``.dmexp`` in another dtype, or out to a Hugging Face directory."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli
import tomli_w

from ._arrays import Array
from ._diff import diff
from ._dtypes import WIDTH_BYTES, storage_dtype
from ._hf_writer import DEFAULT_SHARD_BYTES
from ._payload import Job, Progress, Tensor, write_file
from ._threads import resolve
from ._writer import header_facts
from .errors import InvalidArgumentError, TargetExistsError
from .families import Verdict, describe
from .loaders.dmexp_file import DmexpSource

# Every value of the key is a value of each of these.
_HOLDS = {"bf16": ("bf16", "f32"), "f16": ("f16", "f32"), "f32": ("f32",)}

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What was written, and what it cost.

    Attributes
    ----------
    path
        The file or the directory.
    kind
        ``"file"`` or ``"directory"``.
    files
        Names inside the directory; empty for a file.
    source_dtype, dtype
        Of the file that was read, and of what was written.
    written_bytes
        Length of the file, or of all files of the directory.
    changed
        Values that are not what they were. 0 where the new dtype holds every value of the old.
    flushed
        Of those, values that were non-zero and are zero.
    max_abs_change, max_relative_change
        The largest change, absolute and relative to the larger magnitude.
    notices
        Sentences for people.
    """

    path: str
    kind: str
    source_dtype: str
    dtype: str
    num_params: int
    num_tensors: int
    written_bytes: int
    files: tuple[str, ...] = ()
    changed: int = 0
    flushed: int = 0
    max_abs_change: float = 0.0
    max_relative_change: float = 0.0
    notices: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return dataclasses.asdict(self) | {"files": list(self.files)}


def convert(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    dtype: str = "stored",
    shard_size: int | str = DEFAULT_SHARD_BYTES,
    force: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    sync: bool = True,
) -> ConvertReport:
    """Convert a ``.dmexp`` file.

    Parameters
    ----------
    path
        The file to read. Every tensor is checked on the way.
    out
        Ends with ``.dmexp``: a file in another dtype. Anything else: a directory that
        ``transformers`` loads, with ``config.json``, ``model.safetensors`` or shards, the
        tokenizer where the file carries one, and ``dmexp.json`` for what those have no place for.
    dtype
        ``"stored"`` or one of the three storage dtypes.
    shard_size
        Bytes of tensors in one safetensors file at most, or text such as ``"5GB"``.
    force
        Replace ``out``: a file, or a directory that an earlier conversion wrote.

    Returns
    -------
    ConvertReport
        With what a second narrowing cost, counted against the values that were read.

    Raises
    ------
    TargetExistsError
        ``out`` is there, and ``force`` is not given.
    ValueOverflowError
        A value that the dtype cannot hold; nothing is written.
    InvalidArgumentError, FileFormatError, ChecksumError, OSError
    """
    to = Path(out)
    with DmexpSource(path) as source:
        stored = source_dtype(source)
        wanted = stored if dtype == "stored" else storage_dtype(dtype)
        if to.suffix.lower() == ".dmexp" and not to.is_dir():
            report = _to_file(source, to, stored, wanted, force, threads, progress, sync)
        else:
            from ._convert_hf import to_directory

            report = to_directory(
                source,
                to,
                stored=stored,
                dtype=wanted,
                shard_bytes=shard_bytes(shard_size),
                force=force,
                progress=progress,
                sync=sync,
            )
    return _with_cost(report)


def shard_bytes(size: int | str) -> int:
    """A size in bytes from ``5000000000``, ``"5GB"`` (10⁹) or ``"5GiB"`` (2³⁰).

    Raises
    ------
    InvalidArgumentError
        Anything else, and anything below one byte.
    """
    if isinstance(size, str):
        text = size.strip().lower()
        digits = text.rstrip("bgikmt")
        unit = _UNITS.get(text[len(digits) :].strip())
        number = digits.strip()
        if unit is not None and number.isascii() and number.isdigit() and len(number) < 16:
            size = int(number) * unit
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidArgumentError(
            f"the shard size is {size!r}, expected bytes, or text such as '5GB' or '512MiB'.",
            argument="shard_size",
        )
    return size


def source_dtype(source: DmexpSource) -> str:
    return source.header.dtype


def _to_file(
    source: DmexpSource,
    out: Path,
    stored: str,
    dtype: str,
    force: bool,
    threads: int | None,
    progress: Progress | None,
    sync: bool,
) -> ConvertReport:
    if not force and os.path.lexists(out):
        raise TargetExistsError(
            f"{out} exists. Name another file with -o, or replace it with --force.",
            target=str(out),
        )
    entries = source.entries()
    facts = dataclasses.replace(
        header_facts(
            dtype,
            source.info.config,
            source.info.label,
            source.info.step,
            carried_metadata(source),
            None,
        ),
        extra=extra_text(source.header.extra),
    )
    config = tomli.loads(facts.config)

    def arrays() -> Iterator[tuple[str, Array]]:
        for entry in entries:
            yield entry.name, source.read(entry.name)

    def verdict(tensors: Sequence[Tensor]) -> Verdict:
        return describe(config, tensors)

    job = Job(
        facts,
        arrays(),
        [Tensor(entry.name, entry.dims) for entry in entries],
        verdict,
        resolve(threads),
        progress,
        source.header.num_params * WIDTH_BYTES[stored],
        hold=False,
    )
    written = write_file(job, out, sync=sync)
    changed = 0
    largest = relative = 0.0
    if dtype not in _HOLDS[stored]:
        # The file that was read is still open, even where the new one has taken its place.
        with DmexpSource(out) as after:
            found = diff(source, after).tensors
        changed = sum(tensor.differing for tensor in found)
        largest = max((tensor.max_abs for tensor in found), default=0.0)
        relative = max((tensor.max_relative for tensor in found), default=0.0)
    return ConvertReport(
        path=str(out),
        kind="file",
        source_dtype=stored,
        dtype=dtype,
        num_params=written.num_params,
        num_tensors=written.num_tensors,
        written_bytes=written.file_bytes,
        changed=changed,
        flushed=written.flushed,
        max_abs_change=largest,
        max_relative_change=relative,
    )


def carried_metadata(source: DmexpSource) -> dict[str, Any]:
    """The header's metadata, and under ``tensor_keys`` what single tensors say that is not ours."""
    metadata = dict(source.header.metadata)
    if source.header.tensor_extra:
        metadata["tensor_keys"] = source.header.tensor_extra
    return metadata


def extra_text(extra: Mapping[str, Any]) -> tuple[str, str]:
    """Unknown top-level keys as TOML text: plain values, and tables, which come after them."""

    texts = [tomli_w.dumps({key: value}) for key, value in extra.items()]
    tables = [text for text in texts if text.startswith("[")]
    plain = [text.rstrip("\n") for text in texts if not text.startswith("[")]
    return "\n".join(plain), "\n".join(tables)


def _with_cost(report: ConvertReport) -> ConvertReport:
    stored, dtype = report.source_dtype, report.dtype
    if dtype == stored:
        return report
    if dtype in _HOLDS[stored]:
        report.notices.append(
            f"{dtype} holds every {stored} value, so nothing changed; what the export to {stored} "
            "rounded away does not come back."
        )
        return report
    once = (
        f"The values were rounded to {stored} before, so this is a second rounding: narrowing the "
        f"original to {dtype} directly can differ from it by one step."
    )
    report.notices.append(
        f"{report.changed:,} of {report.num_params:,} values changed, by at most "
        f"{report.max_abs_change:.3g} (relative {report.max_relative_change:.3g}); "
        f"{report.flushed:,} became zero. {once if stored != 'f32' else ''}".rstrip()
    )
    return report
