"""dmexp: a trained model as one honest file.

``save_file`` and ``load_file`` write and read whole files, ``safe_open`` reads single tensors
without copying, ``info`` and ``verify`` say what a file holds and whether it holds. ``narrow`` and
``widen`` convert arrays, ``crc32`` and ``Crc32`` checksum bytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from . import errors
from ._native import Crc32, __version__, crc32, crc32_combine

if TYPE_CHECKING:
    from . import contracts
    from ._inspect import info, verify
    from ._narrow import narrow, narrow_with_stats, widen
    from ._reader import load, load_file, safe_open
    from ._writer import save, save_file

__all__ = [
    "Crc32",
    "__version__",
    "contracts",
    "crc32",
    "crc32_combine",
    "errors",
    "info",
    "load",
    "load_file",
    "narrow",
    "narrow_with_stats",
    "safe_open",
    "save",
    "save_file",
    "verify",
    "widen",
]

# Loaded at the first use: a command that looks at a header starts in half the time without NumPy.
_HOMES = {
    "info": "._inspect",
    "load": "._reader",
    "load_file": "._reader",
    "narrow": "._narrow",
    "narrow_with_stats": "._narrow",
    "safe_open": "._reader",
    "save": "._writer",
    "save_file": "._writer",
    "verify": "._inspect",
    "widen": "._narrow",
}


def __getattr__(name: str) -> object:
    if name == "contracts":
        return import_module(".contracts", __name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value  # the next look-up finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
