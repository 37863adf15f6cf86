"""``.dmexp`` files and PyTorch. Needs the extra ``torch``; importing this module does not.

bfloat16 crosses by its bits, since NumPy has no such type of its own; no value is changed on the
way in or out, except by the narrowing that a save is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ._dtypes import storage_dtype
from .errors import (
    InvalidArgumentError,
    MissingDependencyError,
    ShapeMismatchError,
    UnsupportedDtypeError,
)

if TYPE_CHECKING:
    import torch

    from ._payload import Progress, Report

__all__ = ["LoadReport", "load_file", "load_model", "save_file"]

# Every value of the key is a value of each of these.
_HOLDS = {"f32": ("f32", "f64"), "f16": ("f16", "f32", "f64"), "bf16": ("bf16", "f32", "f64")}
_MOST_SHOWN = 50


def load_file(
    path: str | os.PathLike[str],
    dtype: str | torch.dtype = "stored",
    *,
    device: str | torch.device = "cpu",
    threads: int | None = None,
) -> dict[str, torch.Tensor]:
    """Read every tensor of a file.

    Parameters
    ----------
    path
        A ``.dmexp`` file. All of it is checked, as by `dmexp.load_file`.
    dtype
        ``"stored"`` (the dtype that the file has), ``"f32"``, or a PyTorch dtype of the three.
        Of those, the file's own and float32 are possible.
    device
        Where the tensors go.

    Returns
    -------
    dict of str to torch.Tensor
        In header order, contiguous, without gradients. ``[]`` dims give a 0-d tensor.

    Raises
    ------
    MissingDependencyError
        PyTorch is not installed.
    DmexpError, OSError
        As `dmexp.load_file`.
    """
    torch = _torch()
    from ._reader import load_file as load

    wanted = dtype if isinstance(dtype, str) else _name(dtype)
    arrays = load(path, wanted, threads=threads)
    return {name: _tensor(torch, array).to(device) for name, array in arrays.items()}


def save_file(
    tensors: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]],
    path: str | os.PathLike[str],
    *,
    dtype: str | torch.dtype = "bf16",
    config: str | Mapping[str, Any] | None = None,
    source: str = "",
    step: int = 0,
    metadata: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    sync: bool = True,
) -> Report:
    """Write tensors to a ``.dmexp`` file, e.g. ``save_file(model.state_dict(), path)``.

    Parameters
    ----------
    tensors
        Floating-point tensors on any device, with or without gradients; copied to the CPU one at
        a time where they are elsewhere. Two names over one storage become two full tensors.
    path, dtype, config, source, step, metadata, threads, progress, sync
        As in `dmexp.save_file`; ``dtype`` may be a PyTorch dtype.

    Returns
    -------
    Report

    Raises
    ------
    MissingDependencyError
        PyTorch is not installed.
    DmexpError, OSError
        As `dmexp.save_file`: integers and booleans are refused by name, and so is a value that
        is not finite or that the dtype cannot hold.
    """
    torch = _torch()
    from ._writer import save_file as save

    pairs = list(tensors.items()) if isinstance(tensors, Mapping) else tensors
    arrays: Any = _arrays(torch, pairs)
    if isinstance(pairs, list) and all(_is_local(value) for _, value in pairs):
        # Nothing is copied, and with all names and dims known the payload need not be moved.
        arrays = dict(arrays)
    return save(
        arrays,
        path,
        dtype=dtype if isinstance(dtype, str) else _name(dtype),
        config=config,
        source=source,
        step=step,
        metadata=metadata,
        threads=threads,
        progress=progress,
        sync=sync,
    )


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What `load_model` did.

    Attributes
    ----------
    loaded
        Names that were copied into the module, and names that share their storage.
    missing
        Names of the module that the file lacks; empty when ``strict``.
    unexpected
        Names of the file that the module lacks; empty when ``strict``.
    kept
        Integer and boolean buffers, which a file cannot hold: they are as they were.
    """

    loaded: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def load_model(
    module: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    strict: bool = True,
    allow_narrowing: bool = False,
) -> LoadReport:
    """Copy a file's tensors into a module, one at a time, or change nothing.

    Names and shapes are compared before the first value is copied; each parameter keeps its
    dtype and its device.

    Parameters
    ----------
    module
        Its ``state_dict`` names what is to be loaded. A tied parameter counts once: the file may
        have it under any of its names.
    path
        A ``.dmexp`` file. Each tensor is checked when it is read.
    strict
        False lets names be missing and unexpected, and reports them. Shapes have to agree.
    allow_narrowing
        Lets values be rounded into parameters whose dtype does not hold all of the file's.

    Returns
    -------
    LoadReport

    Raises
    ------
    ShapeMismatchError
        All missing, unexpected and misshapen names at once. Facts: ``missing``, ``unexpected``,
        ``misshapen`` (name, module's dims, file's dims) and ``conflicts``.
    InvalidArgumentError
        Parameters on the meta device, or of a dtype that would round.
    MissingDependencyError
        PyTorch is not installed.
    DmexpError, OSError
        As `dmexp.safe_open`.
    """
    torch = _torch()
    from ._reader import safe_open

    # With the parameters themselves, tied ones are the same object under each name.
    state: dict[str, Any] = module.state_dict(keep_vars=True)
    with safe_open(path) as file:
        dims = {
            name: tuple(shape)
            for name, shape, *_ in map(file.header.index.get, range(file.header.num_tensors))
        }
        report = _match(state, dims, strict, os.fspath(path))
        targets = [name for name in dims if name in state]
        _require_room(state, targets, file.header.dtype, allow_narrowing)
        with torch.no_grad():
            for name in targets:
                # A copy of its own: PyTorch warns about memory that it may not write to.
                state[name].copy_(_tensor(torch, np.array(file[name], order="C")))
    return report


def _match(
    state: Mapping[str, Any], dims: Mapping[str, tuple[int, ...]], strict: bool, path: str
) -> LoadReport:
    report = LoadReport(loaded=[name for name in dims if name in state])
    given = {id(state[name]) for name in report.loaded}
    for name, value in state.items():
        if name in dims:
            continue
        if not (hasattr(value, "is_floating_point") and value.is_floating_point()):
            report.kept.append(name)
        elif id(value) in given:
            report.loaded.append(name)
        else:
            report.missing.append(name)
    report.unexpected.extend(name for name in dims if name not in state)
    misshapen = [
        (name, tuple(state[name].shape), dims[name])
        for name in dims
        if name in state and tuple(state[name].shape) != dims[name]
    ]
    if misshapen or (strict and (report.missing or report.unexpected)):
        raise _mismatch(state, dims, report, misshapen, path)
    return report


def _mismatch(
    state: Mapping[str, Any],
    dims: Mapping[str, tuple[int, ...]],
    report: LoadReport,
    misshapen: list[tuple[str, tuple[int, ...], tuple[int, ...]]],
    path: str,
) -> ShapeMismatchError:
    conflicts: list[dict[str, Any]] = [
        {
            "name": name,
            "problem": "missing",
            "expected": list(state[name].shape),
            "found": None,
        }
        for name in report.missing
    ]
    conflicts += [
        {"name": name, "problem": "unexpected", "expected": None, "found": list(dims[name])}
        for name in report.unexpected
    ]
    conflicts += [
        {"name": name, "problem": "shape", "expected": list(module), "found": list(file)}
        for name, module, file in misshapen
    ]
    parts = [
        f"{label}: {_listed(names)}"
        for label, names in (
            ("the file lacks", report.missing),
            ("the module lacks", report.unexpected),
            (
                "shapes differ",
                [f"{name} (module {list(a)}, file {list(b)})" for name, a, b in misshapen],
            ),
        )
        if names
    ]
    return ShapeMismatchError(
        f"the file does not fit the module; nothing was loaded. {'; '.join(parts)}. Build the "
        "module from the config that is in the file.",
        path=path,
        conflicts=conflicts,
        missing=report.missing,
        unexpected=report.unexpected,
        misshapen=[(name, list(a), list(b)) for name, a, b in misshapen],
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _require_room(
    state: Mapping[str, Any], names: list[str], stored: str, allow_narrowing: bool
) -> None:
    """Refuse before anything is copied what a copy would lose."""
    meta = [name for name in names if state[name].is_meta]
    if meta:
        raise InvalidArgumentError(
            f"{_listed(meta)}: on the meta device, which holds no values. Give the module memory "
            "first: module.to_empty(device='cpu').",
            argument="module",
            tensors=meta,
        )
    narrow = [name for name in names if _name(state[name].dtype) not in _HOLDS[stored]]
    if narrow and not allow_narrowing:
        kinds = ", ".join(sorted({str(state[name].dtype) for name in narrow}))
        raise InvalidArgumentError(
            f"the file holds {stored} and {len(narrow)} of the module's parameters are {kinds}, "
            f"which would round: {_listed(narrow)}. Convert the module first "
            "(module.to(torch.float32)), or pass allow_narrowing=True.",
            argument="module",
            tensors=narrow,
        )


def _arrays(
    torch: Any, pairs: Iterable[tuple[str, torch.Tensor]]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Tensors as arrays over the same memory, those on other devices copied to the CPU."""
    for name, value in pairs:
        if not isinstance(value, torch.Tensor):
            yield name, value
            continue
        if value.is_meta:
            raise InvalidArgumentError(
                f"tensor {name!r} is on the meta device, which has shapes and no values. Load the "
                "weights into the module before they are saved.",
                argument="tensors",
                tensor=name,
            )
        local = value.detach()
        if not _is_local(local):
            local = local.to_dense() if local.layout is not torch.strided else local
            local = local.cpu()
        # Lazy conjugates and negatives have no memory of their own.
        yield name, _array(torch, local.resolve_conj().resolve_neg(), name)


def _is_local(value: Any) -> bool:
    return not hasattr(value, "device") or (
        value.device.type == "cpu" and str(value.layout) == "torch.strided"
    )


def _array(torch: Any, tensor: torch.Tensor, name: str) -> np.ndarray[Any, Any]:
    from ._dtypes import NUMPY_DTYPES

    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy()).view(NUMPY_DTYPES["bf16"])
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        # The eight-bit floats and the quantised types have no counterpart.
        raise UnsupportedDtypeError(
            f"tensor {name!r} is {tensor.dtype}. Known: float32, float64, float16, bfloat16. "
            "Dequantise it, or leave it out.",
            tensor=name,
            dtype=str(tensor.dtype),
            known=["f32", "f64", "f16", "bf16"],
        ) from None


def _tensor(torch: Any, array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A tensor over an array's memory. The array is C-ordered, writable, in native byte order."""
    from ._dtypes import NUMPY_DTYPES

    if array.dtype == NUMPY_DTYPES["bf16"]:
        bits = array.view(np.int16)
        return torch.from_numpy(bits).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))


def _name(dtype: Any) -> str:
    """The canonical name of a PyTorch dtype."""
    text = str(dtype).removeprefix("torch.")
    return {"float64": "f64", "double": "f64"}.get(text) or storage_dtype(text)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            "PyTorch is not installed, and dmexp.torch needs it: pip install 'dmexp[torch]'.",
            package="torch",
            extra="torch",
        ) from error
