"""Cohere Command-R7B and A: Cohere with sliding windows, which leave no trace in the tensors."""

from __future__ import annotations

from ._table import Family
from .cohere import build

FAMILY = Family("cohere2", build, tied=True, rope=True)
