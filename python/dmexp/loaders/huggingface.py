"""A Hugging Face directory: ``config.json``, and one safetensors file or an index with shards.

Tensors come shard by shard, in order of the shards' names, and inside a shard in order of their
bytes. One shard is open at a time.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dmexp._refusal import quoted
from dmexp._sniff import Kind, refusal, sniff
from dmexp.errors import (
    DmexpError,
    FormatError,
    InvalidArgumentError,
    TensorNotFoundError,
    UnsupportedFormatError,
)

from ._hf_refusal import no_weights
from ._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry
from .checkpoint import check_checkpoint
from .hf_config import ConfigFile, read_config
from .hf_index import INDEX_NAME, read_index, require_placement, require_shards
from .safetensors import SafetensorsFile
from .tied import Place

SINGLE_NAME = "model.safetensors"
RECORD_NAME = "dmexp.json"
LARGEST_RECORD_BYTES = 256 * 1024 * 1024
_MEASURED_ANEW = frozenset({"tied", "mixed_dtypes", "tokenizer", "config_nulls"})
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")


class HuggingFaceDirectory:
    """An open Hugging Face directory, as a source for an export.

    Everything that headers, index and config can tell is checked when the object is made; see
    `open_directory`.
    """

    info: SourceInfo

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        self._directory = Path(path)
        self._shard: SafetensorsFile | None = None
        self._closed = False
        self._entries: dict[str, tuple[str, TensorEntry]] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self.info = SourceInfo(
            path=self._directory, kind="Hugging Face directory", label=os.fspath(path)
        )
        weight_map, shards = self._choose()
        config = self._read_config(options)
        self._read_headers(shards, weight_map)
        self.info.config, self.info.config_origin = config.text, str(config.path)
        self.info.notices += config.notices
        self._take_record()
        self.info.metadata |= config.metadata
        metadata, notices = check_checkpoint(
            self.entries(),
            config.values,
            options,
            self._place,
            path=os.fspath(path),
            config_path=str(config.path),
        )
        self.info.metadata |= metadata
        self.info.notices += notices
        self._mention_extra(shards)
        if options.tokenizer:
            self._take_tokenizer()

    def entries(self) -> list[TensorEntry]:
        """All tensors, shard by shard in order of names, inside a shard in order of bytes."""
        return [entry for _, entry in self._entries.values()]

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One tensor, read-only, over its mapped shard.

        Raises
        ------
        TensorNotFoundError
            No such tensor.
        FormatError
            The shard was replaced since the directory was opened.
        TruncatedError, OSError
            The shard has become shorter, or cannot be read.
        """
        if self._closed:
            raise InvalidArgumentError(
                "the directory is closed; open it again.", path=str(self._directory)
            )
        if name not in self._entries:
            raise TensorNotFoundError(
                f"no tensor {name!r} in this checkpoint.",
                path=str(self._directory),
                name=name,
                close=[],
            )
        shard, _ = self._entries[name]
        return self._opened(shard).read(name)

    def close(self) -> None:
        """Close the shard that is open. Arrays that were read stay valid."""
        self._closed = True
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _choose(self) -> tuple[dict[str, str] | None, list[str]]:
        """The index that counts, if one does, and the files to read.

        An index with all of its shards counts. Without any of them it is stale where a merged
        file is there; with some of them nothing is guessed.
        """
        index = self._directory / INDEX_NAME
        merged = (self._directory / SINGLE_NAME).is_file()
        if not index.is_file():
            if not merged:
                raise no_weights(self._directory)
            return None, [SINGLE_NAME]
        try:
            weight_map = read_index(index)
            shards = require_shards(weight_map, index)
        except DmexpError as error:
            named = error.facts.get("missing")
            if not merged:
                raise
            if named is not None and len(named) < len(set(weight_map.values())):
                error.message += (
                    f" {SINGLE_NAME} is there too; if that is the whole model: "
                    f"dmexp export {quoted(str(self._directory / SINGLE_NAME))}"
                )
                raise
            self.info.notices.append(
                f"{INDEX_NAME} is ignored: {error.message} {SINGLE_NAME} is taken."
            )
            return None, [SINGLE_NAME]
        return weight_map, shards

    def _read_config(self, options: SourceOptions) -> ConfigFile:
        path = options.config or self._directory / "config.json"
        if options.config is None and not path.is_file():
            raise UnsupportedFormatError(
                "the directory has weights and no config.json, which gives them their shape. "
                "Download it too, or name a config with --config.",
                path=str(self._directory),
                kind=None,
                command=None,
            )
        return read_config(path)

    def _read_headers(self, shards: list[str], weight_map: dict[str, str] | None) -> None:
        held: dict[str, list[str]] = {}
        stale: list[str] = []
        found: dict[str, Any] = {}
        for shard in shards:
            path = self._directory / shard
            kind = sniff(path)
            if kind not in (Kind.SAFETENSORS, None):
                raise refusal(kind, path)
            with SafetensorsFile(path) as file:
                held[shard] = []
                found.update((k, v) for k, v in file.metadata.items() if k != "format")
                for entry in file.entries():
                    held[shard].append(entry.name)
                    if weight_map is not None and weight_map.get(entry.name) != shard:
                        stale.append(f"{entry.name} in {shard}")
                        continue
                    begin, end = self._places[entry.name] = file.payload_range(entry.name)
                    self._entries[entry.name] = (shard, entry)
                    self.info.weight_bytes += end - begin
        if weight_map is not None:
            require_placement(weight_map, held, self._directory / INDEX_NAME)
        if found:
            self.info.metadata["safetensors"] = found
        if stale:
            shown = ", ".join(stale[:10]) + (f" and {len(stale) - 10} more" if stale[10:] else "")
            self.info.notices.append(f"not in the index, and left out: {shown}.")

    def _place(self, name: str) -> Place:
        shard, _ = self._entries[name]
        return (self._directory / shard, *self._places[name])

    def _opened(self, shard: str) -> SafetensorsFile:
        path = self._directory / shard
        if self._shard is not None and self._shard.path == path:
            return self._shard
        if self._shard is not None:
            self._shard.close()
            self._shard = None
        file = SafetensorsFile(path)
        now = {entry.name: entry for entry in file.entries()}
        before = [entry for place, entry in self._entries.values() if place == shard]
        if any(now.get(entry.name) != entry for entry in before):
            file.close()
            raise FormatError(
                "the shard was replaced while the export ran. Start again when nothing writes to "
                "the directory.",
                path=str(path),
            )
        self._shard = file
        return file

    def _mention_extra(self, shards: list[str]) -> None:
        extra = sorted(
            file.name
            for file in self._directory.iterdir()
            if file.suffix in _WEIGHT_SUFFIXES and file.name not in shards
        )
        if extra:
            shown = ", ".join(extra[:10]) + (f" and {len(extra) - 10} more" if extra[10:] else "")
            self.info.notices.append(f"also there, and ignored: {shown}.")

    def _take_record(self) -> None:
        """Take up what `dmexp convert` could not put into the usual files."""
        path = self._directory / RECORD_NAME
        if not path.is_file():
            return
        try:
            if path.stat().st_size > LARGEST_RECORD_BYTES:
                raise ValueError(f"more than {LARGEST_RECORD_BYTES} bytes")
            record = json.loads(path.read_bytes())
            metadata, step = record["metadata"], record["step"]
            if not isinstance(metadata, dict) or type(step) is not int or step < 0:
                raise ValueError("not as dmexp convert writes it")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self.info.notices.append(f"{RECORD_NAME} is ignored: {error}.")
            return
        self.info.step = step
        # The weights have one dtype now, and whether a head is tied is looked at anew.
        self.info.metadata |= {k: v for k, v in metadata.items() if k not in _MEASURED_ANEW}

    def _take_tokenizer(self) -> None:
        from .gguf.tokenizer import tokenizer_from_directory

        tokenizer, notices = tokenizer_from_directory(self._directory)
        if tokenizer is not None:
            self.info.metadata["tokenizer"] = tokenizer
        self.info.notices += notices


def open_directory(
    path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS
) -> HuggingFaceDirectory:
    """Open a Hugging Face directory as a source.

    Parameters
    ----------
    path
        A directory with ``config.json`` and ``model.safetensors``, or with
        ``model.safetensors.index.json`` and the shards that it names. Shards may be symbolic
        links, as in the hub's cache.
    options
        ``config`` names another config; ``allow_mixed`` lets weights of another dtype than the
        config's pass; ``tokenizer`` carries the tokenizer in the header's metadata.

    Raises
    ------
    UnsupportedFormatError
        No weights that can be read; the message says what is there instead, and ends with the
        command that helps, where one does.
    FileFormatError, UnsupportedDtypeError
        Index, shards or config are refused; see ``docs/loaders.md``.
    OSError
        A file cannot be read.
    """
    return HuggingFaceDirectory(path, options)
