"""The metadata that a step reads: head counts, dims and groups, resolved for one block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ContractError

__all__ = ["Params"]

_MISSING = object()


class Params:
    """Metadata as one group of tensors sees it.

    Parameters
    ----------
    metadata
        Every key of the header.
    prefix
        What the keys of the architecture begin with, without the dot: the spelling that the
        header itself uses.
    architecture
        The canonical spelling, for messages.
    block
        The index in ``blk.N``, or None for tensors of the whole model.
    tensors
        The external names at hand, for messages.
    transform
        The id at hand, for messages.
    """

    __slots__ = ("architecture", "block", "metadata", "prefix", "tensors", "transform")

    def __init__(
        self,
        metadata: Mapping[str, Any],
        prefix: str,
        architecture: str,
        block: int | None = None,
        tensors: tuple[str, ...] = (),
        transform: str = "",
    ) -> None:
        self.metadata = metadata
        self.prefix = prefix
        self.architecture = architecture
        self.block = block
        self.tensors = tensors
        self.transform = transform

    def at(self, block: int | None, tensors: tuple[str, ...], transform: str) -> Params:
        """The same metadata, seen by another group of tensors."""
        return Params(self.metadata, self.prefix, self.architecture, block, tensors, transform)

    def fail(self, message: str) -> ContractError:
        """An error that names the tensors and the step; the caller raises it."""
        names = " + ".join(repr(name) for name in self.tensors) or "the model"
        step = f" (step {self.transform!r}, {self.architecture})" if self.transform else ""
        return ContractError(
            f"{names}: {message}{step}.",
            tensor=self.tensors[0] if self.tensors else None,
            transform=self.transform,
            architecture=self.architecture,
        )

    def found(self, key: str) -> bool:
        """Whether the header has the key, under the architecture or by itself."""
        return self.has(key) or key in self.metadata

    def has(self, key: str) -> bool:
        """Whether the header has ``<architecture>.<key>``."""
        return f"{self.prefix}.{key}" in self.metadata

    def raw(self, key: str, default: Any = None) -> Any:
        """The value of ``<architecture>.<key>`` as it is, arrays included."""
        return self.metadata.get(f"{self.prefix}.{key}", default)

    def integer(self, key: str, default: int | None = None) -> int:
        """One count for this block; arrays hold one value a block."""
        value = self.metadata.get(f"{self.prefix}.{key}", _MISSING)
        if value is _MISSING:
            if default is None:
                raise self.fail(
                    f"the header has no '{self.prefix}.{key}', without which the step cannot be undone"
                )
            return default
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            value = self._of_block(key, value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fail(f"'{self.prefix}.{key}' is {value!r}, expected a count")
        return value

    def _of_block(self, key: str, values: Sequence[Any]) -> Any:
        if self.block is None:
            raise self.fail(f"'{self.prefix}.{key}' has one value a block, expected a single one")
        if self.block >= len(values):
            raise self.fail(
                f"'{self.prefix}.{key}' has {len(values)} values, none for block {self.block}"
            )
        return values[self.block]

    def positive(self, key: str, default: int | None = None) -> int:
        """As `integer`, and above 0."""
        value = self.integer(key, default)
        if value == 0:
            raise self.fail(f"'{self.prefix}.{key}' is 0 here, expected at least 1")
        return value

    @property
    def heads(self) -> int:
        """Query heads of this block."""
        return self.positive("attention.head_count")

    @property
    def kv_heads(self) -> int:
        """Key and value heads of this block; as many as query heads where the header is silent."""
        if not self.has("attention.head_count_kv"):
            return self.heads
        return self.positive("attention.head_count_kv")

    @property
    def main_blocks(self) -> int | None:
        """Blocks before the multi-token-prediction ones, or None where the header is silent."""
        total = self.metadata.get(f"{self.prefix}.block_count")
        extra = self.metadata.get(f"{self.prefix}.nextn_predict_layers", 0)
        if not isinstance(total, int) or not isinstance(extra, int):
            return None
        if not 0 <= extra < max(total, 1):
            raise self.fail(
                f"'{self.prefix}.nextn_predict_layers' is {extra}, "
                f"of {total} in '{self.prefix}.block_count'"
            )
        return total - extra
