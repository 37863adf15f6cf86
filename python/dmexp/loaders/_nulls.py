"""The nulls of a ``config.json``, which TOML cannot say, as places in the header's metadata.

A null is not always an absent key: ``"sliding_window": null`` is a Mistral without a window, and a
loader that finds no such key takes its own default for the window. The places are JSON pointers
(RFC 6901) to keys of tables.
"""

from __future__ import annotations

from typing import Any

METADATA_KEY = "config_nulls"


def null_places(parsed: dict[str, Any]) -> list[str]:
    """Pointers to every key that holds a null, in the file's order. Lists are not walked."""
    places: list[str] = []
    pending: list[tuple[str, dict[str, Any]]] = [("", parsed)]
    while pending:
        at, table = pending.pop()
        for key, value in table.items():
            place = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
            if value is None:
                places.append(place)
            elif isinstance(value, dict):
                pending.append((place, value))
    return places


def put_back(config: dict[str, Any], places: Any) -> None:
    """Set the nulls again. ``places`` is what a header holds, so it may be anything.

    A key that the config has by now keeps its value.
    """
    for place in places if isinstance(places, list) else []:
        if not isinstance(place, str) or not place.startswith("/"):
            continue
        *tables, last = (key.replace("~1", "/").replace("~0", "~") for key in place[1:].split("/"))
        table: Any = config
        for key in tables:
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict):
            table.setdefault(last, None)
