"""dmexp: a trained model as one honest file."""

from __future__ import annotations

from . import errors
from ._native import __version__

__all__ = ["__version__", "errors"]
