"""The one dtype table: canonical names, widths in bytes, NumPy types, accepted spellings.

Canonical names are ``"f32"``, ``"bf16"``, ``"f16"`` for what a file can store, and those plus
``"f64"`` for what can be narrowed. Synonyms are accepted at the door, by `storage_dtype`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .errors import UnsupportedDtypeError

if TYPE_CHECKING:
    import numpy as np

    NUMPY_DTYPES: dict[str, np.dtype[np.generic]]
    """The NumPy type of each name: little-endian, as payloads are, whatever the host is."""

STORAGE_DTYPES = ("f32", "f16", "bf16")
"""What a payload may hold, in the order in which messages list them."""

WIDTH_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}

# The magnitudes that a reader of `info` wants to compare with.
LARGEST_FINITE = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}
SMALLEST_NORMAL = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126}

_SPELLINGS = {
    "f32": "f32",
    "fp32": "f32",
    "float32": "f32",
    "f16": "f16",
    "fp16": "f16",
    "float16": "f16",
    "half": "f16",
    "bf16": "bf16",
    "bfloat16": "bf16",
}


def __getattr__(name: str) -> object:
    # NumPy is most of the start-up time, and a look at a header needs none of it.
    if name != "NUMPY_DTYPES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _numpy_dtypes()


@cache
def _numpy_dtypes() -> dict[str, np.dtype[np.generic]]:
    import ml_dtypes
    import numpy as np

    return {
        "f32": np.dtype("<f4"),
        "f16": np.dtype("<f2"),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "f64": np.dtype("<f8"),
    }


@cache
def _by_numpy() -> dict[np.dtype[np.generic], str]:
    return {dtype: name for name, dtype in _numpy_dtypes().items()}


def storage_dtype(spelling: object) -> str:
    """Normalise one spelling of a storage dtype to ``"f32"``, ``"f16"`` or ``"bf16"``.

    Accepts the canonical names, ``fp32 float32 fp16 float16 half bfloat16`` in any case, and
    NumPy dtypes and scalar types of the three.

    Raises
    ------
    UnsupportedDtypeError
        For anything else; the message names the three.
    """
    if isinstance(spelling, str):
        name = _SPELLINGS.get(spelling.lower())
    else:
        import numpy as np

        try:
            name = _by_numpy().get(np.dtype(spelling).newbyteorder("<"))  # type: ignore[call-overload]
        except TypeError:
            name = None
    if name is None or name not in STORAGE_DTYPES:
        raise UnsupportedDtypeError(
            f"unknown dtype {str(spelling)!r}. Known: 'f32', 'f16', 'bf16'.",
            dtype=str(spelling),
            known=list(STORAGE_DTYPES),
        )
    return name


def source_dtype(dtype: np.dtype[np.generic]) -> str | None:
    """The canonical name of a NumPy dtype of either byte order, or None where it is no float."""
    return _by_numpy().get(dtype.newbyteorder("<"))
