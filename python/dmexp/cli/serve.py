"""``dmexp serve``: answer OpenAI's completion requests with the model in a file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ..errors import MissingDependencyError
from . import _arguments as arguments
from ._text import print_notice, printable
from .generate import add_runtime_options

_DESCRIPTION = """\
Load FILE, checking all of it, and answer /v1/completions, /v1/chat/completions, /v1/models and
/health as OpenAI's clients expect it, one generation at a time. This is a reference runtime in
NumPy with no authentication: it listens on this machine only, unless --host says otherwise."""

_EPILOG = """\
examples:
  dmexp serve model.dmexp
  dmexp serve model.dmexp --port 0 --queue 4
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``serve`` to the command line."""
    parser = commands.add_parser(
        "serve",
        help="answer OpenAI's completion requests with the model in a file",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="a .dmexp file")
    add("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=_port, default=8000, help="the port; 0 takes a free one (default: 8000)")
    add(
        "--queue",
        metavar="N",
        type=arguments.count,
        default=16,
        help="requests that may wait; more are answered with 429 (default: 16)",
    )
    add(
        "--alias",
        metavar="NAME",
        action="append",
        default=[],
        help="a model name to answer to besides the file's; may be repeated",
    )
    add_runtime_options(parser)
    parser.set_defaults(parser=parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; one line with the address on stdout."""
    from ..runtime import open_model
    from ..runtime.loading import open_export

    try:
        from ..runtime.serve.app import Service
        from ..runtime.serve.engine import Engine
        from ..runtime.serve.server import address_of, bind, is_loopback, serve
    except ImportError as error:
        package = (error.name or "starlette").partition(".")[0]
        raise MissingDependencyError(
            f"dmexp serve needs the {package} package: pip install 'dmexp[serve]'.",
            package=package,
            extra="serve",
        ) from None

    # What is no export is said before anything about the port.
    with open_export(args.file):
        pass
    # Bound before loading, which takes long; a client is refused until the model is there.
    with bind(args.host, args.port) as listener:
        loaded = open_model(args.file, tokenizer=args.tokenizer, low_memory=args.low_memory)
        service = Service(
            loaded,
            Engine(args.queue),
            created=int(os.stat(args.file).st_mtime),
            aliases=frozenset(args.alias),
        )
        if not is_loopback(args.host):
            print_notice(f"{args.host} is reachable by others, and there is no authentication.")
        line = f"serving {printable(loaded.name)} at {address_of(listener)}/v1 (Ctrl-C ends it)"
        # Whoever reads the line may connect at once: it comes when connections are taken.
        serve(service, listener, listening=lambda: print(line, flush=True))
    return 0


def _port(text: str) -> int:
    value = arguments.count(text)
    if value > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return value
