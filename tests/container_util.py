"""Files made without the package, arrays compared by their bits, code run in a fresh process."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import dmexp
from dmexp._header import Header, read_header
from dmexp.errors import DmexpError

Array = npt.NDArray[Any]

HERE = Path(__file__).resolve().parent
GOOD = HERE / "corpus" / "dmexp" / "good"
HOSTILE = HERE / "corpus" / "dmexp" / "hostile"
CHECKPOINT = HERE / "corpus" / "dmexp" / "checkpoint"
VECTORS = HERE / "vectors"

NUMPY = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}


def manifest(directory: Path) -> dict[str, Any]:
    """What the corpus says of its files."""
    found: dict[str, Any] = json.loads((directory / "manifest.json").read_text("utf-8"))
    return found


def pack(header: str | bytes, payload: bytes = b"", **wrong: Any) -> bytes:
    """A whole file from its parts; ``magic``, ``header_bytes``, ``payload_bytes`` and ``crc32``
    are what the prefix says where it is to be wrong."""
    if isinstance(header, str):
        header = header.encode()
    prefix = struct.pack(
        "<8sIQI",
        wrong.pop("magic", b"DMEXPRT\x01"),
        wrong.pop("header_bytes", len(header)),
        wrong.pop("payload_bytes", len(payload)),
        wrong.pop("crc32", zlib.crc32(payload)),
    )
    assert not wrong
    return prefix + header + payload


def top(**fields: str) -> str:
    """The keys above the tensors, as TOML text; each may be replaced, or left out as ``""``."""
    lines = {
        "format": "1",
        "dtype": '"f32"',
        "source": '""',
        "step": "0",
        "num_params": "0",
        "num_tensors": "0",
        "flushed": "0",
        "max_abs": "0.0",
        "min_nonzero_abs": "0.0",
        "config": '""',
    } | fields
    return "".join(f"{key} = {text}\n" for key, text in lines.items() if text)


def table(name: str, dims: Sequence[int], more: str = "") -> str:
    """One tensor of a header; ``name`` needs no escapes."""
    return f'\n[[tensors]]\nname = "{name}"\ndims = {list(dims)}\noverflowed = 0\n{more}'


def plain(tensors: Mapping[str, Sequence[int]], values: Array, **fields: str) -> bytes:
    """A whole f32 file of the given names and dims, whose values are ``values`` in a row."""
    flat = np.asarray(values, "<f4").reshape(-1)
    magnitudes = np.abs(flat)
    least = magnitudes[magnitudes > 0]
    facts = {
        "num_params": str(flat.size),
        "num_tensors": str(len(tensors)),
        "max_abs": repr(float(magnitudes.max(initial=0.0))),
        "min_nonzero_abs": repr(float(least.min())) if least.size else "0.0",
    }
    header = top(**(facts | fields)) + "".join(table(name, dims) for name, dims in tensors.items())
    return pack(header, flat.tobytes())


def split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Prefix, header and payload of a whole file."""
    (length,) = struct.unpack_from("<I", data, 8)
    return data[:24], data[24 : 24 + length], data[24 + length :]


def bits(array: Array) -> Array:
    """The bits of an array's values, as unsigned integers of the same shape."""
    array = np.asarray(array)
    width = array.dtype.itemsize
    return np.frombuffer(array.tobytes(), f"<u{width}").reshape(array.shape)


def assert_same(found: Array, expected: Array) -> None:
    """Same dtype, same dims, same bits."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def assert_same_tensors(found: dict[str, Array], expected: dict[str, Array]) -> None:
    """The same names in the same order, and `assert_same` for each."""
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert_same(found[name], array)


def f32(values: Any) -> Array:
    """Values as a float32 array."""
    return np.array(values, "<f4")


def noise(seed: int, *dims: int, dtype: str = "f4") -> Array:
    """Normal values of every magnitude that matters, the same on each run."""
    return np.random.default_rng(seed).standard_normal(dims).astype(dtype)


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> DmexpError:
    """The error that a call ends in; any other exception, or none, is a failure."""
    try:
        call(*arguments, **options)
    except DmexpError as error:
        return error
    raise AssertionError(f"{call} accepted {arguments!r:.200}")


def everything(data: bytes) -> dict[str, Any]:
    """All that a reader returns of a file, as plain data."""
    header = header_of(data)
    return {
        "dtype": header.dtype,
        "source": header.source,
        "step": header.step,
        "num_params": header.num_params,
        "num_tensors": header.num_tensors,
        "flushed": header.flushed,
        "subnormal": header.subnormal,
        "max_abs": header.max_abs,
        "min_nonzero_abs": header.min_nonzero_abs,
        "config": header.config,
        "metadata": header.metadata,
        "writer": header.writer,
        "extra": header.extra,
        "tensor_extra": header.tensor_extra,
        "tensors": [
            (name, array.shape, array.tobytes()) for name, array in dmexp.load(data).items()
        ],
    }


def header_of(data: bytes) -> Header:
    """The header of a whole file, checked against its lengths alone."""
    return read_header(data, len(data), None)


def read_lazily(path: Path) -> dict[str, Array]:
    """Every tensor of a file through `dmexp.safe_open`."""
    with dmexp.safe_open(path) as file:
        return dict(file.items())


def left_in(directory: Path) -> list[str]:
    """All names in a directory, hidden ones included."""
    return sorted(os.listdir(directory))


def pieces(arrays: dict[str, Array]) -> Iterable[tuple[str, Array]]:
    """The same tensors as an iterable that can be walked once."""
    yield from arrays.items()


def run(code: str, *arguments: object, **variables: str) -> str:
    """What a new interpreter prints for ``code``; a warning or a traceback there is a failure."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(HERE)} | variables,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
