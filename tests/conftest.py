"""Rules for every test: seeded, no network, nothing inherited from the caller's environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Same examples on every run; a slow shared machine is no failure.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
settings.load_profile("repeatable")

_LOCAL = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """Variables that change what dmexp does are set by the tests that need them.

    ``DMEXP_CPU`` stays: it is how a whole run is held to one instruction set.
    """
    names = [name for name in os.environ if name.startswith("DMEXP_") and name != "DMEXP_CPU"]
    kept = {name: os.environ.pop(name) for name in names}
    yield
    os.environ.update(kept)


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """A connection to any other machine is a mistake in a test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != getattr(socket, "AF_UNIX", None):
            host = str(address[0])
            if not host.startswith(_LOCAL):
                raise AssertionError(f"a test tried to connect to {host}")
        connect(self, address)

    socket.socket.connect = guarded  # type: ignore[method-assign]
    yield
    socket.socket.connect = connect  # type: ignore[method-assign]
