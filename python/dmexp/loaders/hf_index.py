"""The index of a sharded checkpoint: which file holds which tensor. What it says, goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dmexp.errors import FormatError, LimitExceededError

from ._bounded import read_at_most
from .safetensors._json import kind_of, parse_object

INDEX_NAME = "model.safetensors.index.json"
LARGEST_INDEX_BYTES = 256 * 1024 * 1024

_RESERVED = frozenset({"", ".", ".."})


def read_index(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read ``weight_map``: tensor name to the name of a file in the same directory.

    Raises
    ------
    FormatError
        Not JSON, no ``weight_map``, a name twice, or a value that is no bare file name: a
        separator, ``..``, a drive or an absolute path would lead out of the directory.
    LimitExceededError
        Larger than any real index.
    OSError
        The file cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        data = read_at_most(file, LARGEST_INDEX_BYTES)
    if len(data) > LARGEST_INDEX_BYTES:
        raise LimitExceededError(
            f"the index is larger than {LARGEST_INDEX_BYTES} bytes, which no real one is.",
            path=name,
            limit=LARGEST_INDEX_BYTES,
            found=os.path.getsize(path),
        )
    weight_map = parse_object(data, path=name, what="index").get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        found = "empty" if weight_map == {} else kind_of(weight_map)
        raise FormatError(
            f"the index's weight_map is {found}, expected an object with a file name for each "
            "tensor.",
            path=name,
            key="weight_map",
        )
    for tensor, shard in weight_map.items():
        if not isinstance(shard, str) or not _is_bare(shard):
            raise FormatError(
                f"the index puts tensor {tensor!r} into {shard!r}, expected the bare name of a "
                "file in the same directory: no separator, no '..', no drive, not absolute.",
                path=name,
                key=tensor,
                shard=shard,
            )
    return weight_map


def _is_bare(name: str) -> bool:
    return (
        name not in _RESERVED
        and not any(letter in name for letter in "/\\:\0")
        and name.isprintable()
    )


def require_shards(weight_map: Mapping[str, str], index: Path) -> list[str]:
    """The shards in order of their names, once all of them are known to be there.

    Raises
    ------
    FormatError
        Some are not; all of those are listed. Facts: ``missing``.
    """
    shards = sorted(set(weight_map.values()))
    missing = [shard for shard in shards if not (index.parent / shard).is_file()]
    if missing:
        dangling = [shard for shard in missing if (index.parent / shard).is_symlink()]
        hint = " (links to files that were not downloaded)" if len(dangling) == len(missing) else ""
        raise FormatError(
            f"{len(missing)} of {len(shards)} shards that the index names are not there{hint}: "
            f"{', '.join(missing)}. Without them the model is incomplete: download them again.",
            path=str(index),
            missing=missing,
        )
    return shards


def require_placement(
    weight_map: Mapping[str, str], held: Mapping[str, Iterable[str]], index: Path
) -> None:
    """Check that each tensor is in the shard that the index names.

    Parameters
    ----------
    held
        Shard to the names in its header.

    Raises
    ------
    FormatError
        Some are not; the message names tensor and shard of each. Facts: ``misplaced``, a list of
        dicts with ``tensor``, ``shard`` and ``found_in``.
    """
    names = {shard: frozenset(tensors) for shard, tensors in held.items()}
    misplaced: list[dict[str, Any]] = [
        {
            "tensor": tensor,
            "shard": shard,
            "found_in": [other for other in names if tensor in names[other]],
        }
        for tensor, shard in weight_map.items()
        if tensor not in names[shard]
    ]
    if not misplaced:
        return
    shown = "; ".join(
        f"{fault['tensor']!r} is not in {fault['shard']}"
        + (f" but in {', '.join(fault['found_in'])}" if fault["found_in"] else "")
        for fault in misplaced[:20]
    )
    more = f"; and {len(misplaced) - 20} more" if len(misplaced) > 20 else ""
    raise FormatError(
        f"the index and the shards disagree: {shown}{more}. The index or a shard is stale: "
        "download both again.",
        path=str(index),
        misplaced=misplaced,
    )
