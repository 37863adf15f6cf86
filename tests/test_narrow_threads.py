"""Other threads run while an array is narrowed or a checksum computed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from dmexp import Crc32, crc32, narrow, widen
from narrow_util import BF16

VALUES = np.full(8 << 20, 0.25, np.float32)
NARROWED = np.full(8 << 20, 0.25, BF16)

CALLS: dict[str, Callable[[], object]] = {
    "narrow to a new array": lambda: narrow(VALUES),
    "narrow to out": lambda: narrow(VALUES, out=NARROWED),
    "narrow a strided array": lambda: narrow(VALUES[::2]),
    "widen": lambda: widen(NARROWED),
    "crc32": lambda: crc32(VALUES),
    "Crc32": lambda: Crc32(VALUES),
    "Crc32.update": lambda: Crc32().update(VALUES),
}


@pytest.fixture
def _no_switching() -> Iterator[None]:
    """The interpreter takes the lock from no thread: one that wants to run must be let in."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_no_switching")
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_thread_runs_during_the_call(call: Callable[[], object]) -> None:
    if sys.version_info >= (3, 13) and not sys._is_gil_enabled():
        return  # nothing to release
    # How long the system takes to wake a thread is its own affair, so it gets many chances. A call
    # that keeps the lock gives it none.
    for _ in range(500):
        go, done = threading.Lock(), threading.Lock()
        go.acquire()
        done.acquire()
        ran: list[bool] = []

        def other(go: threading.Lock, done: threading.Lock, ran: list[bool]) -> None:
            go.acquire()
            ran.append(True)
            done.release()

        thread = threading.Thread(target=other, args=(go, done, ran))
        thread.start()
        go.release()  # wakes the other thread, which now waits for the interpreter
        call()
        overlapped = bool(ran)
        done.acquire()
        thread.join()
        if overlapped:
            return
    pytest.fail("no other thread ran during any of 500 calls")


def test_updates_from_many_threads_all_count() -> None:
    # Equal pieces, so that their order does not matter.
    piece = bytes(range(256)) * 16
    crc = Crc32()
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(200):
            crc.update(piece)
            crc.hexdigest()
            crc.copy().update(piece[:100])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert crc.value == crc32(piece * 800)
