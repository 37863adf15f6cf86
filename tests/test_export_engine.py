"""The export engine, over a source that is made up: choosing, refusing, saying."""

from __future__ import annotations

import fnmatch
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np
import pytest

import dmexp
from container_util import Array, assert_same_tensors, f32, left_in, noise, refusal
from dmexp._export import ExportReport, export
from dmexp.errors import TargetExistsError
from dmexp.loaders._source import SourceInfo, TensorEntry

BF16 = np.dtype(ml_dtypes.bfloat16)


class MadeUp:
    """A source of arrays in memory, which notes what is read of it."""

    def __init__(self, arrays: dict[str, Array], **facts: Any) -> None:
        self.arrays = arrays
        self.info = SourceInfo(path=Path("made/up.bin"), kind="made-up source", **facts)
        self.wasread: list[str] = []
        self.announced: list[TensorEntry] = [
            TensorEntry(name, array.shape, _name(array.dtype)) for name, array in arrays.items()
        ]

    def entries(self) -> list[TensorEntry]:
        return self.announced

    def read(self, name: str) -> Array:
        self.wasread.append(name)
        return self.arrays[name]

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def _name(dtype: np.dtype[Any]) -> str:
    names = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
    return names.get(dtype.name, dtype.name.replace("int", "i"))


ARRAYS: dict[str, Array] = {
    "embed.weight": noise(1, 10, 4),
    "layers.0.norm": noise(2, 4),
    "layers.0.mlp.weight": noise(3, 4, 8),
    "layers.1.norm": noise(4, 4),
    "layers.1.mlp.weight": noise(5, 4, 8),
    "head.bias": np.array(0.5, "<f4"),
}


def _export(source: MadeUp, out: Path, **options: Any) -> ExportReport:
    return export(source, out, **({"sync": False} | options))


def test_what_is_written_is_what_save_file_would_write(tmp_path: Path) -> None:
    facts = {"config": "a = 1\n", "label": "from there", "step": 5, "metadata": {"tied": True}}
    report = _export(MadeUp(ARRAYS, weight_bytes=4321, **facts), tmp_path / "x.dmexp", dtype="bf16")
    expected = dmexp.save(
        ARRAYS, config="a = 1\n", source="from there", step=5, metadata={"tied": True}
    )
    assert (tmp_path / "x.dmexp").read_bytes() == expected
    assert (report.path, report.dtype) == (str(tmp_path / "x.dmexp"), "bf16")
    assert (report.file_bytes, report.source_bytes) == (len(expected), 4321)
    assert (report.num_tensors, report.num_params) == (6, 40 + 4 + 32 + 4 + 32 + 1)
    assert [tensor.name for tensor in report.per_tensor] == list(ARRAYS)
    assert report.notices == []
    info = dmexp.info(tmp_path / "x.dmexp")
    assert (report.max_abs, report.min_nonzero_abs) == (info.max_abs, info.min_nonzero_abs)
    assert (report.flushed, report.subnormal) == (info.flushed, info.subnormal)


def test_the_user_has_the_last_word_on_label_step_and_metadata(tmp_path: Path) -> None:
    source = MadeUp(ARRAYS, label="theirs", step=5, metadata={"a": 1, "b": 2})
    path = tmp_path / "x.dmexp"
    _export(source, path, source_label="mine", step=0, metadata={"b": 3, "c": 4})
    info = dmexp.info(path)
    assert (info.source, info.step) == ("mine", 0)
    assert info.metadata == {"a": 1, "b": 3, "c": 4}
    _export(source, path, source_label="", force=True)
    assert (dmexp.info(path).source, dmexp.info(path).step) == ("", 5)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "half", "bfloat16", "FP32"])
def test_every_dtype_and_its_synonyms(dtype: str, tmp_path: Path) -> None:
    report = _export(MadeUp(ARRAYS), tmp_path / "x.dmexp", dtype=dtype)
    assert (tmp_path / "x.dmexp").read_bytes() == dmexp.save(ARRAYS, dtype=dtype)
    assert report.dtype == dmexp.info(tmp_path / "x.dmexp").dtype


def test_compat_writes_what_the_original_would(tmp_path: Path) -> None:
    source = MadeUp(ARRAYS, label="here", step=3, metadata={"a": 1})
    _export(source, tmp_path / "x.dmexp", compat="dormouse", threads=3)
    expected = dmexp.save(ARRAYS, compat="dormouse", source="here", step=3)
    assert (tmp_path / "x.dmexp").read_bytes() == expected
    error = refusal(_export, source, tmp_path / "y.dmexp", compat="dormouse", metadata={"a": 1})
    assert (error.code, error.argument) == ("INVALID_ARGUMENT", "metadata")
    assert "--compat dormouse" in error.message


def test_metadata_that_compat_leaves_out_is_mentioned(tmp_path: Path) -> None:
    source = MadeUp(ARRAYS, metadata={"tied": ["a"], "undone": "x"})
    report = _export(source, tmp_path / "x.dmexp", compat="dormouse")
    assert report.notices == [
        "--compat dormouse leaves out the metadata of the source: tied, undone."
    ]


# Choosing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        ([], [], list(ARRAYS)),
        (["*"], [], list(ARRAYS)),
        (["layers.*"], [], [name for name in ARRAYS if name.startswith("layers.")]),
        (["layers.0.*", "head*"], [], ["layers.0.norm", "layers.0.mlp.weight", "head.bias"]),
        ([], ["*.norm"], [name for name in ARRAYS if not name.endswith("norm")]),
        (["layers.*"], ["*.mlp.*"], ["layers.0.norm", "layers.1.norm"]),
        (["layers.?.norm"], ["layers.[1-9].*"], ["layers.0.norm"]),
        ([], ["layers.[!0].*", "embed*", "head*"], ["layers.0.norm", "layers.0.mlp.weight"]),
        (["embed.weight", "embed.weight"], [], ["embed.weight"]),
    ],
)
def test_patterns_choose_by_name_in_the_sources_order(
    include: list[str], exclude: list[str], left: list[str], tmp_path: Path
) -> None:
    source = MadeUp(ARRAYS)
    report = _export(source, tmp_path / "x.dmexp", dtype="f32", include=include, exclude=exclude)
    assert_same_tensors(
        dmexp.load_file(tmp_path / "x.dmexp"), {name: ARRAYS[name] for name in left}
    )
    assert source.wasread == left
    assert report.notices == []


def test_a_pattern_that_matches_nothing_is_mentioned(tmp_path: Path) -> None:
    report = _export(
        MadeUp(ARRAYS), tmp_path / "x.dmexp", include=["embed*", "nosuch"], exclude=["a b*"]
    )
    assert report.notices == [
        "--include nosuch matches no tensor.",
        "--exclude 'a b*' matches no tensor.",
    ]


def test_case_matters_in_patterns(tmp_path: Path) -> None:
    error = refusal(_export, MadeUp(ARRAYS), tmp_path / "x.dmexp", include=["EMBED*"])
    assert "none of the 6 tensors is left" in error.message
    assert left_in(tmp_path) == []


def test_a_source_without_tensors_makes_a_file_without_tensors(tmp_path: Path) -> None:
    report = _export(MadeUp({}), tmp_path / "x.dmexp")
    assert (report.num_tensors, dmexp.load_file(tmp_path / "x.dmexp")) == (0, {})


# Refusing ----------------------------------------------------------------------------------

ODD: dict[str, Array] = {
    "w": noise(1, 3),
    "position_ids": np.arange(3),
    "mask[0]": np.zeros(2, "?"),
    'a b\'s "c"': np.zeros(2, "i1"),
    "star*?": np.zeros(2, "u1"),
    "$HOME `x` \\": np.zeros(1, "i4"),
    "-o": np.zeros(1, "i8"),
    "größe 🙂": np.zeros(1, "c8"),
}


def test_what_is_no_float_is_refused_with_a_line_that_leaves_it_out(tmp_path: Path) -> None:
    source = MadeUp(ODD)
    error = refusal(_export, source, tmp_path / "x.dmexp")
    assert error.code == "UNSUPPORTED_DTYPE"
    assert error.tensors == [name for name in ODD if name != "w"]
    assert (error.tensor, error.dtype) == ("position_ids", "i64")
    assert error.path == os.fspath(Path("made/up.bin"))
    for name in error.tensors:
        assert repr(name) in error.message
    assert source.wasread == []
    assert left_in(tmp_path) == []

    # Paste the options that the message ends with.
    options = shlex.split(error.message[error.message.index("--exclude") :])
    assert options[::2] == ["--exclude"] * 7
    patterns = options[1::2]
    report = _export(source, tmp_path / "x.dmexp", dtype="f32", exclude=patterns)
    assert report.notices == []
    assert_same_tensors(dmexp.load_file(tmp_path / "x.dmexp"), {"w": ODD["w"]})
    # Each pattern means the one name and no other.
    for name, pattern in zip(error.tensors, patterns, strict=True):
        assert [other for other in ODD if fnmatch.fnmatchcase(other, pattern)] == [name]


def test_many_that_are_no_floats_are_named_up_to_a_point_and_all_left_out(tmp_path: Path) -> None:
    arrays = {f"ids.{n}": np.zeros(1, "i8") for n in range(30)} | {"w": noise(1, 2)}
    error = refusal(_export, MadeUp(arrays), tmp_path / "x.dmexp")
    assert "'ids.7' (i64) and 22 more" in error.message
    assert "'ids.8'" not in error.message
    assert len(error.tensors) == error.message.count("--exclude") == 30


def test_an_excluded_tensor_may_be_anything(tmp_path: Path) -> None:
    source = MadeUp({"w": noise(1, 2), "ids": np.zeros(2, "i8")})
    source.announced.append(TensorEntry("quantised", (3, 3), "f8_e4m3"))
    assert refusal(_export, source, tmp_path / "x.dmexp").tensors == ["ids", "quantised"]
    _export(source, tmp_path / "x.dmexp", include=["w"])
    assert source.wasread == ["w"]


@pytest.mark.parametrize("kind", ["file", "directory", "dangling link"])
def test_a_target_that_is_there_is_refused(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "x.dmexp"
    if kind == "file":
        out.write_bytes(b"old")
    elif kind == "directory":
        out.mkdir()
    else:
        out.symlink_to("nowhere")
    source = MadeUp(ARRAYS)
    error = refusal(_export, source, out)
    assert isinstance(error, TargetExistsError)
    assert (error.code, error.target) == ("EXISTS", str(out))
    assert "--force" in error.message
    assert source.wasread == []
    assert left_in(tmp_path) == ["x.dmexp"]
    if kind == "file":
        assert out.read_bytes() == b"old"
        _export(source, out, force=True)
        assert dmexp.verify(out).ok


def test_a_failure_under_force_keeps_the_old_file(tmp_path: Path) -> None:
    out = tmp_path / "x.dmexp"
    out.write_bytes(b"old")
    bad = ARRAYS | {"bad": f32([1, np.inf])}
    error = refusal(_export, MadeUp(bad), out, force=True)
    assert (error.code, error.tensor, error.index) == ("NON_FINITE", "bad", (1,))
    assert out.read_bytes() == b"old"
    assert left_in(tmp_path) == ["x.dmexp"]


@pytest.mark.parametrize("size", [4, 600_000])
@pytest.mark.parametrize(
    "found",
    [(2, 3), (6,), (3, 2, 1), (), (0,)],
)
def test_dims_that_are_not_what_was_announced_are_refused(
    found: tuple[int, ...], size: int, tmp_path: Path
) -> None:
    source = MadeUp({"first": noise(1, size), "x": noise(2, *found), "last": noise(3, 2)})
    source.announced[1] = TensorEntry("x", (3, 2), "f32")
    error = refusal(_export, source, tmp_path / "x.dmexp")
    assert error.code == "INVALID_ARGUMENT"
    assert f"'x' has dims {list(found)}" in error.message
    assert left_in(tmp_path) == []


def test_the_same_name_twice_in_a_source_is_refused(tmp_path: Path) -> None:
    source = MadeUp({"x": noise(1, 2)})
    source.announced *= 2
    assert "two tensors are named 'x'" in refusal(_export, source, tmp_path / "x.dmexp").message
    assert source.wasread == []


def test_a_config_that_does_not_describe_the_tensors_is_refused_before_reading(
    tmp_path: Path,
) -> None:
    config = 'model_type = "llama"\nhidden_size = 4\nnum_hidden_layers = 1\n'
    source = MadeUp(ARRAYS, config=config)
    assert refusal(_export, source, tmp_path / "x.dmexp").code == "SHAPE_MISMATCH"
    assert source.wasread == []
    assert left_in(tmp_path) == []


def test_a_source_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Failing(MadeUp):
        def read(self, name: str) -> Array:
            if name == "layers.1.norm":
                raise dmexp.errors.TruncatedError("gone", expected=2, actual=1)
            return super().read(name)

    assert refusal(_export, Failing(ARRAYS), tmp_path / "x.dmexp").message == "gone"
    assert left_in(tmp_path) == []


# Saying ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtypes", "target", "notices"),
    [
        (["f4", "f4"], "bf16", []),
        (["bf16", "bf16"], "bf16", []),
        (["f2", "f2"], "f16", []),
        (["bf16", "bf16"], "f32", []),
        (
            ["bf16", "bf16"],
            "f16",
            ["2 tensors are bf16 already, and f16 does not keep every bit. --dtype bf16 would."],
        ),
        (
            ["f2"],
            "bf16",
            ["1 tensor is f16 already, and bf16 does not keep every bit. --dtype f16 would."],
        ),
        (
            ["f4", "bf16", "f4"],
            "bf16",
            ["the source mixes dtypes (1 bf16, 2 f32); every tensor is stored as bf16."],
        ),
        (
            ["f8", "f2"],
            "bf16",
            [
                "the source mixes dtypes (1 f16, 1 f64); every tensor is stored as bf16.",
                "1 tensor is f16 already, and bf16 does not keep every bit. --dtype f16 would.",
            ],
        ),
    ],
)
def test_a_change_of_dtype_is_mentioned_where_it_loses_something(
    dtypes: list[str], target: str, notices: list[str], tmp_path: Path
) -> None:
    arrays = {
        f"t{nth}": noise(nth, 3).astype(BF16 if dtype == "bf16" else dtype)
        for nth, dtype in enumerate(dtypes)
    }
    report = _export(MadeUp(arrays), tmp_path / "x.dmexp", dtype=target)
    assert report.notices == notices
    assert [tensor.source_dtype for tensor in report.per_tensor] == [
        {"f4": "f32", "f2": "f16", "f8": "f64"}.get(dtype, dtype) for dtype in dtypes
    ]


def test_the_sources_notices_come_first_and_late_ones_last(tmp_path: Path) -> None:
    class Talking(MadeUp):
        def read(self, name: str) -> Array:
            if "noted while reading" not in self.info.notices:
                self.info.notices.append("noted while reading")
            return super().read(name)

    source = Talking(ARRAYS, notices=["noted on opening"])
    report = _export(source, tmp_path / "x.dmexp", exclude=["nosuch"])
    assert report.notices == [
        "noted on opening",
        "--exclude nosuch matches no tensor.",
        "noted while reading",
    ]


def test_progress_counts_source_bytes_to_their_total(tmp_path: Path) -> None:
    arrays = {"large": noise(1, 2**20), "wide": noise(2, 300_000, dtype="f8"), "small": noise(3, 5)}
    arrays["strided"] = noise(4, 600_000)[::2]
    calls: list[tuple[int, int | None]] = []
    _export(MadeUp(arrays), tmp_path / "x.dmexp", progress=lambda *call: calls.append(call))
    total = sum(array.nbytes for array in arrays.values())
    assert calls[-1] == (total, total)
    assert calls == sorted(calls)
    assert len(calls) >= 3


def test_one_large_tensor_is_read_at_a_time(tmp_path: Path) -> None:
    # A source gives its pages back when it is asked for the next tensor.
    class Lending(MadeUp):
        def read(self, name: str) -> Array:
            room[...] = self.arrays[name]
            return room

    arrays = {f"t{nth}": noise(nth, 300_000) for nth in range(6)}
    room = np.empty(300_000, "<f4")
    _export(Lending(arrays), tmp_path / "x.dmexp", dtype="f32")
    assert_same_tensors(dmexp.load_file(tmp_path / "x.dmexp"), arrays)


def test_an_export_can_be_the_source_of_another(tmp_path: Path) -> None:
    first, second = tmp_path / "a.dmexp", tmp_path / "b.dmexp"
    _export(MadeUp(ARRAYS, config="a = 1\n", label="x", step=2), first, dtype="f32")

    def again() -> Iterator[tuple[str, Array]]:
        with dmexp.safe_open(first) as file:
            yield from file.items()

    dmexp.save_file(again(), second, dtype="f32", config="a = 1\n", source="x", step=2)
    assert first.read_bytes() == second.read_bytes()
