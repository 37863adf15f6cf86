"""Memory that the host of a virtual machine has supplied already.

Hosts take back the memory that a guest has freed, and supply it again page by page when it is
touched, at a tenth of the speed at which the guest hands out what it still has. Whether a turn meets
such memory is chance, and costs more than all the work that is measured. So before each turn a few
GiB are touched, and every second huge page of them is given back: the pieces that the system hands out
first, before the larger ones that it had longer.
"""

from __future__ import annotations

import mmap
import os
import sys

import numpy as np

HUGE = 2 << 20
# Not a constant of the module mmap before Python 3.14.
POPULATE_WRITE = 23
# More than any turn asks for.
SUPPLIED = 3 << 30


class Supply:
    """Holds half of ``nbytes``; the other half is free, in single huge pages."""

    def __init__(self, nbytes: int) -> None:
        self._held = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._held.madvise(mmap.MADV_HUGEPAGE)
        self._first = -np.frombuffer(self._held, "u1").ctypes.data % HUGE

    def renew(self) -> None:
        """Touch all of it, and give every second huge page back."""
        self._held.madvise(POPULATE_WRITE)
        for start in range(self._first, len(self._held) - HUGE + 1, 2 * HUGE):
            self._held.madvise(mmap.MADV_DONTNEED, start, HUGE)


def prepare() -> Supply | None:
    """Three GiB, or a quarter of what is free now; `None` where a system has no such calls."""
    if not sys.platform.startswith("linux"):
        return None
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    supply = Supply(min(2 * SUPPLIED, free // 2))
    try:
        supply.renew()
    except OSError:
        # Linux before 5.14.
        return None
    return supply
