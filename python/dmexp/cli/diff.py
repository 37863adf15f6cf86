"""``dmexp diff``: two checkpoints of any kind, tensor by tensor."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from . import _arguments as arguments
from ._progress import progress_bar
from ._text import print_json, printable, table

if TYPE_CHECKING:
    from .._diff import DiffReport, TensorDiff

_DESCRIPTION = """\
Compare the tensors of A and B by name. Each may be anything that `dmexp export` takes, or a .dmexp
file; what an exporter did to a GGUF file is undone first, so what differs here differs in meaning.
Exit status 1 if they differ beyond the tolerance, or if a name or a shape does."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``diff`` to the command line."""
    parser = commands.add_parser(
        "diff",
        help="compare two checkpoints of any kind, tensor by tensor",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("a", metavar="A", type=Path, help="a file or a directory")
    add("b", metavar="B", type=Path, help="another one")
    add(
        "--tolerance",
        metavar="X",
        type=_tolerance,
        default=0.0,
        help="largest absolute difference that is accepted (default: 0, every bit of every value)",
    )
    add("--all", action="store_true", help="list equal tensors too")
    arguments.add_json(parser)
    add("--quiet", "-q", action="store_true", help="print nothing: the exit status is the answer")


def run(args: argparse.Namespace) -> int:
    """Compare; 0 when they agree."""
    from .._diff import diff
    from ..loaders import SourceOptions, open_source

    # A comparison has no use for a tokenizer, and mixed dtypes are for it to show.
    options = SourceOptions(allow_mixed=True, tokenizer=False)
    with (
        open_source(args.a, options) as a,
        open_source(args.b, options) as b,
        progress_bar("comparing", wanted=not (args.json or args.quiet), unit="values") as progress,
    ):
        report = diff(a, b, args.tolerance, progress=progress)
    if args.json:
        print_json(report.as_dict())
    elif not args.quiet:
        print(as_text(report, everything=args.all))
    return 0 if report.equal else 1


def as_text(report: DiffReport, *, everything: bool = False) -> str:
    """Both sources, what was undone, the tensors that differ, and the verdict."""
    lines = [
        f"{letter}: {printable(path)} ({printable(kind)})"
        for letter, path, kind in zip("ab", report.paths, report.kinds, strict=True)
    ]
    lines += [f"note: {printable(notice)}" for notice in report.notices]
    if report.config_differences:
        keys = ", ".join(map(printable, report.config_differences))
        lines.append(f"configs differ in: {keys}")
    listed = [tensor for tensor in report.tensors if everything or tensor.status != "same"]
    if listed:
        head = ("tensor", "", "max abs", "mean abs", "relative", "differing", "ulps")
        lines += ["", table(head, [_row(tensor) for tensor in listed], right="<<>>>>>"), ""]
    counts = report.counts()
    lines.append(
        f"tensors: {counts['same']:,} the same, {counts['differs']:,} differ, "
        f"{counts['missing']:,} only in a, {counts['extra']:,} only in b, "
        f"{counts['reshaped']:,} reshaped"
    )
    lines.append(f"result: {_verdict(report)}")
    return "\n".join(lines)


def _verdict(report: DiffReport) -> str:
    if not report.equal:
        within = f" beyond {report.tolerance:g}" if report.tolerance else ""
        return f"{len(report.beyond):,} tensors differ{within}"
    if report.counts()["differs"]:
        return f"equal within {report.tolerance:g}"
    return "identical: zero differences"


def _row(tensor: TensorDiff) -> tuple[str, ...]:
    name = printable(tensor.name)
    if tensor.status in ("missing", "extra", "reshaped"):
        word = {"missing": "only in a", "extra": "only in b"}.get(tensor.status, "")
        dims = " and ".join(str(list(dims)) for dims in tensor.dims if dims is not None)
        return name, f"{word or 'reshaped'} {dims}", "", "", "", "", ""
    word = "same" if tensor.status == "same" else "differs"
    if tensor.dtype[0] != tensor.dtype[1]:
        word += f" ({tensor.dtype[0]} and {tensor.dtype[1]})"
    if tensor.zero_signs:
        word += f", {tensor.zero_signs:,} zeros by sign"
    if tensor.nan_mismatches:
        word += f", {tensor.nan_mismatches:,} NaN on one side"
    return (
        name,
        word,
        f"{tensor.max_abs:.3g}",
        f"{tensor.mean_abs:.3g}",
        f"{tensor.max_relative:.3g}",
        f"{tensor.differing:,} of {tensor.count:,}",
        f"{tensor.max_ulps:.3g}",
    )


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value
