"""A ``.dmexp`` file as a Hugging Face directory."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any

import numpy as np
import tomli

from ._arrays import Array, non_finite
from ._atomic import require_parent
from ._convert import ConvertReport, carried_metadata
from ._diff import BLOCK_VALUES
from ._emit import writer_name
from ._hf_writer import Planned, write_checkpoint, write_text
from ._narrow import narrow_with_stats
from ._payload import Progress
from .errors import InvalidArgumentError, TargetExistsError
from .loaders._nulls import METADATA_KEY, put_back
from .loaders.dmexp_file import DmexpSource
from .loaders.huggingface import RECORD_NAME

_DTYPE_KEYS = ("dtype", "torch_dtype")
_HF_DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
_BLOCK_VALUES = 1 << 20
_OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def to_directory(
    source: DmexpSource,
    out: Path,
    *,
    stored: str,
    dtype: str,
    shard_bytes: int,
    force: bool,
    progress: Progress | None,
    sync: bool,
) -> ConvertReport:
    """Write the directory, whole or not at all. See `dmexp._convert.convert`."""
    entries = source.entries()
    values = _Values(source, stored, dtype, progress)
    notices: list[str] = []
    with new_directory(out, force=force) as folder:
        files = write_checkpoint(
            folder,
            [Planned(entry.name, entry.dims) for entry in entries],
            dtype,
            values.pieces,
            shard_bytes=shard_bytes,
            sync=sync,
        )
        texts = _texts(source, dtype, notices)
        for name, text in texts.items():
            write_text(folder / name, text, sync=sync)
        written = sum(file.stat().st_size for file in folder.iterdir())
    return ConvertReport(
        path=str(out),
        kind="directory",
        source_dtype=stored,
        dtype=dtype,
        num_params=source.header.num_params,
        num_tensors=len(entries),
        written_bytes=written,
        files=(*files, *texts),
        changed=values.changed,
        flushed=values.flushed,
        max_abs_change=values.largest,
        max_relative_change=values.relative,
        notices=notices,
    )


@dataclass(slots=True)
class _Values:
    """Hands out the values of each tensor in the wanted dtype, and counts what that costs."""

    source: DmexpSource
    stored: str
    dtype: str
    progress: Progress | None
    changed: int = 0
    flushed: int = 0
    largest: float = 0.0
    relative: float = 0.0
    done: int = 0

    def pieces(self, name: str) -> Iterator[Array]:
        array = self.source.read(name)
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK_VALUES):
            block = flat[start : start + _BLOCK_VALUES]
            yield block if self.dtype == self.stored else self._converted(name, array, start, block)
            self.done += block.nbytes
            if self.progress is not None:
                self.progress(self.done, self.source.header.payload_bytes)

    def _converted(self, name: str, whole: Array, start: int, block: Array) -> Array:
        result, stats = narrow_with_stats(block, self.dtype, overflow="inf")
        if stats.overflowed:
            first = int(np.flatnonzero(np.isinf(result.astype(np.float32)))[0])
            raise non_finite(name, whole, start + first, self.dtype)
        self.flushed += stats.flushed
        for at in range(0, block.size, BLOCK_VALUES):
            part = slice(at, at + BLOCK_VALUES)
            before, after = block[part].astype(np.float64), result[part].astype(np.float64)
            apart = before != after
            if apart.any():
                before, after = before[apart], after[apart]
                distance = np.abs(before - after)
                self.changed += int(distance.size)
                self.largest = max(self.largest, float(distance.max()))
                larger = np.maximum(np.abs(before), np.abs(after))
                self.relative = max(self.relative, float((distance / larger).max()))
        return result


def _texts(source: DmexpSource, dtype: str, notices: list[str]) -> dict[str, str]:
    """Every file beside the weights, by name."""
    texts: dict[str, str] = {}
    if source.info.config:
        nulls = source.header.metadata.get(METADATA_KEY)
        texts["config.json"] = config_json(source.info.config, dtype, notices, nulls)
    else:
        notices.append("the file has no config, so there is no config.json: nothing can load it.")
    texts |= _tokenizer_texts(source.header.metadata.get("tokenizer"))
    texts[RECORD_NAME] = _json(
        {
            "writer": writer_name(),
            "source": source.header.source,
            "step": source.header.step,
            "dtype": source.header.dtype,
            "config": source.header.config,
            "header": source.header.extra,
            "metadata": carried_metadata(source),
        }
    )
    return texts


def config_json(text: str, dtype: str, notices: list[str], nulls: Any = None) -> str:
    """A header's config as ``config.json``. The dtype that it states becomes that of the weights."""
    config = tomli.loads(text)
    put_back(config, nulls)
    wanted = _HF_DTYPES[dtype]
    stated = set()
    for table in [config, *(v for v in config.values() if isinstance(v, dict))]:
        for key in _DTYPE_KEYS:
            if isinstance(table.get(key), str) and table[key] != wanted:
                stated.add(table[key])
                table[key] = wanted
    if stated:
        notices.append(
            f"config.json says {wanted}, as the weights are; the header's config says "
            f"{', '.join(sorted(stated))} and is kept in {RECORD_NAME}."
        )
    if "model_type" not in config:
        notices.append("the config names no model_type, so transformers cannot tell what to build.")
    return _json(config)


def _tokenizer_texts(tokenizer: Any) -> dict[str, str]:
    """The files that a tokenizer is loaded from, where the metadata carries one."""
    if not isinstance(tokenizer, Mapping) or not isinstance(tokenizer.get("json"), str):
        return {}
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    settings |= {
        key: value
        for key, value in tokenizer.items()
        if key.endswith("_token") and isinstance(value, str | bool)
    }
    if isinstance(tokenizer.get("chat_template"), str):
        settings["chat_template"] = tokenizer["chat_template"]
    texts = {"tokenizer.json": tokenizer["json"], "tokenizer_config.json": _json(settings)}
    stops = tokenizer.get("stop_token_ids")
    if isinstance(stops, list) and stops:
        texts["generation_config.json"] = _json({"eos_token_id": stops})
    return texts


def _json(value: Any) -> str:
    # Infinity and NaN are written as the usual exporter writes them.
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: object) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in JSON")


@contextlib.contextmanager
def new_directory(target: Path, *, force: bool) -> Iterator[Path]:
    """Give a new directory beside ``target``; put it in the target's place on success.

    On any exception, KeyboardInterrupt included, the new directory is removed and the target is
    as it was.

    Raises
    ------
    TargetExistsError
        The target is there, is not empty, and ``force`` is not given.
    InvalidArgumentError
        It is a file, or holds what no conversion wrote: that is not removed, whatever is said.
    """
    real = Path(os.path.realpath(target))
    _require_replaceable(target, real, force)
    mark = secrets.token_hex(8)
    fresh, old = real.with_name(f".dmexp-{mark}.tmp"), real.with_name(f".dmexp-{mark}.old")
    require_parent(target, real)
    try:
        fresh.mkdir()
        yield fresh
        if real.is_dir():
            real.replace(old)
        try:
            fresh.replace(real)
        except BaseException:
            if old.is_dir():
                old.replace(real)
            raise
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, OSError):
            _name_target(error, fresh, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _name_target(error: OSError, fresh: Path, target: Path) -> None:
    """Nobody knows the temporary directory by its name, and a full disk names no file at all."""
    if str(error.filename).startswith(str(fresh)):
        error.filename = str(target) + str(error.filename)[len(str(fresh)) :]
    elif error.filename is None and error.errno in _OUT_OF_ROOM:
        error.filename = str(target)


def _require_replaceable(target: Path, real: Path, force: bool) -> None:
    if not os.path.lexists(real):
        return
    if not real.is_dir():
        raise InvalidArgumentError(
            f"{target} is a file, and a directory is to be written. For another .dmexp file the "
            "name has to end with .dmexp.",
            argument="out",
        )
    held = sorted(file.name for file in real.iterdir())
    if not held:
        return
    if not force:
        raise TargetExistsError(
            f"{target} exists and is not empty. Name another directory with -o, or replace it "
            "with --force.",
            target=str(target),
        )
    foreign = [
        name
        for name in held
        if not name.endswith((".safetensors", ".json")) or (real / name).is_dir()
    ]
    if foreign or RECORD_NAME not in held:
        what = ", ".join(foreign[:5]) or f"no {RECORD_NAME}"
        raise InvalidArgumentError(
            f"{target} was not written by dmexp convert (it holds {what}), so it is not replaced. "
            "Remove it yourself, or name another directory.",
            argument="out",
        )
