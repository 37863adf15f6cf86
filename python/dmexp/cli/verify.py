"""``dmexp verify``: everything that a file lets a reader check."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DmexpError
from . import _arguments as arguments
from ._errors import EXIT_BAD_DATA, describe, message_of
from ._shapes import shapes_dict
from ._text import print_error, print_json, printable

if TYPE_CHECKING:
    from .._inspect import VerifyReport

_DESCRIPTION = """\
Read each FILE whole and check all that the format lets a reader refuse: the length, the header and
its checksum, the payload's and every tensor's checksum, that all values are finite, that the counts
and magnitudes in the header are those of the payload, and that the config describes the tensors.
One line a file; exit status 1 if any file is refused."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``verify`` to the command line."""
    parser = commands.add_parser(
        "verify",
        help="check everything that a file lets a reader check",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a .dmexp file")
    arguments.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check every file, also after one was refused."""
    from .._inspect import verify

    results: list[dict[str, Any]] = []
    first_error: dict[str, Any] | None = None
    for path in args.files:
        try:
            report = verify(path)
        except (DmexpError, OSError) as error:
            facts = describe(error)
            first_error = first_error or facts
            results.append({"path": str(path), "ok": False, "error": facts})
            if not args.json:
                print_error(message_of(error))
        else:
            results.append(as_dict(report))
            if not args.json:
                # Flushed, so that the lines of stdout and stderr come in the order of the files.
                print(as_text(report), flush=True)
    if args.json:
        document: dict[str, Any] = {"ok": first_error is None, "files": results}
        if first_error is not None:
            document["error"] = first_error
        print_json(document)
    return 0 if first_error is None else EXIT_BAD_DATA


def as_text(report: VerifyReport) -> str:
    """One line for a file that is whole."""
    shapes = report.shapes
    if shapes.status == "not checked":
        described = f"shapes: not checked ({shapes.reason})"
    else:
        described = f"config describes the tensors: {shapes.status}"
    return printable(f"verify: ok  {report.path}  ({described})")


def as_dict(report: VerifyReport) -> dict[str, Any]:
    """What ``--json`` prints for a file that is whole."""
    return {
        "path": str(report.path),
        "ok": True,
        "checks": list(report.checks),
        "shapes": shapes_dict(report.shapes),
    }
