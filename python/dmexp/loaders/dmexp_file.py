"""A ``.dmexp`` file as a source: to convert it, or to compare it with another checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dmexp._header import Header
from dmexp.errors import InvalidArgumentError

from ._mapped import Window
from ._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry


class DmexpSource:
    """An open ``.dmexp`` file. Everything that its header says of the model is carried on.

    Parameters
    ----------
    path
        The file.
    options
        ``config`` is refused: the file has its own.

    Raises
    ------
    InvalidArgumentError
        A config is named, and the file has one.
    FileFormatError, ChecksumError
        What `dmexp.safe_open` refuses.
    OSError
        The file cannot be read.
    """

    info: SourceInfo
    header: Header

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        from dmexp._reader import safe_open

        self._file = safe_open(path)
        self._window = Window()
        self.header = self._file.header
        try:
            self._describe(os.fspath(path), options)
        except BaseException:
            self._file.close()
            raise

    def _describe(self, given: str, options: SourceOptions) -> None:
        header = self._file.header
        if options.config is not None and header.config:
            raise InvalidArgumentError(
                f"the file has a config of its own, and --config names {options.config}. One of the "
                "two is wrong: leave --config out, or export again from the original checkpoint.",
                path=given,
                argument="config",
            )
        self.info = SourceInfo(
            path=Path(given),
            kind=".dmexp file",
            config=header.config,
            config_origin=given if header.config else None,
            label=header.source,
            step=header.step,
            weight_bytes=header.payload_bytes,
            metadata=dict(header.metadata),
        )
        if options.config is not None:
            from .hf_config import read_config

            config = read_config(options.config)
            self.info.config, self.info.config_origin = config.text, str(options.config)
            self.info.notices += config.notices

    def entries(self) -> list[TensorEntry]:
        """All tensors in file order."""
        header = self._file.header
        found = (header.index.get(place) for place in range(header.num_tensors))
        return [TensorEntry(entry[0], tuple(entry[1]), header.dtype) for entry in found]

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One tensor in the stored dtype, read-only and checked; see `dmexp.safe_open`.

        Pages of tensors that were read some time before are given back to the system first.
        """
        opened = self._file._opened
        place = self.header.index.position(name)
        if opened is not None and opened.file is not None and place is not None:
            _, _, offset, nbytes, _ = self.header.index.get(place)
            self._window.move(opened.file, self.header.payload_offset + offset, nbytes)
        return self._file.get_tensor(name)

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


def open_dmexp(path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> DmexpSource:
    """Open a ``.dmexp`` file as a source; see `DmexpSource`."""
    return DmexpSource(path, options)
