"""Find the command, load its module, run it, and turn every failure into one line."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from ._errors import report
from ._text import prepare_streams

COMMANDS = {
    "export": "write a checkpoint as one .dmexp file",
    "info": "show what a file holds, without loading it",
    "verify": "check everything that a file lets a reader check",
    "convert": "write a .dmexp file in another dtype, or back out as a Hugging Face directory",
    "diff": "compare two checkpoints of any kind, tensor by tensor",
    "contracts": "list, show, lint and record the transform contracts of GGUF files",
    "divergence": "measure what each dtype does to a model's answers",
    "generate": "continue a prompt with the model in a file",
    "serve": "answer the OpenAI completion requests with the model in a file",
}
"""Every command with its line in ``dmexp --help``. The module of the same name does the work."""


def entry() -> NoReturn:
    """Run the ``dmexp`` script: `main` on ``sys.argv``, then exit."""
    # A polite kill unwinds like Ctrl-C, so that a half-written file is taken away.
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv
        The arguments after the program's name; ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        0 when all went well, 1 for bad data, 2 for bad usage, 130 after Ctrl-C.
    """
    prepare_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parser, module = _parser_for(arguments)
        args = parser.parse_args(arguments)
        if module is None:
            parser.print_help(sys.stderr)
            status = 2
        else:
            status = int(module.run(args))
        # Nothing may be left to fail while the interpreter shuts down, where it cannot be caught.
        sys.stdout.flush()
    except BaseException as error:
        return report(error, as_json="--json" in arguments)
    return status


def _parser_for(arguments: Sequence[str]) -> tuple[argparse.ArgumentParser, ModuleType | None]:
    """The parser, with only the arguments of the command in question filled in."""
    parser = argparse.ArgumentParser(
        prog="dmexp",
        description="Turn a trained model into one honest file, and read any such file back.",
        epilog="dmexp COMMAND --help explains a command.",
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    # No option of the program itself takes a value, so the first bare word is the command.
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    module = None
    for name, summary in COMMANDS.items():
        if name == chosen:
            module = importlib.import_module(f"{__package__}.{name}")
            module.add_parser(commands)
        else:
            commands.add_parser(name, help=summary)
    return parser, module


class _Formatter(argparse.HelpFormatter):
    """Wide enough for the longest command to share a line with what it does."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=16, width=96)


class _Version(argparse.Action):
    """``--version``, which loads the compiled module only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from .._native import __version__

        print(f"dmexp {__version__}")
        parser.exit()


def _terminated(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)
