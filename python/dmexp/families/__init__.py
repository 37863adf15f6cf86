"""Model families: the names and dims that a config calls for.

`describe` is the one entry point; export, load, `info` and `verify` all call it.
`docs/families.md` shows how to add a family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ._check import Conflict, Dims, Verdict, compare
from ._config import NotKnown, Undescribed, shown
from ._registry import MODULES, find
from ._table import Family, Table

__all__ = ["Conflict", "Family", "Verdict", "describe", "find", "known"]


def known() -> list[str]:
    """Every ``model_type`` whose tensors are derived from its config, sorted."""
    return sorted(MODULES)


def describe(config: Mapping[str, Any], tensors: Iterable[tuple[str, Dims]]) -> Verdict:
    """Say whether a config describes a set of tensors.

    Parameters
    ----------
    config
        The parsed TOML of a header's ``config``, or a parsed ``config.json``. It may hold
        anything: a key that is missing, mistyped or absurd gives a verdict, never an exception.
    tensors
        Name and dims of each tensor, in any order.

    Returns
    -------
    Verdict
        ``"yes"``; ``"no"`` with every conflict, or with the key that is at fault; or
        ``"not checked"`` with the reason, for a config that names no family known here.

    Examples
    --------
    >>> describe({"model_type": "my_model"}, [("w", (2, 3))])
    Verdict(status='not checked', family=None, reason='model_type "my_model" is not known', conflicts=())
    """
    if not config:
        return Verdict("not checked", None, "the file has no config")
    family = find(config)
    if family is None:
        kind = config.get("model_type")
        if kind is None:
            return Verdict("not checked", None, "the config names no model_type")
        name = f'"{kind}"' if isinstance(kind, str) else shown(kind)
        return Verdict("not checked", None, f"model_type {name} is not known")
    found = dict(tensors)
    table = Table(found)
    try:
        family.build(family.language(config), table)
    except NotKnown as error:
        return Verdict("not checked", family.name, str(error))
    except Undescribed as error:
        return Verdict("no", family.name, str(error))
    return compare(family.name, table.expected, found, optional=table.optional, groups=table.groups)
