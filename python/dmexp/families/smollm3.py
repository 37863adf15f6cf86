"""SmolLM3: Llama's table, tied unless the config says otherwise."""

from __future__ import annotations

from ._config import Config
from ._table import Family, Table
from .llama import build as build_llama


def build(config: Config, table: Table) -> None:
    build_llama(config, table, tied=True)


FAMILY = Family("smollm3", build, tied=True, rope=True)
