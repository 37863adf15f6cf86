"""``dmexp export``: a checkpoint in, one .dmexp file out."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._refusal import quoted
from . import _arguments as arguments
from ._progress import progress_bar
from ._provenance import record_of, require_free, write
from ._shapes import shapes_dict, shapes_line
from ._text import bytes_text, print_json, print_notice, printable

if TYPE_CHECKING:
    from .._export import ExportReport

_DESCRIPTION = """\
Write SOURCE as one .dmexp file: the weights in one dtype, the config that gives them their shape,
what was measured while narrowing them, and checksums. The content of SOURCE decides how it is
read, not its suffix. A value that the dtype cannot hold is refused; nothing is clipped."""

_EPILOG = """\
examples:
  dmexp export model.safetensors
  dmexp export model.safetensors -o model.f16.dmexp --dtype f16
  dmexp export model.safetensors --exclude '*.position_ids'
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``export`` to the command line."""
    parser = commands.add_parser(
        "export",
        help="write a checkpoint as one .dmexp file",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", type=Path, help="the checkpoint: a file or a directory")
    add(
        "-o",
        "--out",
        metavar="OUT",
        type=Path,
        help="the file to write (default: <stem>.<dtype>.dmexp in the current directory)",
    )
    add(
        "--dtype",
        metavar="DTYPE",
        type=arguments.dtype,
        default="bf16",
        help="bf16 (default), f16 or f32; fp16 float16 half bfloat16 fp32 float32 work too",
    )
    add(
        "--config",
        metavar="FILE",
        type=Path,
        help="the model's config (config.json or TOML), where SOURCE has none beside it",
    )
    add(
        "--include",
        metavar="GLOB",
        action="append",
        default=[],
        help="export only tensors whose name matches; may be repeated",
    )
    add(
        "--exclude",
        metavar="GLOB",
        action="append",
        default=[],
        help="leave out tensors whose name matches; may be repeated, wins over --include",
    )
    add("--source", dest="label", metavar="TEXT", help="what the header's `source` says")
    add("--step", metavar="N", type=arguments.count, help="the training step for the header")
    add(
        "--metadata",
        metavar="KEY=VALUE",
        type=arguments.pair,
        action="append",
        default=[],
        help="text that travels in the header; may be repeated",
    )
    add(
        "--compat",
        choices=["dormouse"],
        help="write byte for byte what the original writer would, without our additions",
    )
    add(
        "--threads",
        metavar="N",
        type=arguments.positive,
        help="worker threads (default: DMEXP_NUM_THREADS, or the CPUs that this process may use)",
    )
    add(
        "--allow-mixed",
        action="store_true",
        help="accept weights whose dtype differs from the one that the config states",
    )
    add("--no-tokenizer", action="store_true", help="leave the tokenizer out of the metadata")
    add(
        "--provenance",
        metavar="FILE",
        type=Path,
        help="also write which transforms were undone, with their checks, as JSON (GGUF)",
    )
    add("--force", "-f", action="store_true", help="replace OUT if it is there already")
    arguments.add_json(parser)
    arguments.add_quiet(parser)
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Export, then report on stdout; notes and progress go to stderr."""
    metadata = arguments.unique_pairs(args.parser, "--metadata", args.metadata)

    from .._export import export
    from ..loaders import SourceOptions, open_source

    out = args.out if args.out is not None else default_out(args.source, args.dtype)
    options = SourceOptions(
        config=args.config, allow_mixed=args.allow_mixed, tokenizer=not args.no_tokenizer
    )
    talk = not (args.json or args.quiet)
    if args.provenance is not None:
        require_free(args.provenance, force=args.force)
    with (
        open_source(args.source, options) as source,
        progress_bar(f"exporting {printable(out.name)}", wanted=talk) as progress,
    ):
        # Made first: a source that has no provenance is refused before anything is written.
        record = None if args.provenance is None else record_of(source)
        report = export(
            source,
            out,
            dtype=args.dtype,
            include=tuple(args.include),
            exclude=tuple(args.exclude),
            source_label=args.label,
            step=args.step,
            metadata=metadata,
            compat=args.compat,
            threads=args.threads,
            progress=progress,
            force=args.force,
        )
    if record is not None:
        write(record, args.provenance)
    if args.json:
        print_json(as_dict(report))
    elif not args.quiet:
        for notice in report.notices:
            print_notice(notice)
        print(as_text(report))
    return 0


def default_out(source: Path, dtype: str) -> Path:
    """``<stem>.<dtype>.dmexp`` in the current directory.

    A directory gives its own name; one part of a split file gives the name of the whole.
    """
    name = source.resolve().name if source.is_dir() or not source.name else source.stem
    name = re.sub(r"-\d{5}-of-\d{5}$", "", name)
    return Path(f"{name or 'model'}.{dtype}.dmexp")


def as_text(report: ExportReport) -> str:
    """The lines at the end of an export."""
    size = bytes_text(report.file_bytes)
    if report.source_bytes and report.file_bytes:
        ratio = report.source_bytes / report.file_bytes
        size += f", {_ratio_text(ratio)} the source's {report.source_bytes:,}"
    magnitudes = "none: every value is zero"
    if report.max_abs > 0:
        magnitudes = f"{report.min_nonzero_abs:.6g} (smallest non-zero) to {report.max_abs:.6g}"
    lines = [
        f"wrote: {printable(report.path)}",
        f"size: {size}",
        f"dtype: {report.dtype}",
        f"params: {report.num_params:,} in {report.num_tensors:,} tensors",
        f"magnitudes: {magnitudes}",
        f"flushed: {report.flushed:,} non-zero values became zero",
        f"subnormal: {report.subnormal:,} values are below the smallest normal number",
        shapes_line(report.shapes),
        f"read it back with: dmexp info {printable(quoted(report.path))}",
    ]
    return "\n".join(lines)


def as_dict(report: ExportReport) -> dict[str, Any]:
    """What ``--json`` prints."""
    return {
        "path": report.path,
        "dtype": report.dtype,
        "file_bytes": report.file_bytes,
        "source_bytes": report.source_bytes,
        "ratio": report.source_bytes / report.file_bytes if report.file_bytes else None,
        "num_params": report.num_params,
        "num_tensors": report.num_tensors,
        "flushed": report.flushed,
        "subnormal": report.subnormal,
        "max_abs": report.max_abs,
        "min_nonzero_abs": report.min_nonzero_abs,
        "shapes": shapes_dict(report.shapes),
        "notices": list(report.notices),
        "tensors": [
            {
                "name": tensor.name,
                "dims": list(tensor.dims),
                "source_dtype": tensor.source_dtype,
                "flushed": tensor.flushed,
                "subnormal": tensor.subnormal,
                "max_abs": tensor.max_abs,
                "min_nonzero_abs": tensor.min_nonzero_abs,
                "crc32": f"{tensor.crc32:08x}",
            }
            for tensor in report.per_tensor
        ],
        "read_back": f"dmexp info {quoted(report.path)}",
    }


def _ratio_text(ratio: float) -> str:
    if 0.995 < ratio < 1.005:
        return "about as large as"
    return f"{ratio:.3g}x smaller than" if ratio >= 1 else f"{1 / ratio:.3g}x larger than"
