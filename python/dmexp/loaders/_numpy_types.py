"""NumPy's type for every dtype that a checkpoint can hold, little-endian, by canonical name."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmexp._dtypes import NUMPY_DTYPES

SOURCE_DTYPES: dict[str, np.dtype[Any]] = {
    **NUMPY_DTYPES,
    **{
        f"{kind}{8 * width}": np.dtype(f"<{kind}{width}") for kind in "iu" for width in (1, 2, 4, 8)
    },
    "bool": np.dtype("?"),
    "c64": np.dtype("<c8"),
}
