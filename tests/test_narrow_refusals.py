"""What narrowing and widening do not take, and what they say; PyTorch tensors among it."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from dmexp import narrow, widen
from dmexp.errors import InvalidArgumentError, UnsupportedDtypeError
from narrow_util import BF16, bits, raised


@pytest.mark.parametrize("call", [narrow, widen])
@pytest.mark.parametrize(
    ("array", "dtype", "cure"),
    [
        (np.int64([16777217]), "int64", "astype('float32')"),
        (np.uint8([1]), "uint8", "astype('float32')"),
        (np.array([True]), "bool", "astype('float32')"),
        ([1, 2], "int64", "astype('float32')"),
        (np.complex64([1j]), "complex64", "real and imaginary parts"),
        (np.array([object()]), "object", "float32"),
        (np.array(["a"]), "<U1", "float32"),
        (np.zeros(2, "V2"), "|V2", "array.view(ml_dtypes.bfloat16)"),
        (np.zeros(2, "V3"), "|V3", "float32"),
        (np.zeros(2, [("a", "f4")]), "[('a', '<f4')]", "float32"),
        (np.zeros(2, np.longdouble), str(np.dtype(np.longdouble)), "float32"),
    ],
)
def test_other_dtypes_are_refused_by_name_with_the_cure(
    call: Any, array: Any, dtype: str, cure: str
) -> None:
    with pytest.raises(UnsupportedDtypeError) as caught:
        call(array)
    assert f"the array has dtype {dtype}" in str(caught.value)
    assert cure in str(caught.value)
    assert caught.value.dtype == dtype
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("spelling", ["f64", "int8", "bf17", np.float64, None, 3])
def test_a_target_outside_the_three_is_refused(spelling: Any) -> None:
    with pytest.raises(UnsupportedDtypeError, match="Known: 'f32', 'f16', 'bf16'"):
        narrow(np.float32([1]), spelling)


@pytest.mark.parametrize("overflow", ["clip", "", None, 1])
def test_another_overflow_is_refused(overflow: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="Known: 'raise', 'inf'") as caught:
        narrow(np.float32([1]), overflow=overflow)
    assert caught.value.argument == "overflow"


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.masked_array(np.float32([1, 2]), [False, True])
    with pytest.raises(InvalidArgumentError, match=r"Pass \.filled\(value\)"):
        narrow(masked)


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be made an array"):
        narrow([[1.0], [2.0, 3.0]])


# PyTorch, by a stand-in that has what a tensor has. The real one is in test_narrow_torch.py.


class _Tensor:
    def __init__(self, array: Any, **facts: Any) -> None:
        self._array = array
        torch = sys.modules["torch"]
        self.requires_grad = facts.get("requires_grad", False)
        self.device = types.SimpleNamespace(type=facts.get("device", "cpu"))
        self.layout = facts.get("layout", torch.strided)
        self.dtype = facts.get("dtype", torch.float32)

    def detach(self) -> _Tensor:
        return self

    def view(self, dtype: object) -> _Tensor:
        assert dtype is sys.modules["torch"].int16
        return _Tensor(self._array.view(np.int16), dtype=dtype)

    def numpy(self) -> Any:
        assert not self.requires_grad
        assert self.device.type == "cpu"
        if self.dtype is sys.modules["torch"].bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array


@pytest.fixture
def tensor(monkeypatch: pytest.MonkeyPatch) -> type[_Tensor]:
    torch: Any = types.ModuleType("torch")
    torch.strided, torch.sparse_coo = object(), object()
    torch.float32, torch.bfloat16, torch.int16 = object(), object(), object()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(_Tensor, "__module__", "torch")
    return _Tensor


def test_a_tensor_is_narrowed(tensor: type[_Tensor]) -> None:
    assert bits(narrow(tensor(np.float32([1, 2])))) == [0x3F80, 0x4000]


def test_a_bf16_tensor_goes_through_by_its_bits(tensor: type[_Tensor]) -> None:
    half = tensor(np.float32([1, -2]).astype(BF16), dtype=sys.modules["torch"].bfloat16)
    assert widen(half).tolist() == [1, -2]
    assert bits(narrow(half, "f16")) == [0x3C00, 0xC000]


@pytest.mark.parametrize("call", [narrow, widen])
@pytest.mark.parametrize(
    ("facts", "cure"),
    [
        ({"requires_grad": True}, "x.detach()"),
        ({"device": "cuda"}, "x.cpu()"),
        ({"layout": "sparse"}, "x.to_dense()"),
    ],
)
def test_a_tensor_that_numpy_cannot_see_gets_one_clear_sentence(
    tensor: type[_Tensor], call: Any, facts: dict[str, Any], cure: str
) -> None:
    error = raised(lambda: call(tensor(np.float32([1]), **facts)))
    assert isinstance(error, InvalidArgumentError)
    assert str(error).endswith(f"Pass it as {cure}.")
    assert str(error).startswith("the array is a PyTorch tensor")
    assert "\n" not in str(error)
