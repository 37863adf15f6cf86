"""A file that shrinks while it is open gives an exception, not a dead process."""

from __future__ import annotations

import os

import pytest

from container_util import run

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows does not let a mapped file shrink"
)

START = """
import gc, os, sys, threading
import numpy as np, dmexp
from dmexp.errors import TruncatedError
path = sys.argv[1]
arrays = {name: np.full(1 << 20, value, "f4") for name, value in (("a", 1), ("b", 2), ("c", 3))}
dmexp.save_file(arrays, path, dtype="f32", compat=(sys.argv[2:] or [None])[0])
whole = os.path.getsize(path)

def busy():
    # Exceptions that arrive from elsewhere arrive between two instructions.
    for _ in range(100_000):
        pass

def caught(work):
    try:
        work()
        busy()
    except TruncatedError as error:
        return error
    raise AssertionError("no exception arrived")

file = dmexp.safe_open(path)
"""


def _run(code: str, directory: object, *arguments: str) -> str:
    return run(START + code, f"{directory}/model.dmexp", *arguments)


def test_between_opening_and_reading(tmp_path: object) -> None:
    code = """
os.truncate(path, 100_000)
for name in arrays:
    error = caught(lambda: file[name])
    assert (error.expected, error.actual, error.path) == (whole, 100_000, path)
    assert f"shrank from {whole} to 100000 bytes" in error.message
busy()
for call in (dmexp.load_file, dmexp.info, dmexp.verify, dmexp.safe_open):
    assert caught(lambda: call(path)).actual == 100_000
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_while_a_tensor_is_checked(tmp_path: object) -> None:
    # The look at the length comes before the shrinking, as another process would have it.
    code = """
from dmexp._open import Opened
look = Opened.require_whole
def late(self):
    look(self)
    os.truncate(path, 100_000)
Opened.require_whole = late
error = caught(lambda: file["b"])
assert (error.expected, error.actual, error.path) == (whole, 100_000, path)
busy()
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"
    assert _run(code, tmp_path, "dormouse") == "alive\n"


@pytest.mark.parametrize("length", [0, 1, 100, 4096, 5_000_000])
def test_while_the_whole_file_is_read(length: int, tmp_path: object) -> None:
    code = f"""
from dmexp._open import Opened
real = Opened.read
def late(self, *arguments):
    os.truncate(path, {length})
    return real(self, *arguments)
Opened.read = late
for call in (dmexp.load_file, dmexp.info, dmexp.verify):
    os.truncate(path, 0)
    dmexp.save_file(arrays, path, dtype="f32")
    error = caught(lambda: call(path))
    assert (error.expected, error.actual, error.path) == (whole, {length}, path)
busy()
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_after_an_array_was_handed_out(tmp_path: object) -> None:
    code = """
kept = file["c"]
part = file.get_slice("c")[10:20]
os.truncate(path, 100_000)
error = caught(lambda: kept.astype("f8").sum())
assert "a mapped file shrank" in error.message
# What is gone reads as zeros, and every further access through the file is refused.
assert not kept.any()
assert not part.any()
busy()
assert caught(lambda: file["a"]).actual == 100_000
del kept, part, file
gc.collect()
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_pages_before_the_new_end_are_as_they_were(tmp_path: object) -> None:
    code = """
kept = file["a"]
os.truncate(path, 1_000_000)
assert (kept[:200_000] == 1).all()
busy()
caught(lambda: kept.sum())
assert (kept[:200_000] == 1).all()
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_an_array_read_in_another_thread(tmp_path: object) -> None:
    code = """
kept = file["c"]
os.truncate(path, 100_000)
# Python hands such exceptions to the main thread; the other one lives on.
done = []
thread = threading.Thread(target=lambda: done.append(float(np.add.reduce(kept))))
def work():
    thread.start()
    thread.join()
caught(work)
thread.join()
assert done == [0.0]
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_a_check_in_another_thread_is_that_threads_error(tmp_path: object) -> None:
    code = """
from dmexp._open import Opened
Opened.require_whole = lambda self: None
os.truncate(path, 100_000)
found = []
def work():
    try:
        file["b"]
    except TruncatedError as error:
        found.append(error)
thread = threading.Thread(target=work)
thread.start()
thread.join()
busy()
assert [error.actual for error in found] == [100_000]
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


@pytest.mark.parametrize("where", ["main thread", "other thread"])
@pytest.mark.parametrize("layout", ["", "[::2]", ".astype('>f4')"])
def test_lost_values_are_never_written(where: str, layout: str, tmp_path: object) -> None:
    code = f"""
lost, found, target = file["b"], [], path + ".new"
def tensors():
    yield "a", arrays["a"]
    os.truncate(path, 100_000)
    yield "b", lost{layout}
    yield "c", arrays["c"]
def work():
    try:
        dmexp.save_file(tensors(), target)
    except TruncatedError as error:
        found.append(error)
        return
    found.append("written")
if {where!r} == "main thread":
    work()
else:
    thread = threading.Thread(target=work)
    thread.start()
    try:
        thread.join()
        busy()
    except TruncatedError:
        thread.join()
assert len(found) == 1
assert isinstance(found[0], TruncatedError)
assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_a_file_that_grows_or_is_replaced_is_no_matter(tmp_path: object) -> None:
    code = """
with open(path, "ab") as more:
    more.write(b"x" * 100_000)
assert (file["a"] == 1).all()
os.replace(path, path + ".moved")
open(path, "wb").close()
assert (file["b"] == 2).all()
assert caught(lambda: dmexp.load_file(path + ".moved")).actual == whole + 100_000
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_a_handler_that_was_there_first_still_gets_the_others(tmp_path: object) -> None:
    # faulthandler registers for SIGBUS too. A fault that is not ours is its business, and fatal.
    code = """
import faulthandler, mmap, subprocess
script = '''
import faulthandler, mmap, os, sys
faulthandler.enable()
import dmexp
dmexp.safe_open(sys.argv[1]).close()
with open(sys.argv[2], "w+b") as file:
    file.truncate(100_000)
    pages = mmap.mmap(file.fileno(), 100_000)
    os.truncate(sys.argv[2], 0)
    pages[50_000]
'''
done = subprocess.run([sys.executable, "-c", script, path, path + ".other"], capture_output=True)
assert done.returncode < 0, done
assert b"Bus error" in done.stderr, done
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"


def test_many_files_opened_and_closed_leave_nothing_to_watch(tmp_path: object) -> None:
    code = """
for _ in range(300):
    with dmexp.safe_open(path) as other:
        other["a"]
kept = [dmexp.safe_open(path)["a"] for _ in range(50)]
os.truncate(path, 4096)
# Each mapping that is touched gives its exception.
for array in kept:
    caught(lambda: array.sum())
print("alive")
"""
    assert _run(code, tmp_path) == "alive\n"
