"""``dmexp convert``: a .dmexp file in another dtype, or back out as a Hugging Face directory."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .._refusal import quoted
from ..errors import InvalidArgumentError
from . import _arguments as arguments
from ._progress import progress_bar
from ._text import bytes_text, print_json, print_notice, printable

if TYPE_CHECKING:
    from .._convert import ConvertReport

_DESCRIPTION = """\
Write FILE again. With an OUT that ends in .dmexp: as a .dmexp file in another dtype, measured anew,
with a word on what the second narrowing cost. With any other OUT: as a directory that the Hugging
Face libraries load (config.json, model.safetensors or shards, the tokenizer where the file carries
one, and dmexp.json for what those have no place for)."""

_EPILOG = """\
examples:
  dmexp convert model.bf16.dmexp -o model-hf
  dmexp convert model.f32.dmexp -o model.f16.dmexp --dtype f16
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``convert`` to the command line."""
    parser = commands.add_parser(
        "convert",
        help="write a .dmexp file in another dtype, or back out as a Hugging Face directory",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="a .dmexp file")
    add("-o", "--out", metavar="OUT", type=Path, required=True, help="what to write")
    add(
        "--dtype",
        metavar="DTYPE",
        type=_dtype,
        default="stored",
        help="stored (default: as in FILE), bf16, f16 or f32",
    )
    add(
        "--shard-size",
        metavar="SIZE",
        type=_shard_size,
        default="5GB",
        help="bytes of weights in one safetensors file at most (default: 5GB)",
    )
    add("--threads", metavar="N", type=arguments.positive, help="worker threads")
    add("--force", "-f", action="store_true", help="replace OUT if it is there already")
    arguments.add_json(parser)
    arguments.add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Convert, then report on stdout; notes and progress go to stderr."""
    from .._convert import convert

    talk = not (args.json or args.quiet)
    with progress_bar(f"writing {printable(args.out.name)}", wanted=talk) as progress:
        report = convert(
            args.file,
            args.out,
            dtype=args.dtype,
            shard_size=args.shard_size,
            force=args.force,
            threads=args.threads,
            progress=progress,
        )
    if args.json:
        print_json(report.as_dict())
    elif not args.quiet:
        for notice in report.notices:
            print_notice(notice)
        print(as_text(report))
    return 0


def as_text(report: ConvertReport) -> str:
    """The lines at the end of a conversion."""
    lines = [
        f"wrote: {printable(report.path)}",
        f"size: {bytes_text(report.written_bytes)}",
        f"dtype: {report.dtype}, from {report.source_dtype}",
        f"params: {report.num_params:,} in {report.num_tensors:,} tensors",
        f"changed: {report.changed:,} values, {report.flushed:,} of them to zero",
    ]
    if report.changed:
        lines.append(
            f"largest change: {report.max_abs_change:.6g} "
            f"(relative {report.max_relative_change:.6g})"
        )
    if report.kind == "directory":
        lines.append(f"files: {', '.join(map(printable, report.files))}")
    else:
        lines.append(f"read it back with: dmexp info {printable(quoted(report.path))}")
    return "\n".join(lines)


def _dtype(text: str) -> str:
    return text if text == "stored" else arguments.dtype(text)


def _shard_size(text: str) -> int:
    from .._convert import shard_bytes

    try:
        return shard_bytes(text)
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from None
