"""What ``dmexp info`` says about a GGUF file: all of it from the header."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from dmexp.contracts import plan
from dmexp.errors import ContractError

from ._arrays import SkippedArray
from ._split import read_set
from ._summary import file_type, quantized_types, type_counts


def gguf_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Describe a GGUF model from its header.

    Parameters
    ----------
    path
        A file, any part of a split model, or a directory that holds one model. The data may be
        cut off.

    Returns
    -------
    dict
        Plain data, ready for JSON: ``architecture``, ``version``, ``alignment``,
        ``data_offset``, ``parts``, ``file_type``, ``quantized``, ``types`` (tensors of each),
        ``num_tensors``, ``num_params``, ``tensor_bytes``, ``metadata`` (long arrays as
        ``{"type", "count"}``), ``contracts`` (``"declared"`` or why not), ``transforms`` and
        ``tensors``: each with ``name``, ``dims``, ``type``, ``offset``, ``nbytes``, ``part``,
        ``canonical`` (names it goes into) and ``transform`` (empty for a plain rename, None
        where nothing is declared).

    Raises
    ------
    FileFormatError
        A header that `read_header` refuses, or parts that do not fit together.
    """
    found = read_set(path)
    header = found.header
    goes: dict[str, tuple[list[str], str]] = {}
    dropped: dict[str, str] = {}
    transforms: dict[str, int] = {}
    contracts = "declared"
    try:
        planned = plan(
            header.architecture,
            header.metadata,
            {tensor.name: tensor.dims for tensor in header.tensors},
        )
    except ContractError as error:
        contracts = error.message
    else:
        transforms = dict(planned.transforms)
        dropped = {item.external: item.reason for item in planned.dropped}
        for output in planned.outputs:
            for external in output.inputs:
                goes.setdefault(external, ([], output.transform))[0].append(output.name)
    tensors = []
    for tensor in header.tensors:
        names, transform = goes.get(tensor.name, ([], None))
        described: dict[str, Any] = {
            "name": tensor.name,
            "dims": list(tensor.dims),
            "type": tensor.type_name,
            "offset": tensor.offset,
            "nbytes": tensor.nbytes,
            "part": tensor.part,
            "canonical": names,
            "transform": transform,
        }
        if tensor.name in dropped:
            described["dropped"] = dropped[tensor.name]
        tensors.append(described)
    return {
        "path": str(path),
        "kind": "GGUF",
        "architecture": header.architecture,
        "version": header.version,
        "alignment": header.alignment,
        "data_offset": header.data_offset,
        "parts": [Path(part).name for part in found.parts],
        "file_type": file_type(header.metadata),
        "quantized": bool(quantized_types(header)),
        "types": type_counts(header),
        "num_tensors": len(header.tensors),
        "num_params": sum(math.prod(tensor.dims) for tensor in header.tensors),
        "tensor_bytes": sum(tensor.nbytes for tensor in header.tensors),
        "metadata": {key: _shown(value) for key, value in header.metadata.items()},
        "contracts": contracts,
        "transforms": transforms,
        "tensors": tensors,
    }


def _shown(value: Any) -> Any:
    if isinstance(value, SkippedArray):
        return {"type": value.type, "count": value.count}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    # JSON has no word for these.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
