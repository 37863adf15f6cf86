"""PyTorch tensors, with PyTorch itself."""

from __future__ import annotations

import numpy as np
import pytest

from dmexp import narrow, widen
from dmexp.errors import InvalidArgumentError
from narrow_util import bits

pytestmark = pytest.mark.torch


def test_tensors_of_every_float_dtype() -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([[1.0, -0.25], [3.0, 65504.0]])
    for dtype in (torch.float32, torch.float64, torch.float16):
        assert bits(narrow(values.to(dtype), "f16")) == [0x3C00, 0xB400, 0x4200, 0x7BFF]
    assert bits(narrow(values.to(torch.bfloat16))) == [0x3F80, 0xBE80, 0x4040, 0x4780]
    assert widen(values.to(torch.bfloat16).T).tolist() == [[1, 3], [-0.25, 65536]]


def test_bf16_equals_torch() -> None:
    torch = pytest.importorskip("torch")
    patterns = np.random.default_rng(3).integers(0, 2**32, 100_000, np.uint32)
    values = patterns.view(np.float32)
    values = values[~np.isnan(values)]
    theirs = torch.from_numpy(values).to(torch.bfloat16)
    assert bits(narrow(values, overflow="inf")) == bits(theirs.view(torch.int16).numpy())


@pytest.mark.parametrize("make", ["grad", "sparse", "meta"])
def test_what_numpy_cannot_see_is_refused_in_one_sentence(make: str) -> None:
    torch = pytest.importorskip("torch")
    tensor, cure = {
        "grad": (torch.ones(2, requires_grad=True), ".detach()"),
        "sparse": (torch.ones(2, 2).to_sparse(), ".to_dense()"),
        "meta": (torch.ones(2, device="meta"), ".cpu()"),
    }[make]
    with pytest.raises(InvalidArgumentError) as caught:
        narrow(tensor)
    assert str(caught.value).endswith(f"Pass it as x{cure}.")
