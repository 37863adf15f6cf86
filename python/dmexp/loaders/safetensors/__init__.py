"""Safetensors, read strictly by a reader of our own."""

from __future__ import annotations

from ._file import SafetensorsFile

__all__ = ["SafetensorsFile"]
