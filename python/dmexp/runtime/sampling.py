"""From logits to a token: temperature, top-k, top-p, and one draw from a seeded generator."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError, NonFiniteError

Logits = np.ndarray[Any, np.dtype[np.float32]]
Weights = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen.

    Parameters
    ----------
    temperature
        Logits are divided by it; 0 always takes the likeliest token.
    top_p
        Draw from the fewest likeliest tokens whose probabilities sum to this; 1 for all.
    top_k
        Draw from this many likeliest tokens; 0 for all.
    seed
        Same seed, same model, same prompt: same tokens. None draws a new one.

    Raises
    ------
    InvalidArgumentError
        A value outside its range.
    """

    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(
            math.isfinite(self.temperature) and self.temperature >= 0,
            "temperature",
            self.temperature,
            "a number of 0 or more",
        )
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0, 1 at most")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 or more")
        if self.seed is not None:
            # The generator would take the magnitude, and two seeds would mean the same.
            _require(self.seed >= 0, "seed", self.seed, "0 or more")


def _require(holds: bool, name: str, found: float, expected: str) -> None:
    if not holds:
        raise InvalidArgumentError(
            f"{name} is {found}, expected {expected}.",
            argument=name,
            found=found,
            expected=expected,
        )


class Sampler:
    """Draws tokens for one sequence.

    The generator is Python's own Mersenne Twister, whose stream is frozen: a seed means the same
    tokens with every version of NumPy and Python.
    """

    __slots__ = ("_random", "_sampling")

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._random = random.Random(sampling.seed)

    def pick(self, logits: Logits) -> int:
        """Choose a token from f32 ``[vocab]``; of equal logits the first wins.

        Raises
        ------
        NonFiniteError
            The model computed a NaN or an infinity.
        """
        best = int(logits.argmax())
        # argmax stops at a NaN, and at +inf where there is one.
        if not math.isfinite(logits[best]):
            raise NonFiniteError(
                f"the model computed {logits[best]} as the logit of token {best}: its activations "
                "leave the range of f32, so there is nothing to choose from.",
                index=(best,),
                value=float(logits[best]),
                dtype="f32",
                suggestion=None,
            )
        if self._sampling.temperature == 0:
            return best
        weights = logits.astype(np.float64)
        weights -= weights[best]
        with np.errstate(under="ignore", over="ignore"):
            weights /= self._sampling.temperature
            np.exp(weights, out=weights)
        tokens, weights = self._candidates(weights)
        ladder = np.cumsum(weights)
        # Below the last step by construction, but rounding may meet it.
        place = int(np.searchsorted(ladder, self._random.random() * ladder[-1], side="right"))
        return int(tokens[min(place, len(tokens) - 1)])

    def _candidates(self, weights: Weights) -> tuple[np.ndarray[Any, Any], Weights]:
        """Tokens to draw from, likeliest first, with weights that need not sum to 1."""
        top_k, top_p = self._sampling.top_k, self._sampling.top_p
        if top_p == 1 and not 0 < top_k < len(weights):
            return np.arange(len(weights)), weights
        tokens = np.arange(len(weights))
        if 0 < top_k < len(weights):
            # Everything as likely as the k-th stays until the sort below decides.
            floor = np.partition(weights, -top_k)[-top_k]
            tokens = np.flatnonzero(weights >= floor)
        elif top_p < 1:
            # Tokens this rare sum to less than what top-p leaves out, so they are left out: the
            # sort below is for a handful.
            floor = weights.sum() * (1 - top_p) / len(weights)
            tokens = np.flatnonzero(weights > floor)
        total = weights.sum()
        tokens = tokens[np.argsort(-weights[tokens], kind="stable")]
        if 0 < top_k < len(weights):
            tokens = tokens[:top_k]
            total = weights[tokens].sum()
        if top_p < 1:
            reached = np.searchsorted(np.cumsum(weights[tokens]), top_p * total)
            tokens = tokens[: int(reached) + 1]
        return tokens, weights[tokens]
