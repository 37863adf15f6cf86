"""The record of what was undone to a GGUF file: made once, for `export` and for `contracts`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, TargetExistsError


def record_of(source: Any) -> dict[str, Any]:
    """The provenance of an open source.

    Raises
    ------
    InvalidArgumentError
        The source is no GGUF file: nothing is undone to any other kind.
    """
    from ..contracts import provenance
    from ..loaders.gguf import GgufSource

    if not isinstance(source, GgufSource):
        raise InvalidArgumentError(
            f"this is a {source.info.kind}: it is taken as it is, and there are no steps to "
            "record. Provenance is of GGUF files.",
            path=str(source.info.path),
            argument="provenance",
        )
    return provenance(source.header, read=source.stored)


def record_of_header(path: Path) -> dict[str, Any]:
    """The same from the header alone, without domain checks and summaries of tensors."""
    from ..contracts import provenance
    from ..loaders.gguf import read_set

    return provenance(read_set(path).header)


def require_free(path: Path, *, force: bool) -> None:
    """Refuse a target that is there, before any work is done for it."""
    if not force and os.path.lexists(path):
        raise TargetExistsError(
            f"{path} exists. Name another file, or replace it with --force.", target=str(path)
        )


def write(record: dict[str, Any], path: Path) -> None:
    """Write a record, whole or not at all."""
    from .._atomic import replacing
    from ..contracts import provenance_json

    with replacing(path) as temporary:
        temporary.write_text(provenance_json(record), encoding="utf-8", newline="\n")
