"""How many threads to use: what the caller says, else the environment, else what the CPU allows."""

from __future__ import annotations

import os
from operator import index

from .errors import InvalidArgumentError

VARIABLE = "DMEXP_NUM_THREADS"
_LIMIT = 1024
"""Whoever asks for more than this gets no more."""

_MOST = 8
"""More than this never helped: the memory is the limit, not the cores."""


def resolve(threads: int | None) -> int:
    """The number of threads, at least 1.

    Raises
    ------
    InvalidArgumentError
        Where ``threads`` or ``DMEXP_NUM_THREADS`` is no positive integer.
    """
    if threads is not None:
        if isinstance(threads, bool) or not hasattr(threads, "__index__") or threads < 1:
            raise InvalidArgumentError(
                f"threads is {threads!r}, expected an integer of at least 1.", argument="threads"
            )
        return min(index(threads), _LIMIT)
    said = os.environ.get(VARIABLE, "")
    if said:
        digits = said.lstrip("0")
        if not said.isascii() or not said.isdigit() or not digits:
            raise InvalidArgumentError(
                f"{VARIABLE} is {said!r}, expected an integer of at least 1.", argument=VARIABLE
            )
        return min(int(digits[:5]), _LIMIT)
    return max(1, min(_available(), _MOST))


def _available() -> int:
    """CPUs that this process may use: its affinity and its container's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _quota()
    return count if quota is None else max(1, min(count, quota))


def _quota() -> int | None:
    """Whole CPUs of the control group's limit, rounded up; None where there is none."""
    try:
        quota, period = _text("/sys/fs/cgroup/cpu.max").split()
        return None if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        pass
    try:
        limit = int(_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = _text("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
        return None if limit <= 0 else -(-limit // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _text(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
