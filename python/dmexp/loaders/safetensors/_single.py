"""One safetensors file as a source for an export, with the config that lies beside it."""

from __future__ import annotations

import os
import re
from types import TracebackType
from typing import Any, Self

import numpy as np

from dmexp.loaders._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry

from ._file import SafetensorsFile

_SHARD = re.compile(r".*-(\d{5})-of-(\d{5})\.safetensors$")


class SafetensorsSource:
    """An open ``.safetensors`` file, its config and what has to be said about it."""

    info: SourceInfo

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        self._file = SafetensorsFile(path)
        try:
            self._describe(os.fspath(path), options)
        except BaseException:
            self._file.close()
            raise

    def _describe(self, given: str, options: SourceOptions) -> None:
        path = self._file.path
        beside = path.with_name("config.json")
        chosen = options.config or (beside if beside.is_file() else None)
        self.info = SourceInfo(
            path=path,
            kind="safetensors file",
            label=given,
            weight_bytes=self._file.payload_bytes,
        )
        values: dict[str, Any] = {}
        # Here, because the checks of a directory read safetensors too.
        from dmexp.loaders.checkpoint import check_checkpoint

        if chosen is not None:
            from dmexp.loaders.hf_config import read_config

            config = read_config(chosen)
            values = config.values
            self.info.config, self.info.config_origin = config.text, str(chosen)
            self.info.notices += config.notices
            self.info.metadata |= config.metadata
        shard = _SHARD.match(path.name)
        part = bool(shard and int(shard[2]) > 1)
        metadata, notices = check_checkpoint(
            self._file.entries(),
            values,
            options,
            lambda name: (path, *self._file.payload_range(name)),
            path=given,
            config_path=self.info.config_origin,
            whole=not part,
        )
        self.info.metadata |= metadata
        self.info.notices += notices
        carried = {k: v for k, v in self._file.metadata.items() if k != "format"}
        if carried:
            self.info.metadata["safetensors"] = carried
        if shard and part:
            self.info.notices.append(
                f"the file is shard {int(shard[1])} of {int(shard[2])} by its name; to export the "
                "whole model, name the directory."
            )

    def entries(self) -> list[TensorEntry]:
        """All tensors in the order of their bytes in the file."""
        return self._file.entries()

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One tensor; see `SafetensorsFile.read`."""
        return self._file.read(name)

    def close(self) -> None:
        """Close the file. Arrays that were read stay valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_safetensors(
    path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS
) -> SafetensorsSource:
    """Open one safetensors file as a source.

    A ``config.json`` in the same directory is its config, unless ``options.config`` names another.

    Raises
    ------
    FileFormatError, UnsupportedDtypeError
        The file or the config is refused; see `SafetensorsFile` and ``docs/loaders.md``.
    OSError
        A file cannot be read.
    """
    return SafetensorsSource(path, options)
