"""A save replaces its target whole, or leaves everything as it was."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import Array, assert_same_tensors, f32, left_in, noise, refusal, run

ARRAYS: dict[str, Array] = {f"t{n}": noise(n, 1000) for n in range(5)}
OLD = b"whatever was here before"

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX file modes, links and pipes")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.dmexp"
    path.write_bytes(OLD)
    return path


def _assert_untouched(target: Path) -> None:
    assert target.read_bytes() == OLD
    assert left_in(target.parent) == [target.name]


class Failed(Exception):
    pass


# Failures in the middle --------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 3, 5])
@pytest.mark.parametrize("error", [Failed, KeyboardInterrupt, MemoryError, SystemExit, OSError])
def test_an_iterable_that_fails(after: int, error: type[BaseException], target: Path) -> None:
    def failing() -> Iterator[tuple[str, Array]]:
        yield from list(ARRAYS.items())[:after]
        # The payload so far is in a file of its own.
        assert len(left_in(target.parent)) == 2
        raise error

    with pytest.raises(error):
        dmexp.save_file(failing(), target)
    _assert_untouched(target)


@pytest.mark.parametrize("nth", [0, 1, 4])
@pytest.mark.parametrize("error", [Failed, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["mapping", "iterable"])
def test_a_progress_callback_that_fails(
    nth: int, error: type[BaseException], kind: str, target: Path
) -> None:
    calls = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal calls
        if calls == nth or kind == "mapping":
            raise error
        calls += 1

    with pytest.raises(error):
        dmexp.save_file(ARRAYS if kind == "mapping" else ARRAYS.items(), target, progress=progress)
    _assert_untouched(target)


def test_a_generator_that_is_closed_while_it_waits(target: Path) -> None:
    # An iterable that saves is itself abandoned: its temporary file goes with it.
    def saving() -> Iterator[None]:
        def arrays() -> Iterator[tuple[str, Array]]:
            yield from ARRAYS.items()
            raise GeneratorExit

        with pytest.raises(GeneratorExit):
            dmexp.save_file(arrays(), target)
        yield

    next(saving())
    _assert_untouched(target)


@pytest.mark.parametrize(
    ("tensors", "options", "code"),
    [
        ({"a": noise(1, 3), "x": f32([1, np.nan])}, {}, "NON_FINITE"),
        ([("a", noise(1, 3)), ("x", f32([1, np.nan]))], {}, "NON_FINITE"),
        ([("a", noise(1, 3)), ("x", np.array([1]))], {}, "UNSUPPORTED_DTYPE"),
        ([("a", noise(1, 3)), ("a", noise(1, 3))], {}, "INVALID_ARGUMENT"),
        ([("a", noise(1, 3)), ("", noise(1, 3))], {}, "INVALID_ARGUMENT"),
        ([("a", noise(1, 3)), "b"], {}, "INVALID_ARGUMENT"),
        ([("a", noise(1, 3))], {"config": {"model_type": "gpt2"}}, "SHAPE_MISMATCH"),
        ({"a": noise(1, 3)}, {"dtype": "f64"}, "UNSUPPORTED_DTYPE"),
        ({"a": noise(1, 3)}, {"config": "="}, "INVALID_ARGUMENT"),
    ],
)
def test_a_refusal_leaves_the_old_file(
    tensors: Any, options: dict[str, Any], code: str, target: Path
) -> None:
    assert refusal(dmexp.save_file, tensors, target, **options).code == code
    _assert_untouched(target)


@pytest.mark.parametrize("step", ["write", "move_to", "write_at", "sync", "tallies", "crc32"])
def test_a_failure_of_any_native_step(
    step: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dmexp import _payload

    real = sys.modules["dmexp._native"]

    class Writer:
        def __init__(self, *arguments: Any) -> None:
            self.inner = real.PayloadWriter(*arguments)

        def __getattr__(self, name: str) -> Any:
            if name == step:
                raise Failed
            return getattr(self.inner, name)

    class Native:
        PayloadWriter = Writer

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    monkeypatch.setattr(_payload, "_native", Native())
    with pytest.raises(Failed):
        dmexp.save_file(ARRAYS.items(), target)
    _assert_untouched(target)


@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_a_failure_of_the_last_steps(
    step: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "not today", "somewhere")

    monkeypatch.setattr(Path, step, failing)
    with pytest.raises(PermissionError, match="not today"):
        dmexp.save_file(ARRAYS, target)
    monkeypatch.undo()
    _assert_untouched(target)


DISK_FULL = """
import os, resource, sys
import numpy as np, dmexp
target, kind = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
arrays = {f"t{n}": np.ones(1 << 19, "f4") for n in range(8)}
try:
    dmexp.save_file(arrays if kind == "mapping" else arrays.items(), target, threads=int(sys.argv[2] == "mapping") + 1)
except OSError as error:
    print(type(error).__name__, error.errno, error.filename)
print(sorted(os.listdir(os.path.dirname(target))))
"""


@posix
@pytest.mark.parametrize("kind", ["mapping", "iterable"])
def test_a_full_disk_says_so_and_leaves_the_old_file(kind: str, target: Path) -> None:
    # The limit on a file's size fails a write in the middle, as a full disk does.
    lines = run(DISK_FULL, target, kind).splitlines()
    assert lines == [f"OSError {errno.EFBIG} {target}", "['model.dmexp']"]
    _assert_untouched(target)


# Targets -----------------------------------------------------------------------------------


def test_it_replaces_what_is_there(target: Path) -> None:
    report = dmexp.save_file(ARRAYS, target, dtype="f32")
    assert report.file_bytes == target.stat().st_size
    assert_same_tensors(dmexp.load_file(target), ARRAYS)
    assert left_in(target.parent) == ["model.dmexp"]
    dmexp.save_file({}, target)
    assert dmexp.load_file(target) == {}


@pytest.mark.parametrize("sync", [True, False])
def test_it_makes_a_new_file(sync: bool, tmp_path: Path) -> None:
    path = tmp_path / "new.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", sync=sync)
    assert_same_tensors(dmexp.load_file(path), ARRAYS)
    assert left_in(tmp_path) == ["new.dmexp"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664, 0o755, 0o400])
def test_mode_bits_are_kept(mode: int, target: Path) -> None:
    target.chmod(mode)
    dmexp.save_file(ARRAYS, target)
    assert stat.S_IMODE(target.stat().st_mode) == mode


@posix
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_that_the_umask_leaves(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        dmexp.save_file(ARRAYS, tmp_path / "x.dmexp")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x.dmexp").stat().st_mode) == 0o666 & ~mask


@posix
def test_a_symlink_is_followed_and_stays(tmp_path: Path) -> None:
    real = tmp_path / "deep" / "real.dmexp"
    real.parent.mkdir()
    real.write_bytes(OLD)
    link = tmp_path / "link.dmexp"
    link.symlink_to("deep/real.dmexp")
    second = tmp_path / "second.dmexp"
    second.symlink_to(link)
    dmexp.save_file(ARRAYS, second, dtype="f32")
    assert os.readlink(second) == str(link)
    assert os.readlink(link) == "deep/real.dmexp"
    assert not real.is_symlink()
    assert_same_tensors(dmexp.load_file(real), ARRAYS)
    assert left_in(tmp_path) == ["deep", "link.dmexp", "second.dmexp"]
    assert left_in(real.parent) == ["real.dmexp"]


@posix
def test_a_dangling_symlink_gets_its_file(tmp_path: Path) -> None:
    link = tmp_path / "link.dmexp"
    link.symlink_to("later.dmexp")
    dmexp.save_file(ARRAYS, link, dtype="f32")
    assert link.is_symlink()
    assert_same_tensors(dmexp.load_file(tmp_path / "later.dmexp"), ARRAYS)
    assert left_in(tmp_path) == ["later.dmexp", "link.dmexp"]


@posix
def test_a_hard_link_keeps_the_old_bytes(target: Path) -> None:
    other = target.with_name("other.dmexp")
    os.link(target, other)
    dmexp.save_file(ARRAYS, target, dtype="f32")
    assert other.read_bytes() == OLD


@posix
def test_what_is_no_regular_file_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    before = Path("/dev/null").stat()
    for name in (tmp_path / "directory", tmp_path / "pipe", tmp_path / "link", Path("/dev/null")):
        error = refusal(dmexp.save_file, ARRAYS, name)
        assert (error.code, error.argument) == ("INVALID_ARGUMENT", "path")
        assert f"{name} is not a regular file" in error.message
    assert left_in(tmp_path) == ["directory", "link", "pipe"]
    assert left_in(tmp_path / "directory") == []
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert Path("/dev/null").stat().st_ino == before.st_ino


@posix
@pytest.mark.parametrize(
    ("spelling", "error"),
    [
        ("missing/x.dmexp", FileNotFoundError),
        ("model.dmexp/x.dmexp", NotADirectoryError),
        ("loop", OSError),
        ("x" * 256, OSError),
        ("", FileNotFoundError),
        ("new/", IsADirectoryError),
    ],
)
def test_a_path_that_cannot_be_is_an_error_that_names_it(
    spelling: str, error: type[OSError], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(target.parent)
    os.symlink("loop", "loop")
    with pytest.raises(error) as caught:
        dmexp.save_file(ARRAYS, spelling)
    assert caught.value.errno
    assert ".tmp" not in str(caught.value)
    assert str(caught.value.filename).endswith(spelling)
    assert left_in(target.parent) == ["loop", "model.dmexp"]


UNWRITABLE = """
import os, sys
import dmexp, numpy as np
from pathlib import Path
dmexp.save({"w": np.float32([1])})
directory = Path(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    dmexp.save_file({"w": np.float32([1])}, directory / "model.dmexp")
except PermissionError as error:
    print(error.filename)
"""


@posix
def test_a_directory_that_is_not_ours_is_an_error() -> None:
    # Root may write anywhere, so the child gives that up. pytest's own directory would not even
    # let it pass.
    with tempfile.TemporaryDirectory() as made:
        target = Path(made) / "model.dmexp"
        target.write_bytes(OLD)
        target.parent.chmod(0o555)
        assert run(UNWRITABLE, target.parent).strip() == str(target)
        target.parent.chmod(0o755)
        _assert_untouched(target)


def test_relative_paths_are_relative_to_where_the_save_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")

    def moving() -> Iterator[tuple[str, Array]]:
        yield from ARRAYS.items()
        os.chdir(tmp_path / "b")

    dmexp.save_file(moving(), "x.dmexp", dtype="f32")
    assert_same_tensors(dmexp.load_file(tmp_path / "a" / "x.dmexp"), ARRAYS)
    assert left_in(tmp_path / "b") == []
    for spelling in ("y.dmexp", "./y.dmexp", "../b/y.dmexp", Path("y.dmexp")):
        dmexp.save_file({}, spelling)
    assert left_in(tmp_path / "b") == ["y.dmexp"]


@pytest.mark.parametrize("length", [1, 200, 254, 255])
def test_names_as_long_as_names_may_be(length: int, tmp_path: Path) -> None:
    name = "n" * length
    dmexp.save_file(ARRAYS, tmp_path / name, dtype="f32")
    dmexp.save_file(ARRAYS, tmp_path / name, dtype="f32")
    assert left_in(tmp_path) == [name]
    assert_same_tensors(dmexp.load_file(tmp_path / name), ARRAYS)


def test_a_path_of_another_type_is_refused() -> None:
    for wrong in (3, None, b"x.dmexp", ["x"], object()):
        with pytest.raises(TypeError, match=r"str and os\.PathLike are accepted"):
            dmexp.save_file(ARRAYS, wrong)  # type: ignore[arg-type]


# Over itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("kind", [lambda file: file, lambda file: file.items()])
def test_saving_over_the_file_that_the_arrays_are_mapped_from(
    dtype: str, kind: Callable[[Any], Any], tmp_path: Path
) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32")
    with dmexp.safe_open(path) as file:
        kept = dict(file.items())
        dmexp.save_file(kind(file), path, dtype=dtype)
        dmexp.save_file({"only": file["t3"]}, path, dtype=dtype)
    assert_same_tensors(kept, ARRAYS)
    expected = dmexp.load(dmexp.save({"only": ARRAYS["t3"]}, dtype=dtype))
    assert_same_tensors(dmexp.load_file(path), expected)


def test_saving_while_others_read(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32")
    file = dmexp.safe_open(path)
    dmexp.save_file({"other": noise(9, 5)}, path)
    # What was opened is the old file, also where it is read for the first time now.
    assert_same_tensors(dict(file.items()), ARRAYS)
    assert dmexp.safe_open(path).keys() == ["other"]


def test_two_saves_to_one_target_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "x.dmexp"

    def inner() -> Iterator[tuple[str, Array]]:
        yield "a", noise(1, 10)
        dmexp.save_file({"inner": noise(2, 3)}, path)
        assert dmexp.safe_open(path).keys() == ["inner"]
        yield "b", noise(3, 10)

    dmexp.save_file(inner(), path)
    assert dmexp.safe_open(path).keys() == ["a", "b"]
    assert left_in(tmp_path) == ["x.dmexp"]


def test_the_directory_is_synced_and_a_system_that_cannot_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        raise OSError(errno.EINVAL, "no such thing here")

    monkeypatch.setattr(os, "fsync", fsync)
    dmexp.save_file(ARRAYS, tmp_path / "x.dmexp")
    assert synced == ([tmp_path.stat().st_ino] if os.name == "posix" else [])
    synced.clear()
    dmexp.save_file(ARRAYS, tmp_path / "x.dmexp", sync=False)
    assert synced == []


# Killed and interrupted --------------------------------------------------------------------

LONG = """
import os, signal, sys
import numpy as np, dmexp
# Whoever runs the tests in the background may have told them to ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
target, wait = sys.argv[1:]
values = np.ones(1 << 18, "f4")

def tensors():
    for n in range(500):
        yield f"t{n}", values
    raise RuntimeError("nobody stopped this")

def progress(done, total):
    print(done, flush=True)
    if wait == "wait":
        sys.stdin.readline()

try:
    dmexp.save_file(tensors(), target, progress=progress)
except KeyboardInterrupt:
    print("interrupted", sorted(os.listdir(os.path.dirname(target))), flush=True)
"""


@posix
@pytest.mark.parametrize("wait", ["wait", "run"])
def test_an_interrupt_ends_a_long_save_and_leaves_nothing(wait: str, target: Path) -> None:
    import signal

    with subprocess.Popen(
        [sys.executable, "-c", LONG, target, wait],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for _ in range(3):
            assert int(child.stdout.readline()) > 0
            if wait == "wait":
                child.stdin.write("\n")
                child.stdin.flush()
        child.send_signal(signal.SIGINT)
        if wait == "wait":
            child.stdin.close()
        *_, last = child.stdout
        assert last == "interrupted ['model.dmexp']\n"
        assert child.wait(60) == 0
    _assert_untouched(target)
