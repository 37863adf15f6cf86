"""``dmexp generate``: continue a prompt with the model in a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _arguments as arguments
from ._text import print_json

if TYPE_CHECKING:
    from ..runtime import Generation, Loaded

_DESCRIPTION = """\
Load FILE, checking all of it, and continue the prompt. The text goes to stdout as it comes. This
is a reference runtime in NumPy, made to show what a file computes, not to be fast."""

_EPILOG = """\
examples:
  dmexp generate model.dmexp --prompt 'The capital of France is' --temperature 0
  dmexp generate model.dmexp --chat --prompt 'What is gravity?' --max-tokens 200
  dmexp generate model.dmexp --prompt - --seed 7 --json < prompt.txt
"""

# Controls would move the cursor or start an escape sequence; generated text has no use for them.
_CONTROLS = dict.fromkeys((*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)))


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``generate`` to the command line."""
    parser = commands.add_parser(
        "generate",
        help="continue a prompt with the model in a file",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="a .dmexp file")
    add(
        "--prompt",
        metavar="TEXT",
        default="",
        help="the text to continue; - reads it from stdin (default: empty)",
    )
    add(
        "--max-tokens",
        metavar="N",
        type=arguments.positive,
        default=64,
        help="new tokens at most (default: 64)",
    )
    add(
        "--temperature",
        metavar="T",
        type=_temperature,
        default=0.8,
        help="0 always takes the likeliest token; higher is more random (default: 0.8)",
    )
    add(
        "--top-p",
        metavar="P",
        type=_probability,
        default=1.0,
        help="draw from the likeliest tokens that together have this probability (default: 1)",
    )
    add(
        "--top-k",
        metavar="K",
        type=arguments.count,
        default=0,
        help="draw from this many likeliest tokens; 0 is all (default)",
    )
    add(
        "--seed",
        metavar="N",
        type=arguments.count,
        help="the same seed gives the same text (default: a new one)",
    )
    add(
        "--stop",
        metavar="TEXT",
        action="append",
        default=[],
        help="end before this text; may be repeated",
    )
    add("--ignore-eos", action="store_true", help="go on after the token that ends a text")
    add(
        "--chat",
        action="store_true",
        help="put the prompt into the tokenizer's chat template, as a user's message",
    )
    add_runtime_options(parser)
    arguments.add_json(parser)
    parser.set_defaults(parser=parser)


def add_runtime_options(parser: argparse.ArgumentParser) -> None:
    """What every command that runs a model takes."""
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        type=Path,
        help="a tokenizer.json, or its directory, in place of the file's own",
    )
    parser.add_argument(
        "--low-memory",
        action="store_true",
        help="keep bf16 and f16 weights as they are and widen them at each use: less memory, slower",
    )


def run(args: argparse.Namespace) -> int:
    """Generate; text or one JSON document on stdout."""
    if "" in args.stop:
        args.parser.error("argument --stop: an empty text would end at once")

    from ..runtime import Generation, Options, Sampling, open_model

    loaded = open_model(args.file, tokenizer=args.tokenizer, low_memory=args.low_memory)
    sampling = Sampling(args.temperature, args.top_p, args.top_k, args.seed)
    generation = Generation(
        loaded.model,
        loaded.tokenizer,
        _prompt(args, loaded),
        Options(args.max_tokens, sampling, tuple(args.stop), args.ignore_eos),
    )
    if args.json:
        for _ in generation:
            pass
        print_json(as_dict(generation))
    else:
        _stream(generation)
    return 0


def as_dict(generation: Generation) -> dict[str, Any]:
    """What ``--json`` prints."""
    result = generation.result
    return {
        "prompt_tokens": result.prompt_tokens,
        "tokens": result.tokens,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "tokens_per_second": round(result.tokens_per_second, 3),
    }


def _prompt(args: argparse.Namespace, loaded: Loaded) -> list[int]:
    from ..runtime import prompt_ids
    from ..runtime.chat import render_chat

    text = args.prompt
    if text == "-":
        # Bytes that are no UTF-8 reach a byte-level model as they are.
        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    if not args.chat:
        return prompt_ids(loaded.model, loaded.tokenizer, text)
    messages = [{"role": "user", "content": text}]
    # The template writes the special tokens itself.
    return loaded.tokenizer.encode(render_chat(loaded.tokenizer.facts, messages), special=False)


def _stream(generation: Generation) -> None:
    terminal = sys.stdout.isatty()
    for piece in generation:
        sys.stdout.write(piece.translate(_CONTROLS) if terminal else piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
    sys.stdout.flush()
    if terminal and sys.stderr.isatty():
        result = generation.result
        print(
            f"[{len(result.tokens)} tokens after {result.prompt_tokens}, "
            f"{result.tokens_per_second:.1f} a second, {result.finish_reason}]",
            file=sys.stderr,
        )


def _temperature(text: str) -> float:
    value = _number(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return value


def _probability(text: str) -> float:
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 1")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
