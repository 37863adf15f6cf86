"""The command line: one module a command, loaded only when it is called.

``main(argv) -> int`` runs one command and returns the exit status: 0, 1 for bad data, 2 for bad
usage, 130 for Ctrl-C. ``entry()`` is the ``dmexp`` script.
"""

from __future__ import annotations

from ._main import entry, main

__all__ = ["entry", "main"]
