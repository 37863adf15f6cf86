"""Candidates that take turns, and what comes of it.

``pytest-benchmark`` times ours; between its rounds the peers run once each and are timed the same
way. So all of them see the same machine, whatever else it does.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from supply import Supply

Work = Callable[[], object]


@dataclass
class Times:
    """Seconds of each round, by candidate."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def medians(self) -> dict[str, float]:
        """Seconds, by candidate."""
        return {name: self.median(name) for name in self.rounds}

    def speedup(self, peer: str, of: str = "ours") -> float:
        """How many times as fast ``of`` is as ``peer``."""
        return self.median(peer) / self.median(of)

    def share(self, peer: str, of: str = "ours") -> float:
        """The time of ``of`` as a part of the peer's."""
        return self.median(of) / self.median(peer)


class Race:
    """Runs one comparison; see `conftest.race`."""

    def __init__(self, benchmark: Any, smoke: bool, supply: Callable[[], Supply | None]) -> None:
        self._benchmark = benchmark
        self._supply = supply
        self.smoke = smoke

    def __call__(
        self,
        ours: Work,
        *,
        rounds: int = 9,
        loops: int = 1,
        before: Callable[[str], object] | None = None,
        supplied: bool = False,
        warm: bool = False,
        **peers: Work,
    ) -> Times:
        """Time ``ours`` and ``peers`` in turns.

        Parameters
        ----------
        rounds
            Turns of each. In a smoke run 1.
        loops
            Calls in one turn, for work of microseconds; times are of one call.
        before
            Called, not timed, with a candidate's name before each of its turns: it takes away what
            the last turn left behind, sets thread counts and the like.
        supplied
            For work that asks the system for much memory, in files' pages or its own: before each
            turn there is enough that the host has supplied, see `supply`. Without that a turn takes
            up to seven times as long by chance.
        warm
            Before each turn the candidate has one that is not timed, and gets the memory that this
            gave back; the supply is renewed once. For work that is compared with itself at other
            sizes: touching gigabytes between the turns costs the small sizes more than the large.
        """
        if self.smoke:
            rounds, loops = 1, 1
        supply = self._supply() if supplied and not self.smoke else None
        if supply is not None:
            supply.renew()
        times = Times({name: [] for name in ("ours", *peers)})
        order = list(peers.items())

        def run(work: Work) -> None:
            for _ in repeat(None, loops):
                work()

        def prepare(name: str, work: Work) -> None:
            if before is not None:
                before(name)
            if warm:
                run(work)
                if before is not None:
                    before(name)
            elif supply is not None:
                supply.renew()

        def between() -> None:
            for name, work in order:
                prepare(name, work)
                start = time.perf_counter()
                run(work)
                times.rounds[name].append((time.perf_counter() - start) / loops)
            order.reverse()
            prepare("ours", ours)

        # A first turn of everybody is not counted: caches, lazy imports, the memory's first touch.
        between()
        run(ours)
        for name in peers:
            times.rounds[name].clear()

        def timed() -> None:
            start = time.perf_counter()
            run(ours)
            times.rounds["ours"].append((time.perf_counter() - start) / loops)

        self._benchmark.pedantic(timed, setup=between, rounds=rounds, iterations=1)
        for name in times.rounds:
            self._benchmark.extra_info[name] = times.median(name)
        return times
