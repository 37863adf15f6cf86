"""`info` and `verify`: what a file says, and what its payload shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ._check import check_payload
from ._open import Opened
from ._threads import resolve
from .families import Verdict

Path = str | bytes | os.PathLike[Any]


class TensorInfo(NamedTuple):
    """Where one tensor lies: ``offset`` and ``nbytes`` are bytes in the file."""

    name: str
    dims: tuple[int, ...]
    offset: int
    nbytes: int
    crc32: int | None


@dataclass(frozen=True, slots=True)
class Info:
    """What a file says of itself. Counts are of values; sizes are in bytes.

    Attributes
    ----------
    checksum : {"ok", "not checked"}
    config : str
        TOML text.
    shapes : Verdict
        Whether the config describes the tensors.
    ram_as_f32_bytes : int
        Memory that all tensors need as float32.
    """

    path: str
    file_bytes: int
    format_version: int
    dtype: str
    source: str
    step: int
    num_params: int
    num_tensors: int
    flushed: int
    subnormal: int | None
    max_abs: float
    min_nonzero_abs: float
    checksum: Literal["ok", "not checked"]
    config: str
    metadata: dict[str, Any]
    writer: str | None
    shapes: Verdict
    tensors: tuple[TensorInfo, ...]
    header_bytes: int
    payload_bytes: int
    extra: dict[str, Any]

    @property
    def ram_as_f32_bytes(self) -> int:
        return 4 * self.num_params


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `verify` checked; it raises where a check fails, so ``ok`` is always true."""

    path: str
    ok: Literal[True]
    file_bytes: int
    dtype: str
    num_params: int
    num_tensors: int
    checks: tuple[str, ...]
    shapes: Verdict


def info(path: Path, *, verify: bool = True, threads: int | None = None) -> Info:
    """Say what a file holds.

    Prefix, length, header, its arithmetic, and the config against the tensors are checked; the
    payload's checksum and the header's claims about it too, unless ``verify`` is false: then the
    payload is not touched.

    Parameters
    ----------
    path : str, bytes or path-like
    verify : bool
    threads : int, optional
        ``DMEXP_NUM_THREADS``, or all CPUs, when not given.

    Returns
    -------
    Info

    Raises
    ------
    FileFormatError
        Any refusal of the format document; see `dmexp.errors`.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> _ = dmexp.save_file({"w": np.float32([1.0, -2.5])}, "w.dmexp", step=7)
    >>> found = dmexp.info("w.dmexp")
    >>> found.dtype, found.step, found.num_params, found.max_abs, found.checksum
    ('bf16', 7, 2, 2.5, 'ok')
    """
    opened = Opened(path)
    header = opened.header
    with opened.named():
        header.shapes.require()
        if verify:
            check_payload(header, opened.scan(resolve(threads)), opened.data)
    tensors = []
    for place in range(len(header.index)):
        name, dims, offset, nbytes, crc32 = header.index.get(place)
        tensors.append(TensorInfo(name, dims, header.payload_offset + offset, nbytes, crc32))
    return Info(
        path=str(opened.path),
        file_bytes=len(opened.data),
        format_version=header.format,
        dtype=header.dtype,
        source=header.source,
        step=header.step,
        num_params=header.num_params,
        num_tensors=header.num_tensors,
        flushed=header.flushed,
        subnormal=header.subnormal,
        max_abs=header.max_abs,
        min_nonzero_abs=header.min_nonzero_abs,
        checksum="ok" if verify else "not checked",
        config=header.config,
        metadata=header.metadata,
        writer=header.writer,
        shapes=header.shapes,
        tensors=tuple(tensors),
        header_bytes=header.payload_offset - 24,
        payload_bytes=header.payload_bytes,
        extra=header.extra,
    )


def verify(path: Path, *, threads: int | None = None) -> VerifyReport:
    """Check everything that the format lets a reader refuse.

    Parameters
    ----------
    path : str, bytes or path-like
    threads : int, optional
        ``DMEXP_NUM_THREADS``, or all CPUs, when not given.

    Returns
    -------
    VerifyReport
        ``checks`` lists what was done; a config of an unknown family is never claimed as checked.

    Raises
    ------
    FileFormatError
        The first refusal in the format document's order; a damaged tensor is named where the file
        has tensor checksums.
    NonFiniteError
        A stored NaN or infinity.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> _ = dmexp.save_file({"w": np.float32([1.0, -2.5])}, "w.dmexp")
    >>> dmexp.verify("w.dmexp").ok
    True
    """
    opened = Opened(path)
    header = opened.header
    with opened.named():
        shapes = header.shapes
        shapes.require()
        check_payload(header, opened.scan(resolve(threads)), opened.data)
    checks = ["prefix", "length", "header", "tensor table", "payload checksum"]
    if len(header.index) and header.index.all_have_crc32():
        checks.append("tensor checksums")
    checks += ["finite values", "recomputed counts"]
    if shapes.status == "yes":
        checks.append("config against tensors")
    return VerifyReport(
        path=str(opened.path),
        ok=True,
        file_bytes=len(opened.data),
        dtype=header.dtype,
        num_params=header.num_params,
        num_tensors=header.num_tensors,
        checks=tuple(checks),
        shapes=shapes,
    )
