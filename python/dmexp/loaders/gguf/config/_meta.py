"""What a config is made from: the metadata of one architecture, and the tensors of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import numpy as np

from dmexp.errors import FormatError

from .._arrays import SkippedArray

_BLOCK = re.compile(r"(?:(?:enc|dec)\.)?blk\.(0|[1-9]\d*)\.(.+)\Z")

LARGEST_COUNT = 2**40
LAYER_LIMIT = 65_536

Values = dict[str, Any]


class Meta:
    """Typed access to ``<architecture>.<key>`` and to the names and dims of the tensors.

    Parameters
    ----------
    architecture
        As spelled in the file; it is the prefix of the keys.
    metadata
        The header's.
    tensors
        Dims in checkpoint order, by the file's own names, over all parts.
    read
        Gives one tensor as an array. Asked only for small generated ones, such as rotary
        factors, whose content belongs into the config. None where only the header is there.

    Attributes
    ----------
    notices : list of str
        What could not be taken from the file, in sentences.
    """

    def __init__(
        self,
        architecture: str,
        metadata: Mapping[str, Any],
        tensors: Mapping[str, tuple[int, ...]],
        read: Callable[[str], np.ndarray[Any, Any]] | None = None,
    ) -> None:
        self.architecture = architecture
        self.metadata = metadata
        self.tensors = tensors
        self.read = read
        self.notices: list[str] = []
        self._suffixes: dict[str, set[int]] = {}
        for name in tensors:
            if match := _BLOCK.match(name):
                for suffix in _parts(match[2]):
                    self._suffixes.setdefault(suffix, set()).add(int(match[1]))

    # --- tensors -------------------------------------------------------------------------

    def has(self, suffix: str) -> bool:
        """Whether any block holds a tensor of this name, by itself or as a part of another."""
        return suffix in self._suffixes

    def blocks_with(self, suffix: str) -> frozenset[int]:
        """The blocks that hold a tensor of this name, by itself or as a part of another."""
        return frozenset(self._suffixes.get(suffix, ()))

    def block_dims(self, suffix: str) -> tuple[int, ...] | None:
        """Dims of that tensor in the first block that has it by itself."""
        found = (
            self.tensors.get(f"blk.{block}.{suffix}")
            for block in sorted(self._suffixes.get(suffix, ()))
        )
        return next((dims for dims in found if dims is not None), None)

    @property
    def feed_forward(self) -> int:
        """The width of the MLP, off its tensors: several exporters state four times the hidden
        size, whatever the model has."""
        dims = self.block_dims("ffn_down.weight")
        return dims[-1] if dims else self.count("feed_forward_length")

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding: no tensor of its own in any part."""
        return "output.weight" not in self.tensors

    @property
    def vocab(self) -> int:
        """Rows of the embedding. The metadata's count may be the tokenizer's, which is smaller."""
        dims = self.tensors.get("token_embd.weight")
        return dims[0] if dims else self.count("vocab_size")

    # --- metadata ------------------------------------------------------------------------

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def raw(self, name: str) -> Any:
        value = self.metadata.get(self.key(name))
        return value.values() if isinstance(value, SkippedArray) else value

    def count(self, name: str, default: int | None = None, *, zero: bool = False) -> int:
        """A positive integer. Of a list, one value for each layer, the largest."""
        value = self.raw(name)
        if isinstance(value, list) and value and all(_is_count(item) for item in value):
            value = max(value)
        if value is None:
            if default is None:
                raise self.missing(name)
            return default
        if not _is_count(value) or (value == 0 and not zero):
            raise self.wrong(name, value, "a positive integer")
        return value

    def counts(self, name: str, layers: int, default: int | None = None) -> list[int]:
        """One integer for each layer, from a list or from one number for all."""
        value = self.raw(name)
        if value is None and default is not None:
            value = default
        if isinstance(value, list):
            if len(value) < layers or not all(_is_count(item) for item in value):
                raise self.wrong(name, value, f"{layers} integers, one for each layer")
            return value[:layers]
        if not _is_count(value):
            raise self.missing(name) if value is None else self.wrong(name, value, "an integer")
        return [value] * layers

    def number(self, name: str, default: float | None = None) -> float:
        """A float in the shortest digits that give the stored f32."""
        value = self.raw(name)
        if value is None:
            if default is None:
                raise self.missing(name)
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong(name, value, "a number")
        return shortest(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, value, "a bool")
        return value

    def flags(self, name: str) -> list[bool] | None:
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, bool) for item in value):
            raise self.wrong(name, value, "a list of bools")
        return value

    def text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "a string")
        return value

    def present(self, name: str) -> bool:
        return self.key(name) in self.metadata

    def token(self, name: str) -> int | None:
        """A special token's id, where the tokenizer block has one."""
        value = self.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return value if _is_count(value) else None

    @property
    def layers(self) -> int:
        """Blocks of the model proper, without those that predict further tokens."""
        blocks = self.count("block_count")
        extra = self.predicting
        if extra >= blocks:
            raise self.wrong("nextn_predict_layers", extra, f"less than block_count, {blocks}")
        if blocks > LAYER_LIMIT:
            raise self.wrong("block_count", blocks, f"at most {LAYER_LIMIT}")
        return blocks - extra

    @property
    def predicting(self) -> int:
        """Blocks at the end that predict further tokens."""
        return self.count("nextn_predict_layers", 0, zero=True)

    @property
    def heads(self) -> int:
        return self.count("attention.head_count")

    @property
    def kv_heads(self) -> int:
        count = self.count("attention.head_count_kv", self.heads, zero=True)
        if count:
            return count
        # An exporter that takes every layer for a recurrent one writes 0; the tensors tell.
        keys = self.block_dims("attn_k.weight")
        if keys is None or keys[0] % self.head_dim:
            raise self.wrong("attention.head_count_kv", count, "a positive integer")
        return keys[0] // self.head_dim

    @property
    def head_dim(self) -> int:
        """The stated width of a head, or else the rows of q over the heads.

        The hidden size over the heads is what readers take where nothing is stated, and some
        exporters state nothing whatever the model has.
        """
        stated = self.count("attention.key_length", 0, zero=True)
        if stated:
            return stated
        rows = (self.block_dims("attn_q.weight") or (self.count("embedding_length"),))[0]
        heads = self.heads
        return rows // heads if rows % heads == 0 else self.count("embedding_length") // heads

    def missing(self, name: str) -> FormatError:
        return FormatError(
            f"key {self.key(name)!r} is missing, and the config of a {self.architecture} model "
            "cannot be written without it. Name a config file instead (--config).",
            key=self.key(name),
        )

    def wrong(self, name: str, value: object, expected: str) -> FormatError:
        text = repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        return FormatError(
            f"key {self.key(name)!r} is {shown}, expected {expected}.", key=self.key(name)
        )


def _parts(suffix: str) -> tuple[str, ...]:
    """A suffix, and what ``--fuse-qkv`` joined under it."""
    stem, _, kind = suffix.partition(".")
    return (suffix, *(f"attn_{part}.{kind}" for part in "qkv")) if stem == "attn_qkv" else (suffix,)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_COUNT


def shortest(value: float) -> float:
    """The f64 with the fewest digits that rounds to this f32: 1e-06, not 9.999999974752427e-07.

    What the exporter read from the original config had few digits; f32 has blurred them.
    """
    return float(str(np.float32(value)))
