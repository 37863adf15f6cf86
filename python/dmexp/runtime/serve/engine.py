"""One generation at a time, behind a bounded queue."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..generate import Generation, Result
from .errors import busy, closing

Item = TypeVar("Item")

Prepare = Callable[[Callable[[], bool]], Generation]
"""Makes the generation from a way to ask whether it was cancelled. Runs in the worker's turn:
rendering and tokenizing cost time too."""


class Job:
    """A request's turn. `started` waits for it; `pieces` gives the text as it comes.

    The worker never waits for whoever reads: pieces queue up here, as many as there are tokens.
    """

    def __init__(self, prepare: Prepare, loop: asyncio.AbstractEventLoop) -> None:
        self._prepare = prepare
        self._loop = loop
        self._cancelled = threading.Event()
        self._begun: asyncio.Future[None] = loop.create_future()
        self._items: asyncio.Queue[str | Result | BaseException] = asyncio.Queue()
        self.future: Future[None] | None = None
        self.result: Result | None = None

    def cancel(self) -> None:
        """End before the next token, or leave the queue. From any thread, and more than once."""
        self._cancelled.set()
        if self.future is not None and self.future.cancel():
            self._fail(closing())

    async def started(self) -> None:
        """Return once text may come; raise what was wrong with the request."""
        await self._begun

    async def pieces(self) -> AsyncIterator[str]:
        """The text. ``result`` is there afterwards; an error in between is raised."""
        while True:
            item = await self._items.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Result):
                self.result = item
                return
            yield item

    def run(self) -> None:
        """The worker's part."""
        try:
            generation = self._prepare(self._cancelled.is_set)
            self._tell(self._begin, None)
            for piece in generation:
                self._tell(self._items.put_nowait, piece)
            if generation.result.finish_reason == "cancelled":
                raise closing()
            self._tell(self._items.put_nowait, generation.result)
        # It is handed on, whatever it is: the worker has to live for the next request.
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._tell(self._begin, error)
        self._tell(self._items.put_nowait, error)

    def _begin(self, error: BaseException | None) -> None:
        if self._begun.done():
            return
        if error is None:
            self._begun.set_result(None)
        else:
            self._begun.set_exception(error)
            # Whoever left before the turn came will not look at it.
            self._begun.exception()

    def _tell(self, tell: Callable[[Item], None], item: Item) -> None:
        try:
            self._loop.call_soon_threadsafe(tell, item)
        except RuntimeError:
            # The loop is closed: nobody listens any more.
            self._cancelled.set()


class Engine:
    """Takes jobs, up to a limit, and runs them one after another in a thread of its own.

    Parameters
    ----------
    waiting
        Jobs that may wait beside the one that runs.
    """

    def __init__(self, waiting: int) -> None:
        self._limit = waiting + 1
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="dmexp-generate")
        self._lock = threading.Lock()
        self._jobs: dict[Future[None], Job] = {}
        self._closing = False
        self._seconds = 1.0
        """How long a job takes, a running average."""

    @property
    def running(self) -> int:
        """1 while a job runs."""
        return min(1, len(self._jobs))

    @property
    def waiting(self) -> int:
        """Jobs behind the one that runs."""
        return max(0, len(self._jobs) - 1)

    @property
    def closing(self) -> bool:
        return self._closing

    def submit(self, prepare: Prepare) -> Job:
        """Queue a job.

        Raises
        ------
        RequestError
            429 where the queue is full, 503 where the server is ending.
        """
        job = Job(prepare, asyncio.get_running_loop())
        with self._lock:
            if self._closing:
                raise closing()
            if len(self._jobs) >= self._limit:
                raise busy(self._limit - 1, self._retry_after())
            future = job.future = self._worker.submit(self._timed, job)
            self._jobs[future] = job
        future.add_done_callback(self._forget)
        return job

    def close(self) -> None:
        """Take no more jobs and end those that are there. Returns at once."""
        with self._lock:
            self._closing = True
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()

    def join(self) -> None:
        """Wait for the worker; `close` first."""
        self._worker.shutdown(wait=True)

    def _timed(self, job: Job) -> None:
        began = time.monotonic()
        job.run()
        self._seconds += 0.3 * (time.monotonic() - began - self._seconds)

    def _forget(self, future: Future[None]) -> None:
        with self._lock:
            self._jobs.pop(future, None)

    def _retry_after(self) -> int:
        return max(1, min(60, round(self._seconds * self._limit)))
