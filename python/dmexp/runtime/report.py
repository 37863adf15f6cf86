"""What a divergence measurement found, as objects and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .compare import Agreement, Peakedness


@dataclass(frozen=True, slots=True)
class Continuation:
    """A greedy continuation against the reference's."""

    start: int
    """The token of the text at which the window begins."""
    tokens: int
    first_difference: int | None
    """The first new token that differs; None where all are the same."""
    margin: float | None
    """How far apart the reference's two likeliest logits were there."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "tokens": self.tokens,
            "identical": self.first_difference is None,
            "first_difference": self.first_difference,
            "margin": self.margin,
        }


@dataclass(slots=True)
class Row:
    """One dtype. ``refused`` says why there is no file; the measurements are empty then."""

    dtype: str
    refused: str | None = None
    num_params: int = 0
    file_bytes: int = 0
    ratio: float = 0.0
    """Bytes of weights in the source over bytes of the file."""
    max_abs: float = 0.0
    min_nonzero_abs: float = 0.0
    flushed: int = 0
    subnormal: int = 0
    last: Agreement = field(default_factory=Agreement)
    every: Agreement = field(default_factory=Agreement)
    greedy: list[Continuation] = field(default_factory=list)
    kl_by_position: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        if self.refused is not None:
            return {"dtype": self.dtype, "refused": self.refused}
        return {
            "dtype": self.dtype,
            "refused": None,
            "file_bytes": self.file_bytes,
            "ratio": self.ratio,
            "max_abs": self.max_abs,
            "min_nonzero_abs": self.min_nonzero_abs,
            "flushed": self.flushed,
            "subnormal": self.subnormal,
            "last": self.last.as_dict(),
            "every": self.every.as_dict(),
            "greedy": [each.as_dict() for each in self.greedy],
        }


@dataclass(slots=True)
class DivergenceReport:
    """The answer for one model and one text."""

    source: str
    kind: str
    source_bytes: int
    model_type: str
    num_params: int
    text: str
    text_tokens: int
    window_tokens: int
    starts: list[int]
    peakedness: Peakedness
    rows: list[Row]
    notices: list[str]
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": {
                "path": self.source,
                "kind": self.kind,
                "weight_bytes": self.source_bytes,
                "model_type": self.model_type,
                "num_params": self.num_params,
            },
            "eval": {
                "path": self.text,
                "tokens": self.text_tokens,
                "windows": len(self.starts),
                "window_tokens": self.window_tokens,
                "starts": self.starts,
            },
            "reference": self.peakedness.as_dict(),
            "dtypes": [row.as_dict() for row in self.rows],
            "notices": self.notices,
            "seconds": round(self.seconds, 1),
        }
