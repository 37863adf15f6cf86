"""Keys of a Hugging Face config that exporters spell in two ways: the dtype and the rotary base.

Each value is read under every spelling. Two that disagree are refused, since one of them is stale
and nothing says which; one that is needed and absent is refused too, since a default would be
wrong for some model without any sign of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dmexp.errors import FormatError, UnsupportedDtypeError, UnsupportedError
from dmexp.families._config import shown
from dmexp.families._table import Family

# Spelling in a config -> canonical name.
WEIGHT_DTYPES = {
    "float32": "f32",
    "f32": "f32",
    "float16": "f16",
    "f16": "f16",
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float64": "f64",
}

# Rotary embeddings whose parameters a config can carry. Their meaning stays the reader's.
ROPE_TYPES = frozenset(
    {"default", "linear", "dynamic", "yarn", "longrope", "su", "llama3", "proportional"}
)

_LAYER_KINDS = ("full_attention", "sliding_attention", "linear_attention", "conv")


def weight_dtype(values: Mapping[str, Any], path: str | None = None) -> str | None:
    """The dtype that the config states for the weights, or None where it states none.

    Reads ``dtype`` and ``torch_dtype``, with or without ``torch.`` in front, at the top and in
    ``text_config``.

    Raises
    ------
    FormatError
        Two spellings disagree, or a value is no string.
    UnsupportedDtypeError
        A dtype that weights cannot have.
    """
    stated: tuple[str, str] | None = None
    tables = [("", values)]
    if isinstance(nested := values.get("text_config"), Mapping):
        tables.append(("text_config.", nested))
    for where, table in tables:
        for key in ("dtype", "torch_dtype"):
            value = table.get(key)
            if value is None or value == "auto":
                continue
            name = _dtype(f"{where}{key}", value, path)
            if stated is not None and stated[1] != name:
                raise FormatError(
                    f'the config says "{stated[0]}" is {stated[1]} and "{where}{key}" is {name}. '
                    "Remove the one that is wrong.",
                    path=path,
                    key=f"{where}{key}",
                )
            stated = stated or (f"{where}{key}", name)
    return None if stated is None else stated[1]


def _dtype(key: str, value: object, path: str | None) -> str:
    if not isinstance(value, str):
        raise FormatError(
            f'"{key}" of the config is {shown(value)}, expected a string.', path=path, key=key
        )
    name = WEIGHT_DTYPES.get(value.removeprefix("torch."))
    if name is None:
        raise UnsupportedDtypeError(
            f'"{key}" of the config is {shown(value)}. '
            "Weights are float32, float16, bfloat16 or float64.",
            path=path,
            dtype=value,
            known=["float32", "float16", "bfloat16", "float64"],
        )
    return name


def check_rope(
    values: Mapping[str, Any], family: Family | None, path: str | None = None
) -> list[str]:
    """Check that the base of the rotary embedding is stated, once, and the type is known.

    Parameters
    ----------
    values
        The parsed config.
    family
        What `families.find` gives for it. Nothing is checked for a family without a rotary
        embedding, nor for an unknown one.

    Returns
    -------
    list of str
        Notices: scaled rotary types that the file carries in its config.

    Raises
    ------
    FormatError
        Spellings disagree, the base is absent, or a value is no finite positive number.
    UnsupportedError
        A rotary type that is not known.
    """
    if family is None or not family.rope:
        return []
    nested = family.text_defaults is not None and isinstance(values.get("text_config"), Mapping)
    table: Mapping[str, Any] = values["text_config"] if nested else values
    bases = list(_bases(table, path))
    _agree(bases, path)
    # A nested table leaves out what its class states, the base among it.
    if not bases and not nested:
        raise FormatError(
            f"the config names no base of the rotary embedding, which {family.name} needs: expected "
            '"rope_theta", or "rope_theta" inside "rope_parameters". A default would be wrong for '
            "some model without any sign of it: add the key with the value that the model was "
            "trained with (10000.0 for the first Llamas).",
            path=path,
            key="rope_theta",
        )
    return _types(table, path)


def _tables(table: Mapping[str, Any], path: str | None) -> Iterator[tuple[str, str, Any]]:
    """Place, kind of layer (or empty) and content of each table of rotary parameters."""
    for key in ("rope_parameters", "rope_scaling"):
        parameters = table.get(key)
        if parameters is None:
            continue
        if not isinstance(parameters, Mapping):
            raise FormatError(
                f'"{key}" of the config is {shown(parameters)}, expected a table.',
                path=path,
                key=key,
            )
        per_kind = [kind for kind in _LAYER_KINDS if isinstance(parameters.get(kind), Mapping)]
        for kind in per_kind:
            yield f"{key}.{kind}", kind, parameters[kind]
        if not per_kind:
            yield key, "", parameters


def _bases(table: Mapping[str, Any], path: str | None) -> Iterator[tuple[str, str, float]]:
    """Place, kind of layer and value of each stated base."""
    for key, kind in (
        ("rope_theta", ""),
        ("rotary_emb_base", ""),
        ("theta", ""),
        ("rope_local_base_freq", "sliding_attention"),
    ):
        if table.get(key) is not None:
            yield key, kind, _base(key, table[key], path)
    for place, kind, parameters in _tables(table, path):
        if parameters.get("rope_theta") is not None:
            key = f"{place}.rope_theta"
            # The flat key has always meant the layers that see everything.
            layers = "" if kind == "full_attention" else kind
            yield key, layers, _base(key, parameters["rope_theta"], path)


def _base(key: str, value: object, path: str | None) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 < value < float("inf")
    ):
        raise FormatError(
            f'"{key}" of the config is {shown(value)}, expected a positive number.',
            path=path,
            key=key,
        )
    return float(value)


def _agree(bases: list[tuple[str, str, float]], path: str | None) -> None:
    first: dict[str, tuple[str, float]] = {}
    for place, kind, value in bases:
        other = first.setdefault(kind, (place, value))
        if other[1] != value:
            raise FormatError(
                f'the config says "{other[0]}" is {other[1]} and "{place}" is {value}, which are '
                "two names of one number. Remove the one that is wrong.",
                path=path,
                key=place,
            )


def _types(table: Mapping[str, Any], path: str | None) -> list[str]:
    notices: list[str] = []
    seen: dict[str, tuple[str, str]] = {}
    stated = [("rope_type", "", table)] if table.get("rope_type") is not None else []
    for place, kind, parameters in [*stated, *_tables(table, path)]:
        for key in ("rope_type", "type"):
            # At the top level "type" belongs to other things.
            if parameters.get(key) is None or (parameters is table and key == "type"):
                continue
            name = parameters[key]
            full = key if parameters is table else f"{place}.{key}"
            if not isinstance(name, str) or name not in ROPE_TYPES:
                raise UnsupportedError(
                    f'"{full}" of the config is {shown(name)}, a rotary embedding that is not '
                    f"known here. Known: {', '.join(sorted(ROPE_TYPES))}.",
                    path=path,
                    found=name,
                    expected=sorted(ROPE_TYPES),
                    key=full,
                )
            other = seen.setdefault(kind, (full, name))
            if other[1] != name:
                raise FormatError(
                    f'the config says "{other[0]}" is {shown(other[1])} and "{full}" is '
                    f"{shown(name)}. Remove the one that is wrong.",
                    path=path,
                    key=full,
                )
            if name != "default" and other[0] == full:
                notices.append(
                    f"the rotary embedding is scaled ({name}); its parameters travel in the "
                    "config, and a reader has to apply them."
                )
    return notices
