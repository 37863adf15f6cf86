"""Two sets of logits for the same text: how far apart, and how sure the first is of itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

ROWS = 32
"""Positions compared at once: the f64 copies stay small whatever the vocabulary."""


@dataclass(slots=True)
class Agreement:
    """Sums over positions; the properties are what a person reads.

    Delta is the absolute difference of two logits. KL is the Kullback-Leibler divergence of the
    narrowed model's distribution from the reference's, in nats. Top-1 is the share of positions
    where both find the same token likeliest.
    """

    positions: int = 0
    values: int = 0
    max_delta: float = 0.0
    delta_sum: float = 0.0
    max_kl: float = 0.0
    kl_sum: float = 0.0
    same_top: int = 0

    def add(self, deltas: Array, kls: Doubles, same: np.ndarray[Any, Any]) -> None:
        """Count positions; ``deltas`` is f32 ``[positions, vocab]``, the others one a position."""
        self.positions += len(kls)
        self.values += deltas.size
        self.max_delta = max(self.max_delta, float(deltas.max()))
        self.delta_sum += float(deltas.sum(dtype=np.float64))
        self.max_kl = max(self.max_kl, float(kls.max()))
        self.kl_sum += float(kls.sum())
        self.same_top += int(same.sum())

    @property
    def mean_delta(self) -> float:
        return self.delta_sum / self.values

    @property
    def mean_kl(self) -> float:
        return self.kl_sum / self.positions

    @property
    def top1(self) -> float:
        return self.same_top / self.positions

    def as_dict(self) -> dict[str, Any]:
        return {
            "positions": self.positions,
            "max_abs_delta": self.max_delta,
            "mean_abs_delta": self.mean_delta,
            "max_kl": self.max_kl,
            "mean_kl": self.mean_kl,
            "top1": self.top1,
        }


@dataclass(slots=True)
class Peakedness:
    """How sure the reference is. Near-ties are decided by any rounding."""

    top_probabilities: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)

    def add(self, logits: Array) -> None:
        """Look at f32 ``[positions, vocab]``."""
        for start in range(0, len(logits), ROWS):
            logs = log_softmax(logits[start : start + ROWS])
            probabilities = np.exp(logs)
            top = np.partition(logs, -2, axis=-1)[:, -2:]
            self.top_probabilities += np.exp(top[:, 1]).tolist()
            self.entropies += (-(probabilities * logs).sum(axis=-1)).tolist()
            self.margins += (top[:, 1] - top[:, 0]).tolist()

    def share_below(self, margin: float) -> float:
        """The share of positions whose two likeliest tokens are closer than ``margin``."""
        return sum(each < margin for each in self.margins) / len(self.margins)

    def as_dict(self) -> dict[str, Any]:
        return {
            "mean_top_probability": math.fsum(self.top_probabilities) / len(self.margins),
            "median_top_probability": float(np.median(self.top_probabilities)),
            "mean_entropy_nats": math.fsum(self.entropies) / len(self.margins),
            "median_margin": float(np.median(self.margins)),
            "smallest_margin": min(self.margins),
        }


def log_softmax(logits: Array) -> Doubles:
    """Natural logarithms of the probabilities, in f64: f32 would drown small divergences."""
    logs = logits.astype(np.float64)
    logs -= logs.max(axis=-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
    return logs


def compare_window(reference: Array, other: Array, last: Agreement, every: Agreement) -> Doubles:
    """Add one window's logits, ``[positions, vocab]``, and return KL by position."""
    found = []
    for start in range(0, len(reference), ROWS):
        ours, theirs = reference[start : start + ROWS], other[start : start + ROWS]
        deltas = np.abs(ours - theirs)
        logs = log_softmax(ours)
        kls = (np.exp(logs) * (logs - log_softmax(theirs))).sum(axis=-1)
        # Rounding can take the sum of a tiny divergence just below what it cannot be.
        kls = np.maximum(kls, 0.0)
        same = ours.argmax(axis=-1) == theirs.argmax(axis=-1)
        every.add(deltas, kls, same)
        found.append(kls)
    last.add(deltas[-1:], kls[-1:], same[-1:])
    return np.concatenate(found)
