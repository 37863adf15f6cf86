"""Replace a file by a new one, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .errors import InvalidArgumentError


@contextlib.contextmanager
def replacing(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """Give a temporary file beside ``target``; put it in the target's place on success.

    The target is followed through symlinks, as an ordinary save would, and keeps its mode bits.
    On any exception, KeyboardInterrupt included, the temporary file is removed and the target is
    as it was. The caller syncs the file's own bytes; this syncs the directory.

    Raises
    ------
    InvalidArgumentError
        Where the target exists and is no regular file: renaming over a device would replace it.
    OSError
        Where the directory cannot be written to.
    """
    real = Path(os.path.realpath(target))
    try:
        about: os.stat_result | None = real.stat()
    except FileNotFoundError:
        about = None
    if about is not None and not stat.S_ISREG(about.st_mode):
        raise InvalidArgumentError(
            f"{target} is not a regular file. Write to a file and copy it from there.",
            argument="path",
        )
    require_parent(target, real)
    # Short, whatever the target is called: names have a limit of their own.
    temporary = real.with_name(f".dmexp-{os.urandom(8).hex()}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        os.close(os.open(temporary, flags, 0o666))
        yield temporary
        if about is not None:
            temporary.chmod(stat.S_IMODE(about.st_mode))
        temporary.replace(real)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        # Nobody knows the temporary file by its name.
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(target)
        raise
    if sync:
        _sync_directory(real.parent)


def require_parent(target: Path, real: Path) -> None:
    """Say which directory is missing, where the system would only say that something is."""
    if not os.path.lexists(real.parent):
        raise FileNotFoundError(
            errno.ENOENT,
            f"the directory {target.parent} does not exist; create it first",
            str(target),
        )


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the system can."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
