"""Granite: Llama's table with four scale factors in the config, none of them a tensor."""

from __future__ import annotations

from ._table import Family
from .llama import build

FAMILY = Family("granite", build, rope=True)
