"""``dmexp divergence``: what each dtype does to a model's answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from . import _arguments as arguments
from ._text import bytes_text, print_json, print_notice, printable, table

if TYPE_CHECKING:
    from ..runtime.report import DivergenceReport, Row

_DESCRIPTION = """\
Export SOURCE to f32, f16 and bf16 in a temporary directory, read each file back, and compare what
the three answer with what SOURCE's own weights answer, on windows evenly spaced through a text.
Nothing of yours is written to or removed. It takes minutes: the model runs on the CPU in NumPy."""

_EPILOG = """\
examples:
  dmexp divergence model/ --eval book.txt
  dmexp divergence model.gguf --eval book.txt --plot divergence.png --json > divergence.json
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``divergence`` to the command line."""
    parser = commands.add_parser(
        "divergence",
        help="measure what each dtype does to a model's answers",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", type=Path, help="the checkpoint: a file or a directory")
    add("--eval", metavar="FILE", type=Path, required=True, help="the text to measure on")
    add(
        "--windows",
        metavar="N",
        type=arguments.positive,
        default=16,
        help="pieces of the text, evenly spaced (default: 16)",
    )
    add(
        "--window-tokens",
        metavar="N",
        type=arguments.positive,
        default=256,
        help="tokens a piece (default: 256)",
    )
    add(
        "--greedy-windows",
        metavar="N",
        type=arguments.count,
        default=4,
        help="pieces that are continued greedily (default: 4)",
    )
    add(
        "--greedy-tokens",
        metavar="N",
        type=arguments.positive,
        default=64,
        help="new tokens a continuation (default: 64)",
    )
    add(
        "--plot",
        metavar="OUT.png",
        type=Path,
        help="also draw the result (png, pdf or svg; needs matplotlib)",
    )
    add("--config", metavar="FILE", type=Path, help="the config, where SOURCE has none beside it")
    add(
        "--tokenizer",
        metavar="PATH",
        type=Path,
        help="a tokenizer.json, or its directory, in place of SOURCE's own",
    )
    add("--include", metavar="GLOB", action="append", default=[], help="as for export")
    add("--exclude", metavar="GLOB", action="append", default=[], help="as for export")
    add(
        "--temp-dir",
        metavar="DIR",
        type=Path,
        help="where the temporary directory is made; it takes 4 bytes a parameter",
    )
    arguments.add_json(parser)
    arguments.add_quiet(parser)
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Measure; a table or one JSON document on stdout, progress on stderr."""
    from ..runtime.divergence import Settings, divergence
    from ..runtime.plot import plot, require_plot

    if args.plot is not None:
        require_plot(args.plot)
    settings = Settings(
        windows=args.windows,
        window_tokens=args.window_tokens,
        greedy_windows=args.greedy_windows,
        greedy_tokens=args.greedy_tokens,
        include=tuple(args.include),
        exclude=tuple(args.exclude),
        tokenizer=args.tokenizer,
        config=args.config,
        scratch=args.temp_dir,
    )
    with _progress(not (args.quiet or args.json)) as progress:
        report = divergence(args.source, args.eval, settings, progress=progress)
    if args.plot is not None:
        plot(report, args.plot)
    if args.json:
        print_json(report.as_dict())
        return 0
    if not args.quiet:
        for notice in report.notices:
            print_notice(notice)
    print(as_text(report))
    return 0


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[int, int], object] | None]:
    """A bar of steps on stderr, for a person at a terminal."""
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("measuring", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def as_text(report: DivergenceReport) -> str:
    """The report for a person."""
    peaked = report.peakedness.as_dict() if report.peakedness.margins else None
    lines = [
        f"source      {printable(report.source)} ({report.kind}, {bytes_text(report.source_bytes)})",
        f"model       {report.model_type}, {report.num_params:,} parameters",
        f"text        {printable(report.text)}: {len(report.starts)} windows of "
        f"{report.window_tokens} tokens, of {report.text_tokens:,}",
    ]
    if peaked is not None:
        lines.append(
            f"reference   likeliest token has {peaked['median_top_probability']:.3f} (median), "
            f"entropy {peaked['mean_entropy_nats']:.3f} nats (mean)"
        )
    rows = report.rows
    measured = [row for row in rows if row.refused is None]
    lines += ["", table(["", *(row.dtype for row in measured)], _cells(measured), right="<>>>")]
    for row in rows:
        if row.refused is not None:
            lines += ["", f"{row.dtype}: no file, {printable(row.refused)}"]
    ties = _ties(report, measured)
    return "\n".join(lines + (["", ties] if ties else []) + ["", f"{report.seconds:.0f} s"])


def _cells(rows: list[Row]) -> list[list[str]]:
    cells = [
        ["file bytes", *(f"{row.file_bytes:,}" for row in rows)],
        ["source / file", *(f"{row.ratio:.3f}" for row in rows)],
        ["largest magnitude", *(f"{row.max_abs:.6g}" for row in rows)],
        ["smallest, not zero", *(f"{row.min_nonzero_abs:.6g}" for row in rows)],
        ["flushed to zero", *(f"{row.flushed:,}" for row in rows)],
        ["stored subnormal", *(f"{row.subnormal:,}" for row in rows)],
    ]
    for where, agreements in (
        ("last", [row.last for row in rows]),
        ("all", [row.every for row in rows]),
    ):
        cells += [
            [f"max |logit delta|, {where}", *(_small(each.max_delta) for each in agreements)],
            [f"mean |logit delta|, {where}", *(_small(each.mean_delta) for each in agreements)],
            [f"max KL, {where}", *(_small(each.max_kl) for each in agreements)],
            [f"mean KL, {where}", *(_small(each.mean_kl) for each in agreements)],
            [f"same top-1, {where}", *(f"{each.top1:.2%}" for each in agreements)],
        ]
    for index, at in enumerate(rows[0].greedy if rows else ()):
        name = f"greedy {at.tokens}, from token {at.start:,}"
        cells.append([name, *(_greedy(row, index) for row in rows)])
    return cells


def _small(value: float) -> str:
    return "0" if value == 0 else f"{value:.3e}"


def _greedy(row: Row, index: int) -> str:
    first = row.greedy[index].first_difference
    return "identical" if first is None else f"differs at {first + 1}"


def _ties(report: DivergenceReport, rows: list[Row]) -> str:
    """What near-ties do to top-1 and to greedy text, with this model's own numbers."""
    widest = max((row.every.max_delta for row in rows), default=0.0)
    if not report.peakedness.margins or widest == 0:
        return ""
    share = report.peakedness.share_below(2 * widest)
    return (
        f"At {share:.1%} of the positions the two likeliest tokens are closer than twice the "
        f"largest\nlogit difference ({widest:.3g}): only there can rounding change the likeliest "
        "token, and one\nsuch token changes all greedy text after it. KL is the measure that "
        "near-ties do not blur."
    )
