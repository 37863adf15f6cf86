"""TOML text as the format's first writer prints it, byte for byte.

The first writer is Rust's ``toml`` 0.8. Its choices are part of the format where a file has to be
byte-identical, and ours everywhere else, so that one emitter serves both.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

_EXACT = Context(prec=800)
"""Digits enough for any f64 to the last."""

_SHORT_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    "\\": "\\\\",
}


def float_text(value: float) -> str:
    """An f32 widened to f64, in shortest digits, with a point and never an exponent."""
    wide = float(np.float32(value))
    shortest = Decimal(repr(wide))
    # Where the value lies halfway between two texts of that length, Python prints the even one
    # and the first writer the larger one.
    larger = Decimal(wide).quantize(shortest, ROUND_HALF_UP, _EXACT)
    text = format(larger if float(larger) == wide else shortest, "f")
    return text if "." in text else f"{text}.0"


def string_text(text: str) -> str:
    """A string in the form that needs the fewest escapes, in the first writer's order.

    One line: ``"…"``, then ``'…'``, then the triple forms. More lines: ``\"""``, a line feed, the
    text; with a backslash or three double quotes inside, ``'''``. Control characters force
    escapes, in whichever double-quoted form fits.
    """
    if text.isprintable() and '"' not in text and "\\" not in text:
        # Names are like this, and there may be many.
        return f'"{text}"'
    control = any((c < " " and c not in "\t\n") or c == "\x7f" for c in text)
    escape = "\\" in text
    newline = "\n" in text
    start = "\n" if newline else ""
    doubles, singles = _longest_run(text, '"'), _longest_run(text, "'")
    if not (control or escape or doubles or newline):
        return f'"{_escaped(text, multiline=False)}"'
    if not (control or singles or newline):
        return f"'{text}'"
    if not (control or escape or doubles > 2):
        return f'"""{start}{_escaped(text, multiline=True)}"""'
    if not (control or singles > 2):
        return f"'''{start}{text}'''"
    if newline:
        return f'"""{start}{_escaped(text, multiline=True)}"""'
    return f'"{_escaped(text, multiline=False)}"'


def _longest_run(text: str, quote: str) -> int:
    if quote not in text:
        return 0
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == quote else 0
        longest = max(longest, run)
    return longest


def _escaped(text: str, *, multiline: bool) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    allowed_quotes = 2 if multiline else 0
    out: list[str] = []
    quotes = 0
    for letter in text:
        quotes = quotes + 1 if letter == '"' else 0
        if quotes > allowed_quotes:
            out.append('\\"')
            quotes = 0
        elif letter == "\n" and multiline:
            out.append(letter)
        elif letter in _SHORT_ESCAPES:
            out.append(_SHORT_ESCAPES[letter])
        elif letter < " " or letter == "\x7f":
            out.append(f"\\u{ord(letter):04X}")
        else:
            out.append(letter)
    return "".join(out)
