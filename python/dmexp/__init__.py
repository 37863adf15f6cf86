"""dmexp: a trained model as one honest file.

``save_file`` and ``load_file`` write and read whole files, ``safe_open`` reads single tensors
without copying, ``info`` and ``verify`` say what a file holds and whether it holds. ``narrow`` and
``widen`` convert arrays, ``crc32`` and ``Crc32`` checksum bytes.
"""

from __future__ import annotations

from . import errors
from ._inspect import info, verify
from ._native import __version__
from ._reader import load, load_file, safe_open
from ._writer import save, save_file

__all__ = [
    "__version__",
    "errors",
    "info",
    "load",
    "load_file",
    "safe_open",
    "save",
    "save_file",
    "verify",
]
