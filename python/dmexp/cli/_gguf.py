"""``dmexp info`` on a GGUF file: what its header says, and what an export would make of it."""

from __future__ import annotations

from typing import Any

from .._refusal import quoted
from ._text import bytes_text, printable, shortened, table


def as_text(info: dict[str, Any], *, tensors: bool = False) -> str:
    """The lines for a person, from what `dmexp.loaders.gguf.gguf_info` found."""
    quantized = " (quantized)" if info["quantized"] else ""
    types = ", ".join(f"{name} x {count:,}" for name, count in info["types"].items())
    lines = [
        f"file: {printable(info['path'])}",
        f"format: GGUF v{info['version']}",
        f"architecture: {printable(str(info['architecture']))}",
        f"file type: {printable(str(info['file_type'] or 'not recorded'))}{quantized}",
        f"params: {info['num_params']:,} in {info['num_tensors']:,} tensors",
        f"types: {printable(types)}",
        f"size of the tensors: {bytes_text(info['tensor_bytes'])}",
    ]
    if len(info["parts"]) > 1:
        lines.append(f"parts: {', '.join(map(printable, info['parts']))}")
    lines.append(f"contracts: {printable(info['contracts'])}")
    if info["transforms"]:
        undone = (f"{printable(name)} x {count:,}" for name, count in info["transforms"].items())
        lines.append(f"an export undoes: {', '.join(undone)}")
    elif info["contracts"] == "declared":
        lines.append("an export undoes: nothing, every tensor is a plain rename")
    lines.append("metadata:")
    for key, value in info["metadata"].items():
        lines.append(f"  {printable(key)} = {_value(value)}")
    if tensors:
        lines += ["", tensor_table(info)]
    lines.append(f"make a .dmexp file of it with: dmexp export {printable(quoted(info['path']))}")
    return "\n".join(lines)


def tensor_table(info: dict[str, Any]) -> str:
    """Every tensor with its type and bytes, the names that it becomes, and how."""
    rows = []
    for tensor in info["tensors"]:
        becomes = ", ".join(tensor["canonical"][:2])
        more = len(tensor["canonical"]) - 2
        becomes += f" and {more} more" if more > 0 else ""
        if "dropped" in tensor:
            becomes = f"left out: {tensor['dropped']}"
        rows.append(
            (
                printable(tensor["name"]),
                str(tensor["dims"]),
                tensor["type"],
                f"{tensor['offset']:,}",
                f"{tensor['nbytes']:,}",
                printable(becomes or "-"),
                printable(tensor["transform"] or "-"),
            )
        )
    head = ("tensor", "dims", "type", "offset", "bytes", "becomes", "after")
    return table(head, rows, right="<<<>><<")


def _value(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"type", "count"}:
        return f"{value['count']:,} values of type {printable(str(value['type']))}"
    return shortened(value)
