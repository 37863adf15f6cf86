"""The one place where an exception becomes a line on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import DmexpError
from ._text import print_error, print_json

EXIT_BAD_DATA = 1
EXIT_INTERRUPTED = 130


def report(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong and return the exit status. Never prints a traceback by itself."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_BAD_DATA
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has left; `dmexp info FILE | head` is no mistake.
        _silence_stdout()
        return EXIT_BAD_DATA
    if os.environ.get("DMEXP_TRACEBACK") and not isinstance(error, KeyboardInterrupt):
        raise error
    if not as_json or not _printed({"error": describe(error)}):
        print_error(message_of(error))
    return EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_BAD_DATA


def _printed(value: dict[str, Any]) -> bool:
    """Whether stdout took it; on a full disk it takes neither a result nor an error."""
    try:
        print_json(value)
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
        return False
    return True


def message_of(error: BaseException) -> str:
    """One sentence for a person, with the file's name where there is one."""
    if isinstance(error, DmexpError):
        return str(error)
    if isinstance(error, OSError):
        name = error.filename2 if error.filename2 is not None else error.filename
        reason = error.strerror or str(error) or type(error).__name__
        return reason if name is None else f"{os.fsdecode(name)}: {reason}"
    if isinstance(error, MemoryError):
        detail = f": {error}" if str(error) else ""
        return f"not enough memory{detail}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return (
        f"internal error, please report it: {type(error).__name__}: {error} "
        "(DMEXP_TRACEBACK=1 shows where)"
    )


def describe(error: BaseException) -> dict[str, Any]:
    """The same as data: ``code``, ``message``, ``path`` and the facts of the error."""
    facts: dict[str, Any] = {"code": _code(error), "message": message_of(error)}
    if isinstance(error, DmexpError):
        facts["path"] = error.path
        # A fact never hides one of the three above.
        facts |= {key: value for key, value in error.facts.items() if key not in facts}
    elif isinstance(error, OSError):
        facts["path"] = None if error.filename is None else os.fsdecode(error.filename)
        facts["errno"] = error.errno
    return facts


def _code(error: BaseException) -> str:
    if isinstance(error, DmexpError):
        return error.code
    if isinstance(error, OSError):
        return "OS_ERROR"
    if isinstance(error, MemoryError):
        return "OUT_OF_MEMORY"
    return "INTERRUPTED" if isinstance(error, KeyboardInterrupt) else "INTERNAL"


def _silence_stdout() -> None:
    # The interpreter flushes stdout once more on exit and would complain then.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
