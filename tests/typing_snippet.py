"""A user's program that touches every public name; ``mypy --strict`` must have nothing to say.

Not a test by itself: test_typing.py checks the types, and runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import dmexp
from dmexp import errors

Array = npt.NDArray[np.float32]


def stream(count: int) -> Iterator[tuple[str, Array]]:
    for index in range(count):
        yield f"layer.{index}", np.full((2, 3), index, np.float32)


def narrowing(values: Array) -> None:
    narrow: np.ndarray[Any, Any] = dmexp.narrow(values, "bf16")
    also, stats = dmexp.narrow_with_stats(values, "f16")
    flushed: int = stats.flushed
    largest: float = stats.max_abs
    wide: Array = dmexp.widen(narrow)
    print(wide.shape, also.dtype, flushed, largest, stats.count, stats.subnormal)


def checksums(data: bytes) -> None:
    whole: int = dmexp.crc32(data)
    head, tail = data[:3], data[3:]
    assert dmexp.crc32_combine(dmexp.crc32(head), dmexp.crc32(tail), len(tail)) == whole
    digest = dmexp.Crc32()
    digest.update(head)
    digest.update(tail)
    text: str = digest.copy().hexdigest()
    assert int(text, 16) == whole == int.from_bytes(digest.digest(), "big")


def files(folder: Path) -> None:
    path = folder / "model.dmexp"
    report = dmexp.save_file(
        stream(3), path, dtype="bf16", source="nowhere", step=2, metadata={"note": "text"}
    )
    print(report)
    arrays: dict[str, np.ndarray[Any, Any]] = dmexp.load_file(path, dtype="stored")
    data: bytes = dmexp.save(arrays, dtype="bf16")
    again = dmexp.load(data)
    assert list(again) == list(arrays)
    with dmexp.safe_open(path, verify=True) as file:
        names: list[str] = list(file.keys())
        first = file[names[0]]
        part = file.get_slice(names[1])[0:1]
        assert names[0] in file
        print(len(file), first.shape, part.shape, file.header.step, file.metadata())
        print(file.get_tensor(names[2]).dtype)
    info = dmexp.info(path)
    print(info.num_params, [tensor.name for tensor in info.tensors])
    verdict = dmexp.verify(path)
    print(verdict.checks)


def refusals(folder: Path) -> str:
    broken = folder / "broken.dmexp"
    broken.write_bytes(b"short")
    try:
        dmexp.load_file(broken)
    except errors.TruncatedError as error:
        code: str = error.code
        return code
    raise AssertionError("a broken file was read")


if __name__ == "__main__":
    print(dmexp.__version__, dmexp.contracts.__name__)
    narrowing(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    checksums(b"123456789")
    files(Path(sys.argv[1]))
    print(refusals(Path(sys.argv[1])))
