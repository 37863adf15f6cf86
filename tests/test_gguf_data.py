"""Tensor data of GGUF files: views of plain types, and what quantized blocks decode to."""

from __future__ import annotations

import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmexp.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    TruncatedError,
    UnsupportedDtypeError,
)
from dmexp.loaders.gguf import read_header
from dmexp.loaders.gguf._data import CHUNK_ELEMENTS, TensorData, check_types, dequantize
from dmexp.loaders.gguf._stack import QuantizedStack
from dmexp.loaders.gguf._types import (
    PLAIN_DTYPES,
    QUANTIZED_TYPES,
    TENSOR_TYPES,
    TYPES_BY_NAME,
)
from gguf_util import ARCHITECTURE, Gguf, Tensor

PLAIN = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}


def write(path: Path, *tensors: Tensor) -> Path:
    return Gguf([ARCHITECTURE], list(tensors)).write(path)


def blocks(name: str, count: int, seed: int = 7) -> bytes:
    """Random blocks whose f16 scales are finite: the high bytes stay below an exponent of 31."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 0x70, TYPES_BY_NAME[name].nbytes * count, np.uint8).tobytes()


def reference(name: str, raw: bytes) -> np.ndarray[Any, Any]:
    """The peer's answer for the whole tensor at once."""
    kind = gguf.GGMLQuantizationType[name]
    return gguf.quants.dequantize(np.frombuffer(raw, np.uint8).reshape(1, -1), kind).reshape(-1)


def test_sizes_agree_with_the_peer() -> None:
    for kind in TENSOR_TYPES.values():
        peer = gguf.GGMLQuantizationType(kind.id)
        assert peer.name == kind.name
        assert gguf.GGML_QUANT_SIZES[peer] == (kind.elements, kind.nbytes)
    assert set(PLAIN) == set(PLAIN_DTYPES)


@pytest.mark.parametrize("name", PLAIN)
def test_p66_plain_types_are_read_only_views_bit_for_bit(tmp_path: Path, name: str) -> None:
    dtype = PLAIN[name]
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 256, 6 * dtype.itemsize, np.uint8).tobytes()
    path = write(tmp_path / "m.gguf", Tensor("x", (2, 3), TYPES_BY_NAME[name].id, raw))
    tensor = read_header(path, check_extent=True).tensors[0]
    data = TensorData([path])
    array = data.read(tensor)
    data.close()
    assert (array.dtype, array.shape) == (dtype, (2, 3))
    assert array.tobytes() == raw
    assert not array.flags.writeable
    assert not array.flags.owndata


def test_a_view_outlives_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", Tensor("x", (4,), 0, np.float32([1, 2, 3, 4]).tobytes()))
    data = TensorData([path])
    array = data.read(read_header(path).tensors[0])
    data.close()
    del data
    assert array.tolist() == [1, 2, 3, 4]


def test_a_closed_reader_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", Tensor("x", (1,), 0, bytes(4)))
    data = TensorData([path])
    data.close()
    with pytest.raises(InvalidArgumentError, match="closed"):
        data.read(read_header(path).tensors[0])


@pytest.mark.parametrize("name", sorted(QUANTIZED_TYPES))
def test_quantized_types_decode_as_the_peer_does_bit_for_bit(tmp_path: Path, name: str) -> None:
    kind = TYPES_BY_NAME[name]
    dims = (3, 5, 2 * kind.elements)
    raw = blocks(name, 30)
    path = write(tmp_path / "m.gguf", Tensor("x", dims, kind.id, raw))
    array = TensorData([path]).read(read_header(path, check_extent=True).tensors[0])
    assert (array.dtype, array.shape) == (np.float32, dims)
    assert array.tobytes() == reference(name, raw).astype(np.float32).tobytes()


def test_q4_1_reads_scale_and_minimum_of_two_bytes_each() -> None:
    # Block: f16 0.5, f16 -1, then nibbles; the low one is element j, the high one j + 16.
    raw = np.float16([0.5, -1.0]).tobytes() + bytes([0x21] * 16)
    values = dequantize(np.frombuffer(raw, np.uint8), "Q4_1", (32,))
    assert values.tolist() == [-0.5] * 16 + [0.0] * 16


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["Q8_0", "Q4_1", "Q4_K"]),
    rows=st.integers(1, 40),
    width=st.integers(1, 30),
)
def test_pieces_give_what_the_whole_gives(name: str, rows: int, width: int) -> None:
    raw = blocks(name, rows * width, seed=rows)
    dims = (rows, width * TYPES_BY_NAME[name].elements)
    array = dequantize(np.frombuffer(raw, np.uint8), name, dims)
    assert array.tobytes() == reference(name, raw).tobytes()


def test_pieces_longer_than_one_chunk_give_what_the_whole_gives() -> None:
    elements = CHUNK_ELEMENTS * 2 + 32
    raw = blocks("Q8_0", elements // 32)
    array = dequantize(np.frombuffer(raw, np.uint8), "Q8_0", (elements,))
    assert array.tobytes() == reference("Q8_0", raw).tobytes()


def test_memory_beyond_the_result_stays_small() -> None:
    elements = 1 << 24
    raw = np.frombuffer(blocks("Q4_K", elements // 256), np.uint8)
    dequantize(raw[: 144 * 16], "Q4_K", (16, 256))  # imports and tables
    tracemalloc.start()
    try:
        array = dequantize(raw, "Q4_K", (4096, 4096))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - array.nbytes < array.nbytes // 4


def test_a_scale_that_is_infinite_gives_infinite_values_without_a_warning() -> None:
    raw = np.float16([np.inf]).tobytes() + bytes([0, 1] * 16)
    values = dequantize(np.frombuffer(raw, np.uint8), "Q8_0", (32,))
    assert np.isnan(values[0])
    assert np.isposinf(values[1])


def test_p65_types_that_are_known_and_not_read_are_refused_together(tmp_path: Path) -> None:
    names = ["Q8_K", "NVFP4", "Q8_K", "F32", "Q1_0"]
    tensors = [
        Tensor(f"t{i}", (256,), TYPES_BY_NAME[n].id, bytes(1024)) for i, n in enumerate(names)
    ]
    path = write(tmp_path / "m.gguf", *tensors)
    with pytest.raises(UnsupportedDtypeError) as caught:
        check_types(read_header(path).tensors, path)
    assert caught.value.types == {"NVFP4": 1, "Q1_0": 1, "Q8_K": 2}
    assert "Q8_K: 2 tensors" in caught.value.message
    assert caught.value.path == str(path)


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "gguf"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "gguf", None)
    path = write(tmp_path / "m.gguf", Tensor("x", (32,), 8, bytes(34)))
    tensors = read_header(path).tensors
    with pytest.raises(MissingDependencyError, match=r"pip install 'dmexp\[gguf\]'") as caught:
        check_types(tensors, path)
    assert (caught.value.package, caught.value.extra) == ("gguf", "gguf")
    # Plain types need nothing.
    plain = write(tmp_path / "p.gguf", Tensor("x", (1,), 0, bytes(4)))
    check_types(read_header(plain).tensors, plain)


def test_a_type_that_the_installed_package_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import enum

    import gguf.constants

    older = enum.IntEnum("GGMLQuantizationType", {"F32": 0, "Q8_0": 8})
    monkeypatch.setattr(gguf.constants, "GGMLQuantizationType", older)
    path = write(tmp_path / "m.gguf", Tensor("x", (32,), 39, bytes(17)))
    with pytest.raises(UnsupportedDtypeError, match="pip install -U gguf"):
        check_types(read_header(path).tensors, path)


def test_p40_a_file_cut_after_opening_is_an_exception_and_the_process_lives(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "m.gguf", Tensor("x", (4096,), 0, bytes(16384)))
    tensor = read_header(path).tensors[0]
    data = TensorData([path])
    os.truncate(path, 100)
    with pytest.raises(TruncatedError):
        data.read(tensor)


def test_a_stack_gives_each_slice_as_the_whole_has_it() -> None:
    raw = np.frombuffer(blocks("Q4_K", 4 * 3 * 2), np.uint8)
    dims = (4, 3, 512)
    whole = dequantize(raw, "Q4_K", dims)
    stack = QuantizedStack(raw, "Q4_K", dims)
    assert (stack.shape, stack.ndim, stack.dtype, len(stack)) == (dims, 3, np.float32, 4)
    for index in (0, 3, -1, np.int64(2), (1, slice(1, 3)), (2, 0, 7), slice(1, 3), ...):
        assert np.array_equal(stack[index], whole[index])
    assert np.array_equal(np.asarray(stack), whole)
    assert np.array_equal(np.asarray(stack, np.float64), whole.astype(np.float64))
    with pytest.raises(IndexError):
        stack[4]


def test_taking_a_slice_of_a_stack_decodes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    import dmexp.loaders.gguf._stack as module

    seen: list[int] = []

    def counted(raw: Any, name: str, dims: Any) -> Any:
        seen.append(raw.size)
        return dequantize(raw, name, dims)

    monkeypatch.setattr(module, "dequantize", counted)
    stack = QuantizedStack(np.frombuffer(blocks("Q8_0", 64), np.uint8), "Q8_0", (16, 4, 32))
    stack[5]
    assert seen == [4 * 34]
