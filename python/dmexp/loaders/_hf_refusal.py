"""Directories that hold no weights that can be read: what they hold, and the way out."""

from __future__ import annotations

from pathlib import Path

from dmexp._refusal import quoted
from dmexp._sniff import Kind, refusal, sniff
from dmexp.errors import UnsupportedFormatError

_PICKLES = frozenset({Kind.PYTORCH, Kind.PICKLE})
_PICKLE_SUFFIXES = frozenset({".bin", ".pt", ".pth", ".ckpt"})
_MOST_FILES = 1000

# As in the refusal of one pickle: double quotes outside and none inside.
_MERGE = (
    'python -c "'
    "import sys, torch; from safetensors.torch import save_file; s = {}; "
    "[s.update(torch.load(f, map_location='cpu', weights_only=True)) for f in sys.argv[2:]]; "
    "save_file({k: v.detach().contiguous().clone() for k, v in s.items() "
    "if isinstance(v, torch.Tensor)}, sys.argv[1], metadata={'format': 'pt'})"
    '"'
)


def no_weights(directory: Path) -> UnsupportedFormatError:
    """The error for a directory without ``model.safetensors`` and without an index."""
    files = sorted(file for file in directory.iterdir() if file.is_file())[:_MOST_FILES]
    kinds = {file: _kind(file) for file in files}
    pickles = [file for file, kind in kinds.items() if kind in _PICKLES]
    weights = [file for file in pickles if not _is_by_product(file)]
    if weights:
        return _only_pickles(directory, weights)
    readable = [file for file, kind in kinds.items() if kind is not None and kind.exportable]
    if readable:
        names = ", ".join(file.name for file in readable)
        adapter = any(file.name.startswith("adapter_model") for file in readable)
        what = (
            "It holds an adapter, which is no model of its own: merge it first"
            if adapter
            else ("Name the one to export")
        )
        return UnsupportedFormatError(
            f"the directory has no model.safetensors and no index of shards, but {names}. {what}: "
            f"dmexp export {quoted(str(readable[0]))}",
            path=str(directory),
            kind=None,
            command=None if adapter else f"dmexp export {quoted(str(readable[0]))}",
        )
    for file, kind in kinds.items():
        if (
            kind is not None
            and kind is not Kind.JSON
            and file.suffix
            in (
                ".safetensors",
                *_PICKLE_SUFFIXES,
            )
        ):
            return refusal(kind, file)
    listed = ", ".join(file.name for file in files[:10]) or "nothing"
    return UnsupportedFormatError(
        "the directory holds no weights: expected model.safetensors, or "
        f"model.safetensors.index.json with its shards, beside config.json. It holds {listed}.",
        path=str(directory),
        kind=None,
        command=None,
    )


def _only_pickles(directory: Path, weights: list[Path]) -> UnsupportedFormatError:
    merged = directory / "model.safetensors"
    sources = " ".join(quoted(str(file)) for file in weights)
    command = f"{_MERGE} {quoted(str(merged))} {sources} && dmexp export {quoted(str(directory))}"
    return UnsupportedFormatError(
        "the directory holds no safetensors, only pickles: "
        f"{', '.join(file.name for file in weights)}. Loading a pickle can run any code that is in "
        "it, so they are never opened here. Where PyTorch and safetensors are installed, this "
        f"converts them safely: {command}",
        path=str(directory),
        kind=Kind.PYTORCH.value,
        command=command,
        files=[file.name for file in weights],
    )


def _kind(file: Path) -> Kind | None:
    try:
        return sniff(file)
    except OSError:
        return None


def _is_by_product(file: Path) -> bool:
    """Pickles that lie beside checkpoints and hold no weights of the model."""
    return file.name.startswith(("training_args", "optimizer", "scheduler", "rng_state", "scaler"))
