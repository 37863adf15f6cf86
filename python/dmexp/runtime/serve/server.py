"""Bind, announce, serve, and end cleanly."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from .app import Service

GRACE_SECONDS = 5
"""How long answers that are being cancelled may take to say so."""


class _Server(uvicorn.Server):
    """Ends with status 0 on SIGINT and SIGTERM, after telling the engine to stop."""

    def __init__(
        self, config: uvicorn.Config, service: Service, listening: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.engine.close()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again at the end, and a clean end would look like a crash.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self.handle_exit)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that refuses connections until `serve` listens; port 0 takes a free one.

    Raises
    ------
    OSError
        The address is taken or not this machine's; its message names it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        if os.name == "posix":
            # A restart need not wait for the connections of the run before.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{error.strerror or error} ({host}, port {port})") from None
    return bound


def address_of(listener: socket.socket) -> str:
    """The URL that reaches the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    service: Service,
    listener: socket.socket,
    *,
    started: Callable[[Any], None] = lambda _: None,
    listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until SIGINT or SIGTERM, or until ``should_exit`` of the server is set.

    Parameters
    ----------
    started
        Called with the server before it runs, so that another thread can end it.
    listening
        Called once connections are taken and signals end the server cleanly.
    """
    config = uvicorn.Config(
        service.app(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
    )
    server = _Server(config, service, listening)
    started(server)
    try:
        server.run(sockets=[listener])
    finally:
        service.engine.close()
        service.engine.join()
        sys.stdout.flush()
