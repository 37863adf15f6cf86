"""What must hold for any bytes at all. A target gives the outcome as a word, or raises.

Two readers that both accept a file have to agree on it; whatever is refused has to be refused
with one of our own errors; and nothing may take more memory than the file justifies.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors

from dmexp.errors import DmexpError, FileFormatError, UnsupportedDtypeError
from dmexp.loaders.gguf import GgufHeader, SkippedArray, gguf_info, open_gguf, read_header
from dmexp.loaders.safetensors import SafetensorsFile

REFUSALS = (FileFormatError, UnsupportedDtypeError)


class Disagreement(AssertionError):
    """Two readers accept a file and see different things in it."""


def check_gguf(path: Path) -> str:
    """Parse, compare with the reference reader, and go all the way to the tensors."""
    data_bytes = path.stat().st_size
    try:
        header = read_header(path, check_extent=True)
    except REFUSALS as error:
        if error.path != str(path):
            raise Disagreement(f"a refusal that does not name the file: {error}") from error
        return way(error)
    _check_arrays(header)
    for tensor in header.tensors:
        assert 0 <= tensor.offset <= tensor.offset + tensor.nbytes <= data_bytes
        assert tensor.offset % header.alignment == 0
    _compare_with_reference(path, header)
    try:
        assert gguf_info(path)["num_tensors"] == len(header.tensors)
        with open_gguf(path) as source:
            for entry in source.entries():
                array = source.read(entry.name)
                assert array.shape == entry.dims
                assert array.size == math.prod(entry.dims)
    except DmexpError as error:
        return f"read-{way(error)}"
    return "opened"


def way(error: DmexpError) -> str:
    """A word for the way in which something is refused: the code, and what refused it."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        place = trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    return f"{error.code}.{place}"


def _check_arrays(header: GgufHeader) -> None:
    for value in header.metadata.values():
        if isinstance(value, SkippedArray):
            try:
                values = value.values()
            except FileFormatError:
                continue
            assert len(values) == value.count


def _compare_with_reference(path: Path, header: GgufHeader) -> None:
    try:
        with np.errstate(all="ignore"):
            peer = gguf.GGUFReader(str(path))
    except Exception:
        # It stops at things that we read, such as scalars and arrays of arrays.
        return
    found = [
        (t.name, tuple(int(dim) for dim in reversed(t.shape)), t.tensor_type.name, t.data_offset)
        for t in peer.tensors
    ]
    ours = [(t.name, t.dims, t.type_name, t.offset) for t in header.tensors]
    if ours != found:
        raise Disagreement(f"tensors: {ours} here, {found} there")
    keys = [key for key in peer.fields if not key.startswith("GGUF.")]
    # The peer numbers repeated keys, which we refuse; its own three begin with GGUF.
    if keys != [key for key in header.metadata if not key.startswith("GGUF.")]:
        raise Disagreement(f"keys: {list(header.metadata)} here, {keys} there")


def check_safetensors(path: Path) -> str:
    """Parse and read everything; where we accept, so must the reference, with the same bytes."""
    try:
        with SafetensorsFile(path) as file:
            entries = {entry.name: entry for entry in file.entries()}
            arrays: dict[str, Any] = {name: file.read(name) for name in entries}
    except REFUSALS as error:
        return way(error)
    try:
        peer = dict(safetensors.deserialize(path.read_bytes()))
    except Exception as error:
        raise Disagreement(f"accepted here, refused by the reference: {error}") from error
    if set(peer) != set(entries):
        raise Disagreement(f"names: {sorted(entries)} here, {sorted(peer)} there")
    for name, described in peer.items():
        ours = (entries[name].dtype.upper(), list(entries[name].dims), arrays[name].tobytes())
        theirs = (described["dtype"], list(described["shape"]), bytes(described["data"]))
        if ours[:2] != theirs[:2] or ours[2] != theirs[2]:
            raise Disagreement(f"tensor {name!r}: {ours[:2]} here, {theirs[:2]} there")
    return "opened"
