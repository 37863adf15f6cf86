"""What every loader gives: an ordered list of tensors, one array at a time, and the config.

A loader never narrows, never guesses and never holds more than one tensor that it had to build.
`dmexp._export` turns any source into a file; `dmexp.cli` prints what the source says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of a source, known from its header alone.

    ``dtype`` is the source's own in canonical lower case: ``f64 f32 f16 bf16`` can be exported;
    anything else (``i64``, ``bool``, ``f8_e4m3`` …) can be listed and has to be excluded.
    """

    name: str
    dims: tuple[int, ...]
    dtype: str


@dataclass(slots=True)
class SourceInfo:
    """What a source says of itself, ready for a header."""

    path: Path
    kind: str
    """For people: ``"safetensors file"``, ``"Hugging Face directory"``, ``"GGUF file"`` …"""
    config: str = ""
    """The model's configuration as TOML text; empty where there is none."""
    config_origin: str | None = None
    """Where the config came from, for messages."""
    label: str = ""
    """What the header's ``source`` says unless the user says otherwise."""
    step: int = 0
    weight_bytes: int = 0
    """Bytes of the source on disk that hold weights, for the ratio at the end."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """What must travel in the header's metadata (tied heads, transforms undone, …)."""
    notices: list[str] = field(default_factory=list)
    """Sentences for stderr: extra files ignored, sidecars left behind, …"""


class Source(Protocol):
    """An open checkpoint of any kind."""

    info: SourceInfo

    def entries(self) -> Sequence[TensorEntry]:
        """All tensors in export order. Reads headers only."""
        ...

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """One tensor, zero-copy where the file allows it. The caller does not write to it."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user may say about how a source is read. Each loader takes what concerns it and
    refuses, by name, what contradicts what it found."""

    config: Path | None = None
    """A config file named on the command line (TOML or config.json)."""
    allow_mixed: bool = False
    tokenizer: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


NO_OPTIONS = SourceOptions()
"""What a loader assumes where nothing is said."""
