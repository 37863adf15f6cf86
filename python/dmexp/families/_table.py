"""The table of names and dims that a family builds from a config."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ._check import Dims
from ._config import Config, Undescribed

Block = Mapping[str, Dims]
"""Names relative to some prefix, with their dims."""


class Table:
    """Names and dims, required or optional, bounded by the file that they are compared with.

    Parameters
    ----------
    found
        What the file holds. A family may ask whether names of some spelling are there; dims
        never come from here.
    """

    def __init__(self, found: Mapping[str, Dims]) -> None:
        self.found = found
        self.expected: dict[str, Dims] = {}
        self.optional: set[str] = set()
        self.groups: list[frozenset[str]] = []
        # A config that calls for far more than the file holds is wrong whatever the rest says,
        # and the table must not grow by a number from a header.
        self._limit = 4 * len(found) + 4096

    def add(self, block: Block, prefix: str = "") -> None:
        """Tensors that must be there."""
        self._put(block, prefix)

    def allow(self, block: Block, prefix: str = "") -> None:
        """Tensors that may be there, each on its own: derived buffers, tied copies."""
        self._put(block, prefix)
        self.optional.update(prefix + name for name in block)

    def allow_whole(self, block: Block, prefix: str = "") -> None:
        """Tensors that are all there or all absent: a pooler, a prediction head."""
        self.allow(block, prefix)
        self.groups.append(frozenset(prefix + name for name in block))

    def layers(self, prefix: str, blocks: Iterable[Block]) -> None:
        """One block for each layer, under ``prefix`` + index + ``.``."""
        for index, block in enumerate(blocks):
            self._put(block, f"{prefix}{index}.")

    def prefix(self, *choices: str, probes: tuple[str, ...]) -> str:
        """The one of ``choices`` under which the file has names that begin with a probe.

        The same model is saved with and without the name of its wrapper. Earlier probes count
        for more; without any match it is the first choice.
        """
        for probe in probes:
            for choice in choices:
                if self.has(choice + probe):
                    return choice
        return choices[0]

    def has(self, start: str) -> bool:
        """Whether a name of the file begins with ``start``."""
        return any(name.startswith(start) for name in self.found)

    def ends(self, end: str) -> bool:
        """Whether a name of the file ends with ``end``."""
        return any(name.endswith(end) for name in self.found)

    def bound(self, more: int) -> None:
        """Refuse a config that calls for ``more`` tensors on top where that is absurd."""
        if len(self.expected) + more > self._limit:
            raise Undescribed(
                f"the config calls for more than {self._limit} tensors, "
                f"the file has {len(self.found)}"
            )

    def _put(self, block: Block, prefix: str) -> None:
        self.bound(len(block))
        for name, dims in block.items():
            self.expected[prefix + name] = dims


@dataclass(frozen=True, slots=True)
class Family:
    """One model family: how its config becomes a table.

    Attributes
    ----------
    name
        For messages and verdicts.
    build
        Fills the table from the config.
    tied
        What an absent ``tie_word_embeddings`` means, or None for a model without an output head.
    embedding, head
        Names, without the wrapper's prefix, of the input embedding and of the output head.
    rope
        Whether the config must name the base of its rotary embedding.
    text_defaults
        For families that come with and without towers for other senses: what the language
        model's own config class gives to keys that the nested table ``text_config`` leaves out.
    """

    name: str
    build: Callable[[Config, Table], None]
    tied: bool | None = False
    embedding: str = "embed_tokens.weight"
    head: str = "lm_head.weight"
    rope: bool = False
    text_defaults: Mapping[str, Any] | None = None

    def language(self, values: Mapping[str, Any]) -> Config:
        """The config of the language model: the nested table where there is one."""
        config = Config(values)
        if self.text_defaults is None or not config.has("text_config"):
            return config
        return config.nested("text_config", self.text_defaults)

    def is_tied(self, values: Mapping[str, Any]) -> bool | None:
        """Whether the head is the embedding; None where the family has no head."""
        if self.tied is None:
            return None
        return self.language(values).flag("tie_word_embeddings", default=self.tied)
