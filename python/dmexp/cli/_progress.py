"""A progress bar on stderr, for a person at a terminal and nobody else."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

Callback = Callable[[int, "int | None"], None]
Unit = Literal["bytes", "values"]

SHOW_AFTER_SECONDS = 0.4
UPDATE_EVERY_SECONDS = 0.05


@contextmanager
def progress_bar(
    label: str, *, wanted: bool = True, unit: Unit = "bytes"
) -> Iterator[Callback | None]:
    """Give a callback ``(done, total)`` that draws, or None where nothing is drawn.

    The bar goes to stderr and only if that is a terminal. It appears after a moment: short work
    shows nothing and does not pay for loading ``rich``.
    """
    if not wanted or not _is_terminal():
        yield None
        return
    bar = _Bar(label, unit)
    try:
        yield bar.update
    finally:
        bar.close()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class _Bar:
    def __init__(self, label: str, unit: Unit) -> None:
        self._label = label
        self._unit = unit
        self._next = time.monotonic() + SHOW_AFTER_SECONDS
        self._display: Any = None
        self._task: Any = None

    def update(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + UPDATE_EVERY_SECONDS
        if self._display is None:
            self._start(total)
        self._display.update(self._task, completed=done, total=total)

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()

    def _start(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        in_bytes = (DownloadColumn(binary_units=True), TransferSpeedColumn())
        self._display = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *(in_bytes if self._unit == "bytes" else (TaskProgressColumn(),)),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._display.add_task(self._label, total=total)
        self._display.start()
