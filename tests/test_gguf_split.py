"""Split GGUF models: any part leads to the set, and the set has to be whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmexp.errors import DmexpError, FormatError, InvalidArgumentError, TruncatedError
from dmexp.loaders.gguf import read_set
from gguf_util import ARCHITECTURE, Gguf, f32


def part_name(number: int, count: int, stem: str = "model") -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def write_set(directory: Path, parts: Sequence[Sequence[str]], **changes: Any) -> list[Path]:
    """One part for each list of tensor names. ``changes`` maps ``no1`` and so on to a lie."""
    total = sum(len(names) for names in parts)
    paths = []
    for index, names in enumerate(parts):
        metadata = [
            ("split.no", "u16", changes.get(f"no{index}", index)),
            ("split.count", "u16", changes.get(f"count{index}", len(parts))),
            ("split.tensors.count", "i32", changes.get(f"total{index}", total)),
        ]
        if index == 0:
            metadata = [ARCHITECTURE, ("llama.block_count", "u32", 2), *metadata]
        tensors = [f32(name, np.arange(3) + index) for name in names]
        paths.append(Gguf(metadata, tensors).write(directory / part_name(index + 1, len(parts))))
    return paths


def refusal(path: Path, kind: type[DmexpError]) -> Any:
    with pytest.raises(kind) as caught:
        read_set(path)
    return caught.value


def test_p61_any_part_and_the_directory_resolve_the_set(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [["a"], ["b", "c"], []])
    for start in [*paths, tmp_path]:
        found = read_set(start, check_extent=True)
        assert list(found.parts) == paths
        assert found.header.architecture == "llama"
        assert found.header.metadata["llama.block_count"] == 2
        assert [(t.name, t.part) for t in found.header.tensors] == [("a", 0), ("b", 1), ("c", 1)]


def test_p61_the_first_part_may_hold_no_tensors(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [[], ["a"]])
    assert [t.part for t in read_set(paths[0]).header.tensors] == [1]


@pytest.mark.parametrize("start", [0, 2])
def test_p61_missing_parts_are_all_listed(tmp_path: Path, start: int) -> None:
    paths = write_set(tmp_path, [["a"], ["b"], ["c"], ["d"]])
    paths[1].unlink()
    paths[3].unlink()
    error = refusal(paths[start], TruncatedError)
    assert error.missing == [part_name(2, 4), part_name(4, 4)]
    assert part_name(2, 4) in error.message
    assert (error.expected, error.actual) == (4, 2)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"no1": 2}, "split.no"),
        ({"no0": 1}, "split.no"),
        ({"count0": 3}, "split.count"),
        ({"count1": 3}, "split.count"),
        ({"total0": 4}, "split.tensors.count"),
    ],
)
def test_p61_parts_that_disagree_are_refused(
    tmp_path: Path, change: dict[str, int], key: str
) -> None:
    paths = write_set(tmp_path, [["a"], ["b"]], **change)
    assert refusal(paths[0], FormatError).key == key


def test_p61_a_file_named_as_a_part_without_the_keys_is_refused(tmp_path: Path) -> None:
    path = Gguf([ARCHITECTURE], [f32("a", [1])]).write(tmp_path / part_name(1, 2))
    assert refusal(path, FormatError).key == "split.count"


def test_p61_a_renamed_part_is_refused_with_the_name_it_needs(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [["a"], ["b"]])
    renamed = paths[1].rename(tmp_path / "second.gguf")
    error = refusal(renamed, FormatError)
    assert "part 2 of a model split in 2" in error.message
    assert "-00001-of-00002.gguf" in error.message


def test_a_part_with_metadata_of_another_model_is_refused(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [["a"], ["b"]])
    metadata = [
        ("general.architecture", "string", "qwen3"),
        ("split.no", "u16", 1),
        ("split.count", "u16", 2),
    ]
    Gguf(metadata, [f32("b", [1])]).write(paths[1])
    assert refusal(paths[0], FormatError).key == "general.architecture"


def test_p63_a_name_in_two_parts_is_refused(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [["a", "b"], ["b"]])
    error = refusal(paths[1], FormatError)
    assert error.names == ["b"]
    assert "over all parts" in error.message


def test_a_file_of_one_part_needs_no_keys(tmp_path: Path) -> None:
    for name, metadata in (
        ("m.gguf", [ARCHITECTURE]),
        (part_name(1, 1), [ARCHITECTURE]),
        ("n.gguf", [ARCHITECTURE, ("split.count", "u16", 0)]),
        ("o.gguf", [ARCHITECTURE, ("split.count", "u16", 1)]),
    ):
        path = Gguf(metadata, [f32("a", [1])]).write(tmp_path / name)
        assert read_set(path).parts == (path,)


@pytest.mark.parametrize("value", [("string", "2"), ("i32", -1), ("bool", 1), ("u32", 100_000)])
def test_a_count_that_is_none_is_refused(tmp_path: Path, value: tuple[str, Any]) -> None:
    path = Gguf([ARCHITECTURE, ("split.count", *value)]).write(tmp_path / part_name(1, 2))
    assert refusal(path, FormatError).key == "split.count"


def test_a_directory_of_two_models_is_refused_with_both_named(tmp_path: Path) -> None:
    assert refusal(tmp_path, InvalidArgumentError).known == []
    for name in ("a.gguf", "b.gguf", part_name(1, 2, "c"), part_name(2, 2, "c")):
        Gguf([ARCHITECTURE]).write(tmp_path / name)
    assert refusal(tmp_path, InvalidArgumentError).known == [
        "a.gguf",
        "b.gguf",
        part_name(1, 2, "c"),
    ]


def test_a_part_that_is_cut_short_is_named(tmp_path: Path) -> None:
    paths = write_set(tmp_path, [["a"], ["b"]])
    paths[1].write_bytes(paths[1].read_bytes()[:-32])
    with pytest.raises(TruncatedError) as caught:
        read_set(paths[0], check_extent=True)
    assert caught.value.path == str(paths[1])
