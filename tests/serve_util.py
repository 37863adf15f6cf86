"""A server in a thread, on a free port, with a model small enough for tests."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dmexp
from dmexp.runtime import Loaded, open_model
from dmexp.runtime.serve.app import Service
from dmexp.runtime.serve.engine import Engine
from dmexp.runtime.serve.server import address_of, bind, serve
from runtime_util import BYTE_CONFIG, byte_weights, write_byte_model

TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}a:"


def byte_level_tokenizer() -> str:
    """A ``tokenizer.json`` whose 256 tokens are bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    text: str = tokenizer.to_str()
    return text


def write_chat_model(path: Path) -> Path:
    """The byte model with a tokenizer and a chat template in its metadata."""
    metadata = {"tokenizer": {"json": byte_level_tokenizer(), "chat_template": TEMPLATE}}
    dmexp.save_file(byte_weights(), path, dtype="f32", config=BYTE_CONFIG, metadata=metadata)
    return path


class Running:
    """A running server: its address, the service behind it, and the way to end it."""

    def __init__(self, loaded: Loaded, waiting: int) -> None:
        self.service = Service(
            loaded, Engine(waiting), created=1_700_000_000, aliases=frozenset({"alias"})
        )
        self.listener: socket.socket = bind("127.0.0.1", 0)
        self.url = address_of(self.listener)
        self.ready = threading.Event()
        self._server: Any = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.service.engine.close()
        self._server.should_exit = True
        self._thread.join()
        self.listener.close()

    def _run(self) -> None:
        serve(self.service, self.listener, started=self._started, listening=self.ready.set)

    def _started(self, server: Any) -> None:
        self._server = server


@contextmanager
def running(path: Path, waiting: int = 16) -> Iterator[Running]:
    """Serve ``path`` while the block runs."""
    server = Running(open_model(path), waiting)
    server.start()
    server.ready.wait()
    try:
        yield server
    finally:
        server.stop()


def events(text: str) -> list[Any]:
    """The documents of an event stream, ``[DONE]`` as it is."""
    found = []
    for block in text.split("\n\n"):
        if block:
            assert block.startswith("data: ")
            data = block.removeprefix("data: ")
            found.append(data if data == "[DONE]" else json.loads(data))
    return found


__all__ = ["Running", "events", "running", "write_byte_model", "write_chat_model"]
