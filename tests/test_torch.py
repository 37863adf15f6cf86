"""`dmexp.torch` against PyTorch itself."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from dmexp.errors import (
    InvalidArgumentError,
    NonFiniteError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)
from dmexp.torch import LoadReport, load_file, load_model, save_file

pytestmark = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    return import_module("torch")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.dmexp"


def bits(torch: Any, tensor: Any) -> bytes:
    """The bytes of a tensor in row-major order."""
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    data: bytes = tensor.detach().contiguous().view(width).numpy().tobytes()
    return data


def every_bf16(torch: Any) -> Any:
    """Every finite bf16 value, by its bits."""
    patterns = np.arange(2**16, dtype=np.uint16)
    finite = patterns[(patterns & 0x7F80) != 0x7F80]
    return torch.from_numpy(finite.view(np.int16)).view(torch.bfloat16)


def test_p14_every_bf16_value_goes_in_and_out_by_its_bits(torch: Any, path: Path) -> None:
    tensor = every_bf16(torch)
    save_file({"w": tensor}, path)
    (loaded,) = load_file(path).values()
    assert loaded.dtype is torch.bfloat16
    assert bits(torch, loaded) == bits(torch, tensor)
    wide = load_file(path, torch.float32)["w"]
    assert bits(torch, wide) == bits(torch, tensor.to(torch.float32))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_each_dtype_is_kept_where_it_is_stored(torch: Any, path: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    tensor = torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).to(kind)
    save_file({"w": tensor}, path, dtype=kind)
    loaded = load_file(path, kind)["w"]
    assert loaded.dtype is kind
    assert loaded.shape == (5, 7)
    assert bits(torch, loaded) == bits(torch, tensor)
    assert not loaded.requires_grad


def test_narrowing_is_ours_and_not_pytorchs(torch: Any, path: Path) -> None:
    tensor = torch.tensor([1 + 2**-8 + 2**-40, 1.01953125, -0.0], dtype=torch.float64)
    save_file({"w": tensor}, path)
    expected = dmexp.narrow(tensor.numpy(), "bf16").tobytes()
    assert bits(torch, load_file(path)["w"]) == expected


def test_memory_layouts_scalars_and_empty_tensors(torch: Any, path: Path) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    tensors = {
        "transposed": base.transpose(0, 2),
        "strided": base[:, ::2, 1:],
        "expanded": torch.tensor([1.0, 2.0]).expand(3, 2),
        "channels_last": torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "negated": torch.complex(base, base).conj().imag,
    }
    save_file(tensors, path, dtype="f32")
    loaded = load_file(path)
    assert list(loaded) == list(tensors)
    for name, tensor in tensors.items():
        assert loaded[name].shape == tensor.shape, name
        assert torch.equal(loaded[name], tensor.resolve_neg()), name
        assert loaded[name].is_contiguous()


def test_loaded_tensors_own_their_memory(torch: Any, path: Path) -> None:
    save_file({"w": torch.ones(1000)}, path)
    tensor = load_file(path)["w"]
    path.unlink()
    gc.collect()
    tensor += 1
    assert tensor.eq(2).all()


def test_gradients_are_no_obstacle_to_a_save(torch: Any, path: Path) -> None:
    save_file({"w": torch.ones(2, requires_grad=True)}, path)
    assert torch.equal(load_file(path, "f32")["w"], torch.ones(2))


def test_shared_storage_becomes_two_full_tensors(torch: Any, path: Path) -> None:
    base = torch.arange(6, dtype=torch.float32)
    save_file({"a": base, "b": base.view(2, 3), "c": base[2:4]}, path, dtype="f32")
    loaded = load_file(path)
    assert dmexp.info(path).num_params == 14
    assert torch.equal(loaded["c"], base[2:4])
    loaded["a"][0] = 9
    assert loaded["b"][0, 0] == 0


def test_an_iterable_is_consumed_one_tensor_at_a_time(torch: Any, path: Path) -> None:
    pairs = ((f"w{i}", torch.full((3,), float(i))) for i in range(4))
    save_file(pairs, path, config={"a": 1}, source="here", step=3, metadata={"b": 2})
    with dmexp.safe_open(path) as file:
        assert (file.header.source, file.header.step) == ("here", 3)
        assert file.metadata() == {"b": 2}
    assert [t[0].item() for t in load_file(path).values()] == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "float8_e4m3fn"])
def test_what_is_no_float_is_refused_by_name(torch: Any, path: Path, dtype: str) -> None:
    tensor = torch.zeros(2).to(getattr(torch, dtype))
    with pytest.raises(UnsupportedDtypeError, match="'position_ids'"):
        save_file({"w": torch.ones(1), "position_ids": tensor}, path)
    assert not path.exists()


def test_values_that_are_not_finite_are_refused(torch: Any, path: Path) -> None:
    with pytest.raises(NonFiniteError, match="'w'"):
        save_file({"w": torch.tensor([1.0, float("nan")])}, path)


# --- load_model --------------------------------------------------------------------------------


def small(torch: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))


def test_a_module_comes_back_bit_for_bit(torch: Any, path: Path) -> None:
    module = small(torch)
    save_file(module.state_dict(), path, dtype="f32")
    other = small(torch)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    report = load_model(other, path)
    assert report == LoadReport(loaded=list(module.state_dict()))
    for name, tensor in module.state_dict().items():
        assert bits(torch, other.state_dict()[name]) == bits(torch, tensor)
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_p75_everything_that_does_not_fit_is_in_one_error(torch: Any, path: Path) -> None:
    module = small(torch)
    tensors = dict(module.state_dict())
    del tensors["1.bias"]
    tensors["0.weight"] = torch.zeros(4, 5)
    tensors["head.weight"] = torch.zeros(2)
    save_file(tensors, path)
    before = {name: bits(torch, tensor) for name, tensor in module.state_dict().items()}
    with pytest.raises(ShapeMismatchError) as caught:
        load_model(module, path)
    error = caught.value
    assert error.missing == ["1.bias"]
    assert error.unexpected == ["head.weight"]
    assert error.misshapen == [("0.weight", [4, 3], [4, 5])]
    assert [c["problem"] for c in error.conflicts] == ["missing", "unexpected", "shape"]
    for text in ("1.bias", "head.weight", "0.weight (module [4, 3], file [4, 5])"):
        assert text in str(error)
    assert {n: bits(torch, t) for n, t in module.state_dict().items()} == before


def test_not_strict_reports_names_and_still_refuses_shapes(torch: Any, path: Path) -> None:
    module = small(torch)
    save_file({"0.bias": torch.full((4,), 7.0), "x": torch.ones(1)}, path)
    report = load_model(module, path, strict=False)
    assert report.loaded == ["0.bias"]
    assert report.missing == ["0.weight", "1.weight", "1.bias"]
    assert report.unexpected == ["x"]
    assert module[0].bias.eq(7).all()
    save_file({"0.bias": torch.ones(5)}, path)
    with pytest.raises(ShapeMismatchError):
        load_model(module, path, strict=False)


def test_a_tied_parameter_may_be_stored_once(torch: Any, path: Path) -> None:
    class Tied(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(5, 3)
            self.head = torch.nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

    module = Tied()
    for name in ("embed.weight", "head.weight"):
        save_file({name: torch.full((5, 3), 2.0)}, path)
        report = load_model(module, path)
        assert sorted(report.loaded) == ["embed.weight", "head.weight"]
        assert module.head.weight.eq(2).all()
        with torch.no_grad():
            module.head.weight.zero_()


def test_integer_buffers_stay_as_they_are_and_are_reported(torch: Any, path: Path) -> None:
    module = torch.nn.BatchNorm1d(3)
    module.num_batches_tracked.fill_(5)
    floats = {n: t for n, t in module.state_dict().items() if t.is_floating_point()}
    save_file(floats, path)
    report = load_model(module, path)
    assert report.kept == ["num_batches_tracked"]
    assert module.num_batches_tracked.item() == 5


def test_values_are_not_rounded_into_a_module_unless_asked(torch: Any, path: Path) -> None:
    module = small(torch).to(torch.bfloat16)
    save_file(small(torch).state_dict(), path, dtype="f32")
    with pytest.raises(InvalidArgumentError, match="allow_narrowing") as caught:
        load_model(module, path)
    assert caught.value.tensors == ["0.weight", "0.bias", "1.weight", "1.bias"]
    load_model(module, path, allow_narrowing=True)
    assert module[0].weight.dtype is torch.bfloat16
    save_file(small(torch).state_dict(), path, dtype="bf16")
    wide = small(torch).to(torch.float64)
    load_model(wide, path)
    assert torch.equal(wide[0].weight, small(torch)[0].weight.to(torch.bfloat16).double())


def test_a_module_without_memory_is_told_how_to_get_some(torch: Any, path: Path) -> None:
    save_file(small(torch).state_dict(), path)
    with torch.device("meta"):
        module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    with pytest.raises(InvalidArgumentError, match="to_empty"):
        load_model(module, path)
    module = module.to_empty(device="cpu")
    load_model(module, path)


def test_a_tensor_without_memory_is_refused_by_name(torch: Any, path: Path) -> None:
    tensors = {"a": torch.ones(2), "w": torch.ones(2, device="meta")}
    with pytest.raises(InvalidArgumentError, match="'w' is on the meta device"):
        save_file(tensors, path)
    assert not path.exists()


def test_save_file_of_dmexp_itself_takes_tensors_by_their_bits(torch: Any, path: Path) -> None:
    tensor = every_bf16(torch)
    dmexp.save_file({"w": tensor}, path)
    assert bits(torch, load_file(path)["w"]) == bits(torch, tensor)
    with pytest.raises(InvalidArgumentError, match=r"\.detach\(\)"):
        dmexp.save_file({"w": torch.ones(1, requires_grad=True)}, path)


def test_a_converted_directory_loads_in_transformers_layout(torch: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file as load_safetensors

    from dmexp._convert import convert

    module = small(torch)
    save_file(module.state_dict(), tmp_path / "m.dmexp", dtype="f32")
    convert(tmp_path / "m.dmexp", tmp_path / "out")
    state = load_safetensors(tmp_path / "out" / "model.safetensors")
    assert module.load_state_dict(state, strict=True)
    assert all(torch.equal(state[name], t) for name, t in small(torch).state_dict().items())
