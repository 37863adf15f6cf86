"""Readers of the formats that checkpoints come in. `open_source` looks at content, not suffix."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dmexp._sniff import Kind, refusal, sniff
from dmexp.errors import UnsupportedFormatError

from ._source import NO_OPTIONS, Source, SourceInfo, SourceOptions, TensorEntry

__all__ = ["Source", "SourceInfo", "SourceOptions", "TensorEntry", "open_source"]


def open_source(path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> Source:
    """Open a checkpoint of any kind that can be exported.

    Parameters
    ----------
    path
        A safetensors, GGUF, ``.npz`` or ``.dmexp`` file, a training checkpoint of dormouse, or a
        Hugging Face directory.
    options
        What the user says about how to read it; each loader takes what concerns it.

    Returns
    -------
    Source
        Open; a context manager. Headers are read and checked, payloads are not touched.

    Raises
    ------
    UnsupportedFormatError
        Another kind of file; the message ends with the command that converts it, where there is
        one. Also a pipe or a device.
    DmexpError
        A file of the right kind that its loader refuses.
    OSError
        The file cannot be read.
    """
    if Path(path).is_dir():
        if _holds_gguf(Path(path)):
            from .gguf import open_gguf

            return open_gguf(path, options)
        from .huggingface import open_directory

        return open_directory(path, options)
    _require_file(path)
    kind = sniff(path)
    if kind is None and os.fspath(path).endswith(".safetensors"):
        # Cut off before the content says anything: the reader knows how to put that.
        kind = Kind.SAFETENSORS
    if kind is Kind.SAFETENSORS:
        from .safetensors import open_safetensors

        return open_safetensors(path, options)
    if kind is Kind.GGUF:
        from .gguf import open_gguf

        return open_gguf(path, options)
    if kind is Kind.NPZ:
        from .npz import open_npz

        return open_npz(path, options)
    if kind is Kind.DORMOUSE:
        from .dormouse import open_dormouse

        return open_dormouse(path, options)
    if kind is Kind.DMEXP:
        from .dmexp_file import open_dmexp

        return open_dmexp(path, options)
    raise refusal(kind, path)


def _require_file(path: str | os.PathLike[str]) -> None:
    """Refuse a pipe or a device, of which the kind is gone once it was looked at."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise UnsupportedFormatError(
            "this is a pipe or a device, and a checkpoint is read more than once. Save it to a "
            "file first, and name that.",
            path=os.fspath(path),
            kind=None,
            command=None,
        )


def _holds_gguf(directory: Path) -> bool:
    """Whether a directory is one of GGUF files: parts of a split model, with no config beside."""
    if (directory / "config.json").exists():
        return False
    names = [file.name for file in directory.iterdir()]
    return any(name.endswith(".gguf") for name in names) and not any(
        name.endswith(".safetensors") for name in names
    )
