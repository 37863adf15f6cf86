"""The model that exports are compared with: its logits along the windows, its greedy text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compare import Peakedness
from .model import Cache, Model

Array = np.ndarray[Any, np.dtype[np.float32]]

KEPT_BYTES = 1 << 30
"""Logits that are kept for the next dtype; what does not fit is computed again."""


@dataclass(frozen=True, slots=True)
class Continued:
    """What the reference wrote after a window, and how sure it was of each token."""

    start: int
    prompt: Sequence[int]
    tokens: list[int]
    margins: list[float]


class Reference:
    """A model and the windows of a text.

    Parameters
    ----------
    windows, starts
        Token ids of each window, and the token of the text at which it begins.
    """

    def __init__(self, model: Model, windows: list[list[int]], starts: list[int]) -> None:
        self.model = model
        self.windows = windows
        self.starts = starts
        self.peakedness = Peakedness()
        self._seen: set[int] = set()
        self._kept: dict[int, Array] = {}
        self._room = KEPT_BYTES

    def logits(self, index: int) -> Array:
        """f32 ``[positions, vocab]`` along a window. Its peakedness is noted the first time."""
        if index in self._kept:
            return self._kept[index]
        logits = self.model.logits(self.windows[index], every=True)
        if index not in self._seen:
            self._seen.add(index)
            self.peakedness.add(logits)
        if logits.nbytes <= self._room:
            self._room -= logits.nbytes
            self._kept[index] = logits
        return logits

    def continued(self, index: int, new: int) -> Continued:
        """``new`` greedy tokens after a window."""
        room = self.model.config.max_positions - new
        # A window as long as the model's memory leaves no room: its beginning goes.
        prompt = self.windows[index][-room:]
        return Continued(self.starts[index], prompt, *greedy(self.model, prompt, new))


def greedy(model: Model, prompt: Sequence[int], count: int) -> tuple[list[int], list[float]]:
    """``count`` likeliest tokens one after another, and how far the second was behind each."""
    cache = Cache(model.config)
    logits = model.logits(prompt, cache)
    tokens: list[int] = []
    margins: list[float] = []
    while True:
        tokens.append(int(logits.argmax()))
        second, first = np.partition(logits, -2)[-2:].tolist()
        margins.append(first - second)
        if len(tokens) == count:
            return tokens, margins
        logits = model.logits(tokens[-1:], cache)
