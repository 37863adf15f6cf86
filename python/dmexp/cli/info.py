"""``dmexp info``: what a file holds, without loading it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._kinds import Kind
from ..errors import UnsupportedFormatError
from . import _arguments as arguments
from ._range import range_note
from ._shapes import shapes_dict, shapes_line
from ._text import bytes_text, print_json, printable, printable_block, shortened, table

if TYPE_CHECKING:
    from .._inspect import Info

_DESCRIPTION = """\
Show what FILE says of itself: dtype, source, sizes, magnitudes, config and metadata, and whether
its config describes its tensors. The header and its arithmetic are always checked; the payload's
checksum and the header's claims about it too, unless --no-verify is given. Of a GGUF file the
header is shown, and what an export would make of each tensor."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``info`` to the command line."""
    parser = commands.add_parser(
        "info",
        help="show what a file holds, without loading it",
        description=_DESCRIPTION,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a .dmexp or GGUF file")
    parser.add_argument(
        "--tensors", "-t", action="store_true", help="list every tensor with its byte range"
    )
    parser.add_argument(
        "--no-verify", action="store_true", help="do not read the payload to check its checksum"
    )
    arguments.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what the header says."""
    from .._inspect import info

    try:
        result = info(args.file, verify=not args.no_verify)
    except UnsupportedFormatError as error:
        if error.facts.get("kind") != Kind.GGUF.value:
            raise
        return _gguf(args)
    if args.json:
        print_json(as_dict(result))
    else:
        print(as_text(result, tensors=args.tensors))
    return 0


def _gguf(args: argparse.Namespace) -> int:
    from ..loaders.gguf import gguf_info
    from ._gguf import as_text

    found = gguf_info(args.file)
    print_json(found) if args.json else print(as_text(found, tensors=args.tensors))
    return 0


def as_text(info: Info, *, tensors: bool = False) -> str:
    """The lines for a person; ``key: value``, then config, metadata and tensors as blocks."""
    subnormal = "not recorded" if info.subnormal is None else f"{info.subnormal:,}"
    lines = [
        f"file: {printable(info.path)}",
        f"size: {bytes_text(info.file_bytes)}",
        f"format: DMEXPRT v{info.format_version}",
        f"writer: {printable(info.writer or 'not recorded')}",
        f"dtype: {info.dtype}",
        f"source: {printable(info.source)}",
        f"step: {info.step}",
        f"params: {info.num_params:,} in {info.num_tensors:,} tensors",
        f"payload: {bytes_text(info.payload_bytes)}",
        f"memory as f32: {bytes_text(info.ram_as_f32_bytes)}",
        f"range: {info.min_nonzero_abs:.6g} (smallest non-zero) to {info.max_abs:.6g}",
        f"range note: {range_note(info.dtype, info.max_abs, info.min_nonzero_abs)}",
        f"flushed: {info.flushed:,}",
        f"subnormal: {subnormal}",
        f"checksum: {info.checksum}",
        shapes_line(info.shapes),
    ]
    lines += _block("config", info.config)
    lines += _block("metadata", _metadata_text(info.metadata))
    if tensors:
        lines += ["", tensor_table(info)]
    return "\n".join(lines)


def tensor_table(info: Info) -> str:
    """Name, dims and byte range (end not included) of every tensor, in file order."""
    rows = [
        (
            printable(tensor.name),
            str(list(tensor.dims)),
            f"{tensor.offset:,}",
            f"{tensor.offset + tensor.nbytes:,}",
            _hex(tensor.crc32) or "-",
        )
        for tensor in info.tensors
    ]
    return table(("tensor", "dims", "from byte", "to byte", "crc32"), rows, right="<<>><")


def as_dict(info: Info) -> dict[str, Any]:
    """What ``--json`` prints: everything, the tensors too."""
    return {
        "path": info.path,
        "file_bytes": info.file_bytes,
        "payload_bytes": info.payload_bytes,
        "format": info.format_version,
        "writer": info.writer,
        "dtype": info.dtype,
        "source": info.source,
        "step": info.step,
        "num_params": info.num_params,
        "num_tensors": info.num_tensors,
        "ram_as_f32_bytes": info.ram_as_f32_bytes,
        "max_abs": info.max_abs,
        "min_nonzero_abs": info.min_nonzero_abs,
        "range_note": range_note(info.dtype, info.max_abs, info.min_nonzero_abs),
        "flushed": info.flushed,
        "subnormal": info.subnormal,
        "checksum": info.checksum,
        "shapes": shapes_dict(info.shapes),
        "config": info.config,
        "metadata": info.metadata,
        "tensors": [
            {
                "name": tensor.name,
                "dims": list(tensor.dims),
                "offset": tensor.offset,
                "nbytes": tensor.nbytes,
                "crc32": _hex(tensor.crc32),
            }
            for tensor in info.tensors
        ],
    }


def _hex(crc32: int | None) -> str | None:
    return None if crc32 is None else f"{crc32:08x}"


def _block(title: str, text: str) -> list[str]:
    if not text.strip():
        return [f"{title}: none"]
    lines = printable_block(text).strip("\n").split("\n")
    return [f"{title}:", *(f"  {line}".rstrip() for line in lines)]


def _metadata_text(metadata: dict[str, Any]) -> str:
    return "\n".join(f"{printable(key)} = {shortened(value)}" for key, value in metadata.items())
