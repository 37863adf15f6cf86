"""Output heads that are the input embedding: recorded, or refused where head and flag disagree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dmexp.errors import FormatError, ShapeMismatchError
from dmexp.families import Family
from dmexp.families._config import Undescribed

from ._source import TensorEntry

METADATA_KEY = "tied"
"""In the header's metadata: head name to the name of the tensor that it is."""

Place = tuple[Path, int, int]
"""A file, and the first byte and the byte after the last of one tensor in it."""

_BLOCK_BYTES = 1 << 20
_WRAPPED_HEADS = ("", "language_model.")


def check_tied(
    entries: Sequence[TensorEntry],
    config: Mapping[str, Any],
    family: Family | None,
    place: Callable[[str], Place],
    *,
    path: str,
) -> tuple[dict[str, Any], list[str]]:
    """Compare the head with the config's ``tie_word_embeddings``.

    Parameters
    ----------
    place
        Where the bytes of a tensor are. Asked for only if a head is stored beside a flag that
        says it is tied; the two are then compared block by block.

    Returns
    -------
    tuple
        What goes into the header's metadata, and notices.

    Raises
    ------
    ShapeMismatchError
        No head, and nothing says that it is tied.
    FormatError
        A head that is said to be tied and holds other values.
    """
    if family is None or family.tied is None:
        return {}, []
    try:
        tied = family.is_tied(config)
    except Undescribed as error:
        raise FormatError(f"{error}.", path=path, key="tie_word_embeddings") from None
    by_name = {entry.name: entry for entry in entries}
    head = next(
        (f"{p}{family.head}" for p in _WRAPPED_HEADS if f"{p}{family.head}" in by_name), None
    )
    embedding = _embedding(family, by_name)
    if head is None:
        return _absent(family, embedding, bool(tied), by_name, path)
    if not tied or embedding is None:
        return {}, []
    if not _same(by_name[head], by_name[embedding], place):
        raise FormatError(
            f"the config says that the output head is tied to the embedding, but {head!r} and "
            f"{embedding!r} differ. Readers that believe the flag would drop the head: set "
            '"tie_word_embeddings" to false if the head is the one to use, or leave it out with '
            f"--exclude {head}.",
            path=path,
            key="tie_word_embeddings",
            head=head,
            embedding=embedding,
        )
    return {METADATA_KEY: {head: embedding}}, [
        f"{head} is tied to {embedding} and stored as well; both are kept."
    ]


def _absent(
    family: Family, embedding: str | None, tied: bool, by_name: Mapping[str, Any], path: str
) -> tuple[dict[str, Any], list[str]]:
    if tied:
        return ({METADATA_KEY: {family.head: embedding}} if embedding else {}), []
    # A decoder that was saved without the wrapper's name has no head, nor has a classifier.
    if embedding is None or embedding == family.embedding or "score.weight" in by_name:
        return {}, []
    raise ShapeMismatchError(
        f"{family.head!r} is absent, and the config does not say that it is tied to {embedding!r}. "
        'With a tied head the config says "tie_word_embeddings": true; without one the head is '
        "missing from the download.",
        path=path,
        family=family.name,
        conflicts=[{"name": family.head, "problem": "missing", "expected": None, "found": None}],
    )


def _embedding(family: Family, names: Mapping[str, Any]) -> str | None:
    found = [
        name
        for name in names
        if (name == family.embedding or name.endswith(f".{family.embedding}"))
        and not name.startswith("mtp.")
    ]
    return min(found, key=len, default=None)


def _same(head: TensorEntry, embedding: TensorEntry, place: Callable[[str], Place]) -> bool:
    if (head.dims, head.dtype) != (embedding.dims, embedding.dtype):
        return False
    first, start, end = place(head.name)
    second, other, _ = place(embedding.name)
    with first.open("rb") as a, second.open("rb") as b:
        a.seek(start)
        b.seek(other)
        left = end - start
        while left:
            count = min(left, _BLOCK_BYTES)
            if a.read(count) != b.read(count):
                return False
            left -= count
    return True
