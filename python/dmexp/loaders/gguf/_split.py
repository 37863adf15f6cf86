"""Split models: any part, or the directory of the parts, leads to the whole set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dmexp.errors import FormatError, InvalidArgumentError, TruncatedError

from ._arrays import SkippedArray
from ._header import GgufHeader, read_header
from ._tensors import check_duplicates

PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf\Z")

_PER_PART = frozenset({"split.no", "split.count", "split.tensors.count", "general.alignment"})


@dataclass(frozen=True, slots=True)
class GgufSet:
    """A model: one header over all parts, and the files that hold the parts.

    ``header.tensors[i].part`` is an index into ``parts``. ``headers`` are those of the parts.
    """

    header: GgufHeader
    parts: tuple[Path, ...]
    headers: tuple[GgufHeader, ...]


def read_set(path: str | os.PathLike[str], *, check_extent: bool = False) -> GgufSet:
    """Read the headers of all parts of a model.

    Parameters
    ----------
    path
        A file that is not split, any part of a split model, or a directory that holds one model.
    check_extent
        As in `read_header`.

    Returns
    -------
    GgufSet

    Raises
    ------
    TruncatedError
        Parts are missing; all are listed. Facts: ``missing``.
    FormatError
        Parts that disagree about the set, or a tensor that occurs in two parts.
    InvalidArgumentError
        A directory that holds no GGUF file, or more than one model.
    """
    where = Path(path)
    if where.is_dir():
        where = _from_directory(where)
    header = read_header(where, check_extent=check_extent)
    named = PART_NAME.match(where.name)
    count = _split_count(header, where)
    if count == 1 and (named is None or int(named["count"]) == 1):
        return GgufSet(header, (where,), (header,))
    if named is None:
        raise FormatError(
            f"this is part {_split_number(header, where) + 1} of a model split in {count}, and its "
            f"name does not end in -00001-of-{count:05}.gguf, so the other parts cannot be found. "
            "Give the parts their names back.",
            path=str(where),
            key="split.count",
        )
    if count != int(named["count"]):
        raise FormatError(
            f"the name says that the model has {int(named['count'])} parts, key 'split.count' says "
            f"{count}. The file is renamed or damaged.",
            path=str(where),
            key="split.count",
        )
    paths = [
        where.with_name(f"{named['stem']}-{n + 1:05}-of-{count:05}.gguf") for n in range(count)
    ]
    missing = [part.name for part in paths if not part.exists()]
    if missing:
        raise TruncatedError(
            f"the model is split in {count} parts, and {len(missing)} of them are not in "
            f"{where.parent}: {', '.join(missing[:10])}"
            f"{f' and {len(missing) - 10} more' if len(missing) > 10 else ''}. "
            "Fetch them, and put them beside this one.",
            path=str(where),
            expected=count,
            actual=count - len(missing),
            missing=missing,
        )
    headers = [
        header if part == where else read_header(part, check_extent=check_extent) for part in paths
    ]
    return GgufSet(_merged(headers, paths), tuple(paths), tuple(headers))


def _from_directory(directory: Path) -> Path:
    """The file to start from in a directory: the first part, or the one file."""
    files = sorted(path for path in directory.iterdir() if path.suffix == ".gguf")
    models: dict[str, Path] = {}
    for path in files:
        named = PART_NAME.match(path.name)
        # Two sets of one stem with other counts are two models.
        model = f"{named['stem']}-of-{named['count']}" if named else path.name
        models.setdefault(model, path)
    if len(models) != 1:
        found = ", ".join(path.name for path in models.values()) or "none"
        raise InvalidArgumentError(
            f"{directory}: a directory must hold the GGUF file or the parts of one model; "
            f"found {found}. Name the file instead.",
            argument="path",
            known=[path.name for path in models.values()],
        )
    return next(iter(models.values()))


def _integer(header: GgufHeader, key: str, path: Path, default: int) -> int:
    value = header.metadata.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FormatError(f"key {key!r} is {value!r}, expected a count.", path=str(path), key=key)
    return value


def _split_count(header: GgufHeader, path: Path) -> int:
    # A count of 0 is how some writers say that a file is not split.
    count = _integer(header, "split.count", path, 1) or 1
    if count > 99_999:
        raise FormatError(
            f"key 'split.count' is {count}; part names have room for 99999.",
            path=str(path),
            key="split.count",
        )
    return count


def _split_number(header: GgufHeader, path: Path) -> int:
    return _integer(header, "split.no", path, 0)


def _merged(headers: Sequence[GgufHeader], paths: Sequence[Path]) -> GgufHeader:
    first = headers[0]
    metadata: dict[str, Any] = dict(first.metadata)
    types = dict(first.value_types)
    for index, (header, path) in enumerate(zip(headers, paths, strict=True)):
        _check_part(header, path, index, len(headers))
        for key, value in header.metadata.items():
            if key not in metadata:
                metadata[key] = value
                types[key] = header.value_types[key]
            elif key not in _PER_PART and not _same(metadata[key], value):
                raise FormatError(
                    f"key {key!r} differs between {paths[0].name} and {path.name}. The parts do "
                    "not belong together.",
                    path=str(path),
                    key=key,
                )
    tensors = tuple(
        replace(tensor, part=index)
        for index, header in enumerate(headers)
        for tensor in header.tensors
    )
    _check_total(metadata, len(tensors), paths)
    try:
        check_duplicates((tensor.name for tensor in tensors), " over all parts")
    except FormatError as error:
        raise error.with_path(str(paths[0])) from None
    architecture = next((header.architecture for header in headers if header.architecture), "")
    return replace(
        first, architecture=architecture, metadata=metadata, tensors=tensors, value_types=types
    )


def _check_part(header: GgufHeader, path: Path, index: int, count: int) -> None:
    stated = _split_count(header, path)
    if stated != count:
        raise FormatError(
            f"key 'split.count' is {stated}, the other parts say {count}. The parts do not belong "
            "together.",
            path=str(path),
            key="split.count",
        )
    number = _split_number(header, path)
    if number != index:
        raise FormatError(
            f"key 'split.no' is {number}, the name says part {index + 1}, which is number {index}. "
            "The file is renamed or damaged.",
            path=str(path),
            key="split.no",
        )


def _check_total(metadata: Mapping[str, Any], found: int, paths: Sequence[Path]) -> None:
    stated = metadata.get("split.tensors.count")
    if stated is not None and stated != found:
        raise FormatError(
            f"key 'split.tensors.count' is {stated!r}, and the {len(paths)} parts hold {found} "
            "tensors. A part belongs to another model or is damaged.",
            path=str(paths[0]),
            key="split.tensors.count",
        )


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, SkippedArray) and isinstance(other, SkippedArray):
        return (one.type, one.count, one.nbytes) == (other.type, other.count, other.nbytes)
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def extent_end(header: GgufHeader) -> int:
    """Where the last tensor of one file ends, in bytes; the start of the data where it has none."""
    ends = (tensor.offset + tensor.nbytes for tensor in header.tensors)
    return max(ends, default=header.data_offset)
