"""`save_file` and `save`: arrays in, one file out."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._arrays import Array, as_array, require_float
from ._dtypes import storage_dtype
from ._emit import HeaderFacts, config_text, metadata_text
from ._header_toml import parse_toml
from ._payload import Job, Progress, Report, Tensor, write_bytes, write_file
from ._threads import resolve
from .errors import InvalidArgumentError
from .families import Verdict, describe

Tensors = Mapping[str, Any] | Iterable[tuple[str, Any]]

_I64_MAX = 2**63 - 1
_SEPARATORS = (os.sep, os.altsep or os.sep)


def save_file(
    tensors: Tensors,
    path: str | os.PathLike[str],
    *,
    dtype: str = "bf16",
    config: str | Mapping[str, Any] | None = None,
    source: str = "",
    step: int = 0,
    metadata: Mapping[str, Any] | None = None,
    compat: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    sync: bool = True,
) -> Report:
    """Write tensors to a ``.dmexp`` file, narrowed to one dtype, counted and checksummed.

    The file is written beside the target and put in its place when it is whole: on any exception
    the old file is as it was and nothing else is left. The same input gives the same bytes,
    whatever the thread count or the platform.

    Parameters
    ----------
    tensors : mapping or iterable of (str, array)
        Names and values in file order. float32, float64, float16 or bfloat16, of any shape
        (0-d and empty ones too), memory order, stride, byte order and alignment; no array is
        changed. An iterable is consumed one tensor at a time, and memory does not grow with it;
        its payload is moved once at the end, when the header's length is known.
    path : path-like
        The target. A symlink is followed; mode bits are kept.
    dtype : {"bf16", "f16", "f32"}
        What every value is stored as. Synonyms are accepted (``float16``, ``half`` …).
    config : str or mapping, optional
        The model's configuration: TOML text, or a mapping that is written as TOML. Where it names
        a family that is known, it has to describe the tensors.
    source : str
        What the weights came from, for the header.
    step : int
        Training step; 0 where there is none.
    metadata : mapping, optional
        Whatever should travel with the file; strings, numbers, booleans, lists and tables.
    compat : {"dormouse"}, optional
        Leave out what the format's first writer does not write; the file is then byte for byte
        what it would have written.
    threads : int, optional
        Threads that narrow and write; ``DMEXP_NUM_THREADS``, or all CPUs, when not given.
    progress : callable, optional
        Called as ``progress(done_bytes, total_bytes)`` with bytes of source; the total is None for
        an iterable.
    sync : bool
        Wait until the file is on disk. Without it a power cut may lose the new file.

    Returns
    -------
    Report

    Raises
    ------
    NonFiniteError
        A NaN or an infinity in a tensor, or (`ValueOverflowError`) a finite value that the dtype
        would store as infinite. Names tensor, index, value and the dtype that would work.
        Subnormal results are kept; a value that rounds to zero is counted as flushed.
    UnsupportedDtypeError
        A tensor of integers, booleans, complex numbers or objects; an unknown ``dtype``.
    ShapeMismatchError
        The config does not describe the tensors.
    InvalidArgumentError
        A name twice, empty or with control characters; a config or metadata that is not TOML; a
        target that is not a regular file.
    OSError
        The target cannot be written.

    Notes
    -----
    Round to nearest, ties to even, as the format document defines it. Do not change an array while
    it is being saved.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> report = dmexp.save_file({"w": np.float32([1.0, -2.5])}, "w.dmexp", dtype="bf16")
    >>> report.num_params, report.flushed
    (2, 0)
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {type(path).__name__}; str and os.PathLike are accepted")
    # A Path forgets what these two say.
    name = os.fspath(path)
    if not name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if name.endswith(_SEPARATORS):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    job = _job(tensors, dtype, config, source, step, metadata, compat, threads, progress)
    return write_file(job, Path(path), sync=sync)


def save(
    tensors: Tensors,
    *,
    dtype: str = "bf16",
    config: str | Mapping[str, Any] | None = None,
    source: str = "",
    step: int = 0,
    metadata: Mapping[str, Any] | None = None,
    compat: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> bytes:
    """The bytes of the file that `save_file` would write with the same arguments.

    Needs memory for the whole file, twice for a moment. Raises what `save_file` raises.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> data = dmexp.save({"w": np.float32([1.0, -2.5])})
    >>> dmexp.load(data)["w"]
    array([ 1. , -2.5], dtype=float32)
    """
    return write_bytes(
        _job(tensors, dtype, config, source, step, metadata, compat, threads, progress)
    )


def _job(
    tensors: Tensors,
    dtype: str,
    config: str | Mapping[str, Any] | None,
    source: str,
    step: int,
    metadata: Mapping[str, Any] | None,
    compat: str | None,
    threads: int | None,
    progress: Progress | None,
) -> Job:
    facts = header_facts(dtype, config, source, step, metadata, compat)
    parsed = parse_toml(facts.config)

    def verdict(found: Sequence[Tensor]) -> Verdict:
        return describe(parsed, found)

    if isinstance(tensors, Mapping):
        arrays = [(name, as_array(value, name)) for name, value in tensors.items()]
        for name, array in arrays:
            require_float(array, name)
        known = [Tensor(name, tuple(array.shape)) for name, array in arrays]
        total = sum(array.nbytes for _, array in arrays)
        return Job(
            facts,
            arrays,
            known,
            verdict,
            resolve(threads),
            progress,
            total,
            lenient=facts.compat,
        )
    pairs = _pairs(tensors)
    return Job(facts, pairs, None, verdict, resolve(threads), progress, lenient=facts.compat)


def header_facts(
    dtype: str,
    config: str | Mapping[str, Any] | None,
    source: str,
    step: int,
    metadata: Mapping[str, Any] | None,
    compat: str | None,
) -> HeaderFacts:
    """Check what the user says of the file as a whole."""
    if compat not in (None, "dormouse"):
        raise InvalidArgumentError(
            f"unknown compat {compat!r}. Known: 'dormouse'.", argument="compat"
        )
    if compat and metadata:
        raise InvalidArgumentError(
            "compat='dormouse' has no place for metadata. Leave one of the two out.",
            argument="metadata",
        )
    if not isinstance(source, str):
        raise TypeError(f"source is {type(source).__name__}; a str is expected")
    try:
        source.encode()
    except UnicodeEncodeError as cause:
        raise InvalidArgumentError(
            f"source {source!r} is not Unicode text.", argument="source"
        ) from cause
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise TypeError(f"step is {type(step).__name__}; an int is expected")
    if not 0 <= step <= _I64_MAX:
        raise InvalidArgumentError(f"step is {step}, expected 0 to {_I64_MAX}.", argument="step")
    return HeaderFacts(
        dtype=storage_dtype(dtype),
        source=source,
        step=int(step),
        config=config_text(config),
        metadata=metadata_text(metadata),
        compat=compat is not None,
    )


def _pairs(tensors: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Array]]:
    for nth, pair in enumerate(tensors):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidArgumentError(
                f"item {nth} of the iterable is {type(pair).__name__}, "
                "expected a (name, array) pair.",
                argument="tensors",
            )
        yield pair[0], as_array(pair[1], str(pair[0]))
