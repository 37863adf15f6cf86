"""Threads: the interpreter is let go of, many read at once, and a forked child starts afresh."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmexp
from container_util import Array, assert_same_tensors, noise, pack, run, table, top
from dmexp import _native

ARRAYS: dict[str, Array] = {f"t{n}": noise(n, 200_000) for n in range(24)}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("threads") / "model.dmexp"
    dmexp.save_file(ARRAYS, path, dtype="f32", sync=False)
    return path


# Overlap -----------------------------------------------------------------------------------


@pytest.fixture
def only_by_choice() -> Iterator[None]:
    """No thread is made to let go of the interpreter: what runs meanwhile was let in."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def _lets_others_run(call: Callable[[], object]) -> bool:
    """Whether another thread, waiting for the interpreter, gets it in the middle of a call.

    The other thread is ready to run and cannot take the interpreter from us. If it has run by the
    time that the call is back, the call gave it up. It may not have been woken in time, so there
    are several tries, none of which can succeed by accident.
    """
    for _ in range(200):
        order: list[str] = []
        gate = threading.Lock()
        gate.acquire()
        waiting = threading.Event()

        def other(
            gate: threading.Lock = gate,
            order: list[str] = order,
            waiting: threading.Event = waiting,
        ) -> None:
            waiting.set()
            with gate:
                order.append("other")

        thread = threading.Thread(target=other)
        thread.start()
        waiting.wait()
        gate.release()
        call()
        order.append("call")
        thread.join()
        if order[0] == "other":
            return True
    return False


def _held() -> None:
    # Plain Python keeps the interpreter until it is asked for it.
    sum(range(10_000))


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL")
def test_the_proof_tells_a_call_that_holds_the_interpreter(only_by_choice: None) -> None:
    assert not _lets_others_run(_held)


@pytest.mark.usefixtures("only_by_choice")
@pytest.mark.parametrize("target", ["f32", "bf16"])
def test_writing_lets_others_run(target: str) -> None:
    piece = noise(1, 2**21).view("u1")
    writer = _native.PayloadWriter(None, target, 0, 1)
    assert _lets_others_run(lambda: writer.write([(0, piece, "f32")]))


@pytest.mark.usefixtures("only_by_choice")
@pytest.mark.parametrize("widen", [False, True])
def test_reading_memory_lets_others_run(widen: bool) -> None:
    data = np.zeros(2**22, "<u2").view("u1")
    out = np.empty(2**22, "<f4" if widen else "<u2").view("u1")
    request = (0, data.nbytes, out, widen)
    assert _lets_others_run(lambda: _native.read_memory(data, "bf16", [request], 1))


@pytest.mark.usefixtures("only_by_choice")
def test_reading_and_checking_a_file_let_others_run(path: Path) -> None:
    file = _native.FileBytes(path)
    size = len(file) // 4 * 4
    assert _lets_others_run(lambda: file.scan(0, size, "f32"))
    assert _lets_others_run(lambda: file.read("f32", [(0, size, None, False)], 1))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_opening_lets_others_run(tmp_path: Path) -> None:
    # Opening a pipe waits for a writer, and the writer here is another thread.
    os.mkfifo(tmp_path / "pipe")
    thread = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"data",))
    thread.start()
    assert bytes(memoryview(_native.FileBytes(tmp_path / "pipe"))) == b"data"  # type: ignore[arg-type]
    thread.join()


# Signals -----------------------------------------------------------------------------------


def _signals_handled_during(call: Callable[[], object]) -> int:
    """How many signals were handled before a call came back, each sent after the one before."""
    handled: list[int] = []
    back = threading.Event()

    def send() -> None:
        while not back.is_set():
            before = len(handled)
            os.kill(os.getpid(), signal.SIGUSR1)
            while len(handled) == before and not back.is_set():
                os.sched_yield()

    previous = signal.signal(signal.SIGUSR1, lambda *_: handled.append(1))
    thread = threading.Thread(target=send)
    try:
        thread.start()
        call()
        count = len(handled)
        back.set()
    finally:
        back.set()
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
    return count


@pytest.mark.skipif(not hasattr(os, "sched_yield"), reason="the system has no such signals")
def test_a_single_large_tensor_keeps_no_signal_waiting(tmp_path: Path) -> None:
    # Half a gibibyte of zeros that takes no room on the disk: one tensor.
    path = tmp_path / "x.dmexp"
    count = 2**27
    header = top(num_params=str(count), num_tensors="1") + table("w", [count])
    with path.open("wb") as file:
        file.write(pack(header, payload_bytes=4 * count))
        file.truncate(24 + len(header) + 4 * count)
    opened = _native.FileBytes(path)
    start = 24 + len(header)
    # One would be handled when the call is over, and one before it begins.
    assert _signals_handled_during(lambda: opened.scan(start, 4 * count, "f32")) > 3
    request = (start, 4 * count, None, False)
    assert _signals_handled_during(lambda: opened.read("f32", [request], 1)) > 3


# Many at once ------------------------------------------------------------------------------


def _in_threads(count: int, work: Callable[[int], object]) -> None:
    """Run ``work`` in several threads that start together; the first exception is raised here."""
    failed: list[BaseException] = []
    start = threading.Barrier(count)

    def one(nth: int) -> None:
        try:
            start.wait()
            work(nth)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(nth,)) for nth in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_eight_threads_read_one_open_file(path: Path) -> None:
    names = list(ARRAYS)
    with dmexp.safe_open(path) as file:

        def work(nth: int) -> None:
            for name in names[nth:] + names[:nth]:
                assert file[name].tobytes() == ARRAYS[name].tobytes()

        _in_threads(8, work)


def test_eight_threads_open_load_and_verify(path: Path) -> None:
    def work(nth: int) -> None:
        if nth % 3 == 0:
            assert_same_tensors(dmexp.load_file(path, threads=2), ARRAYS)
        elif nth % 3 == 1:
            assert dmexp.verify(path, threads=2).ok
        else:
            with dmexp.safe_open(path) as file:
                assert_same_tensors(dict(file.items()), ARRAYS)

    _in_threads(8, work)


def test_threads_save_to_files_of_their_own_and_to_one(tmp_path: Path) -> None:
    few = dict(list(ARRAYS.items())[:4])
    expected = dmexp.save(few, dtype="bf16")

    def work(nth: int) -> None:
        dmexp.save_file(few, tmp_path / f"{nth}.dmexp", dtype="bf16", threads=2, sync=False)
        dmexp.save_file(few.items(), tmp_path / "one.dmexp", dtype="bf16", threads=2, sync=False)

    _in_threads(6, work)
    for name in [f"{nth}.dmexp" for nth in range(6)] + ["one.dmexp"]:
        assert (tmp_path / name).read_bytes() == expected
    assert len(list(tmp_path.iterdir())) == 7


def test_a_file_closed_while_others_read_it(path: Path) -> None:
    file = dmexp.safe_open(path)

    def work(nth: int) -> None:
        if nth == 0:
            file.close()
            return
        for name, array in ARRAYS.items():
            try:
                found = file[name]
            except dmexp.errors.InvalidArgumentError:
                return
            assert found.tobytes() == array.tobytes()

    _in_threads(6, work)


def test_an_array_changed_while_it_is_saved_is_no_crash(tmp_path: Path) -> None:
    # What is written then is not said. Whether it is written whole is: checksums hold.
    array = noise(1, 2**20)
    stop = threading.Event()

    def change() -> None:
        random = np.random.default_rng(2)
        while not stop.is_set():
            array[...] = random.standard_normal(1).astype("f4")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for nth in range(10):
            dmexp.save_file(
                {"x": array}, tmp_path / "x.dmexp", dtype=("bf16", "f32")[nth % 2], sync=False
            )
            found = dmexp.load_file(tmp_path / "x.dmexp", verify=False)
            assert found["x"].shape == array.shape
    finally:
        stop.set()
        thread.join()


# Forks -------------------------------------------------------------------------------------


def _child(path: Path, target: Path) -> None:
    arrays = dmexp.load_file(path, threads=4)
    dmexp.save_file(arrays, target, dtype="f32", threads=4, sync=False)
    dmexp.verify(target, threads=4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_saves_after_its_parent_used_threads(path: Path, tmp_path: Path) -> None:
    dmexp.save(ARRAYS, threads=4)
    dmexp.load_file(path, threads=4)
    with dmexp.safe_open(path) as file:
        kept = file["t3"]
        context = multiprocessing.get_context("fork")
        children = [
            context.Process(target=_child, args=(path, tmp_path / f"{n}.dmexp")) for n in range(2)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
            assert child.exitcode == 0
        assert kept.tobytes() == ARRAYS["t3"].tobytes()
    for nth in range(2):
        assert (tmp_path / f"{nth}.dmexp").read_bytes() == path.read_bytes()
    # The parent goes on.
    assert_same_tensors(dmexp.load_file(path, threads=4), ARRAYS)


FORK = """
import os, sys, threading
import numpy as np, dmexp
path, target = sys.argv[1:]
arrays = dmexp.load_file(path, threads=4)
# Imports hold locks that a fork leaves shut, whoever does them; they are over by now.
dmexp.save(arrays)
dmexp.verify(path)
stop = threading.Event()

def saving():
    while not stop.is_set():
        dmexp.save(arrays, threads=4)

thread = threading.Thread(target=saving)
thread.start()
# In the middle of the other thread's saves, again and again.
for nth in range(5):
    child = os.fork()
    if not child:
        dmexp.save_file(arrays, target + str(nth), dtype="f32", threads=4, sync=False)
        os._exit(0 if dmexp.verify(target + str(nth)).ok else 3)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print("done")
"""


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.version_info >= (3, 12),
    reason="newer Pythons warn of any fork beside threads",
)
def test_a_child_forked_in_the_middle_of_a_save(path: Path, tmp_path: Path) -> None:
    assert run(FORK, path, tmp_path / "x.dmexp") == "done\n"


def test_errors_cross_processes() -> None:
    error: Any = dmexp.errors.ChecksumError("what it says", path="a", stored="0", tensor=None)
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        again = pool.apply(_echo, (error,))
    assert (type(again), str(again), again.facts) == (type(error), str(error), error.facts)


def _echo(value: Any) -> Any:
    return value
