"""A training checkpoint of dormouse: the model section of a ``DMCK`` container, and its config.

The optimizer, the teacher and the n-gram sidecar are never read.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dmexp.errors import (
    FormatError,
    InvalidArgumentError,
    TensorNotFoundError,
    TruncatedError,
    UnsupportedError,
    UnsupportedFormatError,
)

from ._burnpack import PackedTensor, read_burnpack
from ._dormouse_config import DormouseConfig, config_from
from ._mapped import MappedFile
from ._numpy_types import SOURCE_DTYPES
from ._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry
from .hf_config import read_config

MAGIC = b"DMCK\x00\x02\x00\x00"
CONTAINER_BYTES = 48
_FACTORS_LATCHED = 1


class DormouseCheckpoint:
    """An open training checkpoint, as a source for an export.

    Parameters
    ----------
    path
        ``<name>.bin``. Its config is expected beside it in ``<name>.config.toml``.
    options
        ``config`` names a config where there is no snapshot, and only there.

    Raises
    ------
    InvalidArgumentError
        No config, or two of them.
    UnsupportedFormatError, UnsupportedError
        No ``DMCK`` container, or another version of it.
    FileFormatError
        The container or its model section is damaged.
    OSError
        The file cannot be read.
    """

    info: SourceInfo

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        self._file = MappedFile(path)
        try:
            self._open(os.fspath(path), options)
        except BaseException:
            self._file.close()
            raise

    def _open(self, given: str, options: SourceOptions) -> None:
        head = self._file.bytes_at(0, CONTAINER_BYTES)
        _require_container(head, given)
        step, model, optimizer, teacher, flags = struct.unpack_from("<5Q", head, len(MAGIC))
        total = CONTAINER_BYTES + model + optimizer + teacher
        self._require_model(model, given)
        if step >= 1 << 63:
            raise FormatError(f"the step is {step}, beyond any header's integer.", path=given)
        path = Path(given)
        config, origin = _find_config(path, options)
        tensors = read_burnpack(self._file, CONTAINER_BYTES, model)
        self._tensors: dict[str, PackedTensor] = {tensor.name: tensor for tensor in tensors}
        self.info = SourceInfo(
            path=path,
            kind="dormouse training checkpoint",
            config=config.text,
            config_origin=origin,
            label=f"{given}@step{step}",
            step=step,
            weight_bytes=model,
        )
        if total != self._file.length_bytes:
            self.info.notices.append(
                f"the container states {total} bytes and the file has {self._file.length_bytes}: "
                "what follows the model is damaged. The model section itself is whole."
            )
        self._say_what_stays_behind(config, flags, teacher)

    def _require_model(self, model: int, given: str) -> None:
        found = self._file.length_bytes
        if CONTAINER_BYTES + model > found:
            raise TruncatedError(
                f"the model section ends at byte {CONTAINER_BYTES + model} and the file has {found} "
                "bytes. The checkpoint was cut off: use the .prev.bin of the same run, or save "
                "again.",
                path=given,
                expected=CONTAINER_BYTES + model,
                actual=found,
            )

    def _say_what_stays_behind(self, config: DormouseConfig, flags: int, teacher: int) -> None:
        info = self.info
        record: dict[str, Any] = {}
        if config.dropped:
            info.notices.append(
                f"keys of the config that no dormouse model has are left out: "
                f"{', '.join(map(repr, config.dropped))}."
            )
        if teacher:
            info.notices.append("the averaged teacher stays behind; the model itself is exported.")
        if config.values["engram_rows"] <= 1 and config.values["use_engram"]:
            sidecar = f"{_base_name(info.path)}.ngram"
            record |= {"memory": "sidecar", "sidecar": sidecar}
            info.notices.append(
                f"engram_rows = {config.values['engram_rows']}: the n-gram memory lives in the "
                f"sidecar {sidecar}, which no export carries. The model will generate without it."
            )
        if flags & _FACTORS_LATCHED:
            record["fp32_factors_latched"] = True
        if record:
            info.metadata["dormouse"] = record

    def entries(self) -> list[TensorEntry]:
        """All tensors in the order in which the original walks the model."""
        return [
            TensorEntry(tensor.name, tensor.dims, tensor.dtype) for tensor in self._tensors.values()
        ]

    def read(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        """One tensor, read-only, over the mapped file.

        Raises
        ------
        TensorNotFoundError, TruncatedError
        """
        tensor = self._tensors.get(name)
        if tensor is None:
            raise TensorNotFoundError(
                f"no tensor {name!r} in this checkpoint.",
                path=str(self.info.path),
                name=name,
                close=[],
            )
        return self._file.array_at(
            tensor.offset, tensor.dims, SOURCE_DTYPES[tensor.dtype], f"tensor {name!r}"
        )

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


def open_dormouse(
    path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS
) -> DormouseCheckpoint:
    """Open a training checkpoint; see `DormouseCheckpoint`."""
    return DormouseCheckpoint(path, options)


def _require_container(head: bytes, path: str) -> None:
    if not head.startswith(MAGIC[:4]):
        raise UnsupportedFormatError(
            f"the file starts with {head[:8].hex(' ') or 'nothing'}; a training checkpoint of "
            f"dormouse starts with {MAGIC.hex(' ')}. Checkpoints from before that magic cannot be "
            "told from other files: save the run again with a later dormouse.",
            path=path,
            kind=None,
            command=None,
        )
    if len(head) < CONTAINER_BYTES:
        raise TruncatedError(
            f"the file has {len(head)} bytes; the container's header needs {CONTAINER_BYTES}.",
            path=path,
            expected=CONTAINER_BYTES,
            actual=len(head),
        )
    if not head.startswith(MAGIC):
        raise UnsupportedError(
            f"the container's version is {head[4:8].hex(' ')}; {MAGIC[4:].hex(' ')} is read here.",
            path=path,
            found=head[4:8].hex(),
            expected=MAGIC[4:].hex(),
        )


def _base_name(path: Path) -> str:
    # <name>.prev.bin is the save before, of the same run.
    return path.name.removesuffix(".bin").removesuffix(".prev")


def _find_config(path: Path, options: SourceOptions) -> tuple[DormouseConfig, str]:
    snapshot = path.with_name(f"{_base_name(path)}.config.toml")
    there = snapshot.exists()
    if there and options.config is not None:
        raise InvalidArgumentError(
            f"{snapshot} lies beside the checkpoint, and --config names {options.config}. One of the "
            "two is wrong: leave --config out, or move the snapshot away.",
            path=str(path),
            argument="config",
        )
    if not there and options.config is None:
        raise InvalidArgumentError(
            f"the checkpoint's config snapshot {snapshot} is missing, and without a config no shape "
            "can be checked. Put it back, or name the config with --config FILE.",
            path=str(path),
            argument="config",
            missing=str(snapshot),
        )
    origin = snapshot if options.config is None else options.config
    parsed = read_config(origin).values
    model = parsed.get("model", None if there else parsed)
    if not isinstance(model, dict):
        raise FormatError(
            "the snapshot has no table [model]. Expected the file that the trainer writes.",
            path=str(origin),
            key="model",
        )
    return config_from(model, str(origin)), str(origin)
