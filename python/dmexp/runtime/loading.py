"""The one way from a file to a model that runs: every check, then weights, then the tokenizer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._inspect import verify
from .._reader import load_file, safe_open
from .._refusal import quoted
from ..errors import DmexpError, InvalidArgumentError, UnsupportedFormatError
from .config import ModelConfig, read_config
from .model import Model
from .tokenizer import BYTE_VOCABULARY, ByteTokenizer, Tokenizer, from_metadata, from_path
from .weights import build_model

if TYPE_CHECKING:
    from .._header import Header


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model, the tokenizer that belongs to it, and the header of the file they came from."""

    path: Path
    header: Header
    model: Model
    tokenizer: Tokenizer

    @property
    def name(self) -> str:
        """The file's name without ``.dmexp``."""
        return self.path.name.removesuffix(".dmexp")


def open_model(
    path: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str] | None = None,
    low_memory: bool = False,
) -> Loaded:
    """Load an export to run it. Nothing but an export is accepted.

    The whole file is read once: its checksums, that every value is finite, the header's claims,
    and that the config describes the tensors. f32 weights are then used where the file is mapped;
    narrower ones are widened to f32.

    Parameters
    ----------
    path
        A ``.dmexp`` file.
    tokenizer
        A ``tokenizer.json`` or the directory that holds it, in place of the file's own.
    low_memory
        Keep bf16 and f16 weights mapped as they are and widen them block by block on every use.

    Raises
    ------
    UnsupportedFormatError
        Another kind of file, or a directory; the message ends with the command that exports it.
    UnsupportedError
        A model that the runtime does not have, by name.
    InvalidArgumentError
        There is no tokenizer.
    FileFormatError, NonFiniteError
        As `load_file`.
    OSError
        The file cannot be read.
    """
    path = Path(path)
    header, config, model = read_model(path, low_memory=low_memory)
    return Loaded(path, header, model, find_tokenizer(path, header.metadata, config, tokenizer))


def read_model(path: Path, *, low_memory: bool = False) -> tuple[Header, ModelConfig, Model]:
    """The part of `open_model` that is not about text."""
    with open_export(path) as file:
        header = file.header
        try:
            config = _config_of(path, header)
            if header.dtype == "f32" or low_memory:
                verify(path)
                tensors: Mapping[str, Any] = dict(file.items())
            else:
                tensors = load_file(path)
            return header, config, build_model(config, tensors, low_memory=low_memory)
        except DmexpError as error:
            raise error.with_path(str(path)) from error.__cause__


def open_export(path: Path) -> safe_open:
    """The file with its header read and nothing else; what is no export is refused."""
    if path.is_dir():
        raise directory_refusal(path)
    return safe_open(path, verify=False)


def _config_of(path: Path, header: Header) -> ModelConfig:
    header.shapes.require()
    try:
        return read_config(header.config_dict)
    except DmexpError:
        # A damaged file is refused for its damage, whatever its config asks for.
        verify(path)
        raise


def find_tokenizer(
    path: Path,
    metadata: Mapping[str, Any],
    config: ModelConfig,
    named: str | os.PathLike[str] | None = None,
) -> Tokenizer:
    """The named tokenizer, else the one in the metadata, else the one beside ``path``, else bytes.

    Beside a directory is inside it.

    Raises
    ------
    InvalidArgumentError
        There is none, and the vocabulary is not that of bytes.
    FormatError, MissingDependencyError, OSError
        As `from_path` and `from_metadata`.
    """
    if named is not None:
        return from_path(Path(named))
    table = metadata.get("tokenizer")
    if isinstance(table, Mapping):
        return from_metadata(table)
    beside = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if beside.is_file():
        return from_path(beside)
    if config.vocab_size == BYTE_VOCABULARY:
        return ByteTokenizer()
    raise InvalidArgumentError(
        f"there is no tokenizer: none in the file's metadata, no {beside.name} beside it, and a "
        f"vocabulary of {config.vocab_size} is not that of bytes. Name the model's tokenizer.json "
        "with --tokenizer.",
        path=str(path),
        argument="tokenizer",
    )


def directory_refusal(path: Path) -> UnsupportedFormatError:
    """The error for a directory where an export is expected."""
    command = f"dmexp export {quoted(str(path))}"
    return UnsupportedFormatError(
        f"this is a directory, and a .dmexp file is expected. Export the model in it: {command}",
        path=str(path),
        kind="directory",
        command=command,
    )
