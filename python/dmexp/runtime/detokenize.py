"""Token ids become text piece by piece, as they come: whole characters, up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from .tokenizer import Tokenizer

CONTEXT_TOKENS = 6
"""Tokens of the prompt that are decoded along: some tokenizers write a space only between tokens."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Turns pushed ids into text, whose pieces join to what decoding all of them gives.

    A character may span tokens. What ends in a cut one is held back until it is whole or
    `finish` says that nothing follows.
    """

    __slots__ = ("_ids", "_shown", "_start", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._ids = list(prompt[-CONTEXT_TOKENS:])
        # ids[start:shown] is context, decoded again with what follows; its text is out already.
        self._start = 0
        self._shown = len(self._ids)

    def push(self, token: int) -> str:
        """The text that is complete now; often empty."""
        self._ids.append(token)
        text = self._new_text()
        return "" if text.endswith(REPLACEMENT) else self._emit(text)

    def finish(self) -> str:
        """What was held back, with U+FFFD for what stays cut."""
        return self._emit(self._new_text())

    def _new_text(self) -> str:
        before = self._tokenizer.decode(self._ids[self._start : self._shown])
        return self._tokenizer.decode(self._ids[self._start :])[len(before) :]

    def _emit(self, text: str) -> str:
        if text:
            self._start, self._shown = self._shown, len(self._ids)
        return text


class StopFilter:
    """Cuts a stream of text before the first of several stop strings, also across pieces."""

    __slots__ = ("_held", "_stops", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that no stop string can reach any more; sets ``stopped`` when one is whole."""
        self._held += text
        # The one that is whole first wins, so that the cut does not depend on the pieces.
        found = [
            (place + len(stop), place)
            for stop in self._stops
            if (place := self._held.find(stop)) >= 0
        ]
        if found:
            self.stopped = True
            shown, self._held = self._held[: min(found)[1]], ""
            return shown
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def finish(self) -> str:
        """What was held back."""
        shown, self._held = self._held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of ``text`` may be the start of ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
