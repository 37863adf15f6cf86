"""What every checkpoint with a Hugging Face config is held to, one file or many."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmexp.errors import UnsupportedDtypeError
from dmexp.families import find

from ._quantised import refuse_quantised
from ._source import SourceOptions, TensorEntry
from .hf_keys import check_rope, weight_dtype
from .lis_config import parse_llama_config
from .tied import Place, check_tied

_FLOATS = frozenset({"f64", "f32", "f16", "bf16"})
_NAMED_AT_MOST = 20


def check_checkpoint(
    entries: Sequence[TensorEntry],
    config: Mapping[str, Any],
    options: SourceOptions,
    place: Callable[[str], Place],
    *,
    path: str,
    config_path: str | None = None,
    whole: bool = True,
) -> tuple[dict[str, Any], list[str]]:
    """Check config and headers against each other before any value is read.

    Parameters
    ----------
    entries
        Every tensor, over all files.
    config
        The parsed config; empty where there is none.
    options
        ``allow_mixed`` lets weights of another dtype than the config's pass.
    place
        Where the bytes of a tensor are, for the comparison of a tied head that is stored.
    path, config_path
        The checkpoint and the config as the user knows them, for messages.
    whole
        False for one shard of several, whose head may be in another.

    Returns
    -------
    tuple
        What has to travel in the header's metadata, and notices.

    Raises
    ------
    UnsupportedError, UnsupportedDtypeError
        Quantised weights; a rotary embedding that is not known; weights of mixed dtypes.
    FormatError, ShapeMismatchError
        Keys that are absent or disagree; a head that is not what the config says.
    """
    refuse_quantised(entries, {"quantization_config": quantisation(config)}, path=path)
    if not config:
        return {}, []
    config_path = config_path or path
    family = find(config)
    notices = check_rope(config, family, config_path)
    if family is not None and family.name == "llama":
        parse_llama_config(config, path=config_path)
    metadata, more = check_precision(entries, config, options, path=path, config_path=config_path)
    notices += more
    if not whole:
        return metadata, notices
    tied, more = check_tied(entries, config, family, place, path=path)
    return metadata | tied, notices + more


def quantisation(config: Mapping[str, Any]) -> Any:
    """What a config says of quantised weights, under either name, at the top or in a part of it."""
    tables = [config, *(value for value in config.values() if isinstance(value, Mapping))]
    return next(
        (
            table[key]
            for table in tables
            for key in ("quantization_config", "compression_config")
            if table.get(key)
        ),
        None,
    )


def check_precision(
    entries: Sequence[TensorEntry],
    config: Mapping[str, Any],
    options: SourceOptions,
    *,
    path: str,
    config_path: str | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """LIS's precision rule: every weight has the dtype that the config states.

    Raises
    ------
    UnsupportedDtypeError
        Some have another, and ``allow_mixed`` is not given. Facts: ``tensors``, all of them with
        their dtypes; ``stated``.
    """
    stated = weight_dtype(config, config_path or path)
    others = {
        entry.name: entry.dtype
        for entry in entries
        if stated is not None and entry.dtype in _FLOATS and entry.dtype != stated
    }
    if not others:
        return {}, []
    if options.allow_mixed:
        by_dtype: dict[str, list[str]] = {}
        for name, dtype in others.items():
            by_dtype.setdefault(dtype, []).append(name)
        return {"mixed_dtypes": {"stated": stated, **by_dtype}}, [
            f"{len(others)} of {len(entries)} tensors are not {stated}, which the config states; "
            "the header's metadata lists them."
        ]
    shown = ", ".join(f"{name} ({dtype})" for name, dtype in list(others.items())[:_NAMED_AT_MOST])
    more = f" and {len(others) - _NAMED_AT_MOST} more" if len(others) > _NAMED_AT_MOST else ""
    first, dtype = next(iter(others.items()))
    raise UnsupportedDtypeError(
        f"the config states {stated} and {len(others)} of {len(entries)} tensors have another "
        f"dtype: {shown}{more}. If that is meant, --allow-mixed exports them and says so in the "
        "header's metadata.",
        path=path,
        tensor=first,
        dtype=dtype,
        known=[stated],
        stated=stated,
        tensors=others,
    )
