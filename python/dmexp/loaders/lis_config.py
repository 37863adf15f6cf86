"""The Llama config as one record, by the rules of the LIS project or by wider ones.

In the strict scope each field is asked for in LIS's order and each fault has LIS's status as its
code. Outside it, both spellings of a field are read, scaled rotary embeddings are carried, and
limits that belong to LIS's runtime are not applied. Values come from a real parser, never from a
search of the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dmexp.errors import (
    FormatError,
    InvalidArgumentError,
    LimitExceededError,
    SizeOverflowError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedFormatError,
)
from dmexp.families import find
from dmexp.families._config import shown

from .hf_keys import WEIGHT_DTYPES, check_rope, weight_dtype

MOST_EOS_IDS = 16
MOST_PARAMETERS = 10_000_000_000
LONGEST_MODEL_TYPE = 31
_U64 = 2**64


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """What a Llama or a dense Qwen 3 needs to be run. Counts are elements, not bytes."""

    model_type: str
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float
    weight_dtype: str
    """``"f32"``, ``"f16"`` or ``"bf16"``."""
    max_position_embeddings: int
    tie_word_embeddings: bool
    eos_token_ids: tuple[int, ...] = ()
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of a scaled rotary embedding; empty for the plain one."""

    @property
    def num_params(self) -> int:
        """Scalars that the tensor table of this config holds."""
        queries = self.num_attention_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        layer = self.hidden_size * (2 * queries + 2 * keys + 3 * self.intermediate_size + 2)
        if self.model_type == "qwen3":
            layer += 2 * self.head_dim
        embeddings = 1 if self.tie_word_embeddings else 2
        table = self.vocab_size * self.hidden_size
        return embeddings * table + self.hidden_size + self.num_hidden_layers * layer


def parse_llama_config(
    values: Mapping[str, Any],
    strict_lis: bool = False,
    *,
    context: int | None = None,
    path: str | None = None,
) -> LlamaConfig:
    """Read a Llama config.

    Parameters
    ----------
    values
        Parsed JSON or TOML.
    strict_lis
        Apply LIS's rules to the letter: one spelling of each field, no scaled rotary embedding,
        nothing beyond what its runtime takes. A dense Qwen 3 is read by LIS too.
    context
        Positions that the caller wants, compared with ``max_position_embeddings``.

    Raises
    ------
    FormatError, SizeOverflowError
        A field that is required and absent, mistyped, or beyond 64 bits.
    UnsupportedFormatError, UnsupportedError, UnsupportedDtypeError
        Another kind of model; a rotary embedding or a dtype that is not read.
    InvalidArgumentError, LimitExceededError
        Values that cannot belong together, or that are beyond a limit.
    """
    fields = _Fields(values, strict_lis, path)
    kind = fields.model_type()
    if kind == "qwen3":
        _check_qwen3(fields)
    scaling = fields.rope_scaling()
    layers, hidden, intermediate, heads = (
        fields.count(key)
        for key in ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
    )
    needed = kind == "qwen3"
    kv_heads = fields.count("num_key_value_heads", None if needed else heads)
    if not needed and not fields.has("head_dim") and (heads == 0 or hidden % heads):
        raise FormatError(
            f'the config has no "head_dim", and hidden_size {hidden} is no multiple of '
            f"num_attention_heads {heads}.",
            path=path,
            key="head_dim",
        )
    config = LlamaConfig(
        model_type=kind,
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=fields.count("head_dim", None if needed else hidden // max(heads, 1)),
        vocab_size=fields.count("vocab_size"),
        rope_theta=fields.rope_theta(),
        rms_norm_eps=fields.number("rms_norm_eps", None if needed else 1e-5),
        weight_dtype=fields.dtype(kind),
        max_position_embeddings=fields.count("max_position_embeddings"),
        tie_word_embeddings=fields.flag("tie_word_embeddings", False),
        eos_token_ids=fields.eos(),
        rope_scaling=scaling,
    )
    _check_values(config, strict_lis, context, path)
    return config


def _check_qwen3(fields: _Fields) -> None:
    """The variants of Qwen 3 that LIS reads: one architecture, no bias, no window, SiLU."""
    architectures = fields.raw("architectures")
    if architectures != ["Qwen3ForCausalLM"]:
        raise UnsupportedFormatError(
            f'"architectures" of the config is {shown(architectures)}, '
            'expected ["Qwen3ForCausalLM"].',
            path=fields.path,
            kind=None,
            command=None,
        )
    for key, wanted in (
        ("attention_bias", False),
        ("use_sliding_window", False),
        ("hidden_act", "silu"),
    ):
        found = fields.raw(key)
        if type(found) is not type(wanted) or found != wanted:
            raise UnsupportedError(
                f'"{key}" of the config is {shown(found)}, expected {wanted!r}.',
                path=fields.path,
                found=found,
                expected=wanted,
            )


def _check_values(config: LlamaConfig, strict: bool, context: int | None, path: str | None) -> None:
    def positive(name: str) -> None:
        value = getattr(config, name)
        if value <= 0:
            raise _invalid(f'"{name}" is {value}, expected more than 0', path)

    for name in (
        "num_hidden_layers",
        "hidden_size",
        "intermediate_size",
        "vocab_size",
        "rope_theta",
        "rms_norm_eps",
        "max_position_embeddings",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
    ):
        positive(name)
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if heads % kv_heads:
        raise _invalid(
            f'"num_attention_heads" {heads} is no multiple of "num_key_value_heads" {kv_heads}',
            path,
        )
    if strict and config.model_type != "qwen3" and heads * config.head_dim != config.hidden_size:
        raise _invalid(
            f"{heads} heads of {config.head_dim} make {heads * config.head_dim}, and "
            f'"hidden_size" is {config.hidden_size}',
            path,
        )
    for token in config.eos_token_ids:
        if token >= config.vocab_size:
            raise _beyond(
                f'"eos_token_id" {token} is not in a vocabulary of {config.vocab_size}',
                config.vocab_size - 1,
                token,
                path,
            )
    if context is not None and context > config.max_position_embeddings:
        raise _beyond(
            f"{context} positions are asked for, the model was trained with "
            f"{config.max_position_embeddings}",
            config.max_position_embeddings,
            context,
            path,
        )
    if strict and config.num_params > MOST_PARAMETERS:
        raise _beyond(
            f"the config describes {config.num_params} parameters, LIS reads at most "
            f"{MOST_PARAMETERS}",
            MOST_PARAMETERS,
            config.num_params,
            path,
        )


def _invalid(what: str, path: str | None) -> InvalidArgumentError:
    return InvalidArgumentError(f"{what} in the config.", path=path, argument="config")


def _beyond(what: str, limit: int, found: int, path: str | None) -> LimitExceededError:
    return LimitExceededError(f"{what}.", path=path, limit=limit, found=found)


class _Fields:
    """The fields of one config, each with its rule."""

    def __init__(self, values: Mapping[str, Any], strict: bool, path: str | None) -> None:
        self._values = values
        self._strict = strict
        self.path = path

    def raw(self, key: str) -> Any:
        return self._values.get(key)

    def has(self, key: str) -> bool:
        # LIS does not take null for an absent field; everyone else does.
        return key in self._values if self._strict else self._values.get(key) is not None

    def model_type(self) -> str:
        kind = self._need("model_type")
        if not isinstance(kind, str) or len(kind.encode()) > LONGEST_MODEL_TYPE:
            raise self._mistyped("model_type", f"a string of at most {LONGEST_MODEL_TYPE} bytes")
        known = ("llama", "llama3", "qwen3") if self._strict else ("llama", "llama3")
        if kind not in known:
            raise UnsupportedFormatError(
                f'"model_type" of the config is {shown(kind)}, expected one of {", ".join(known)}.',
                path=self.path,
                kind=None,
                command=None,
            )
        return kind

    def rope_scaling(self) -> Mapping[str, Any]:
        if self._strict:
            if self.raw("rope_scaling") is not None:
                raise self._unsupported("rope_scaling")
            if self.has("rope_type") and self.raw("rope_type") != "default":
                raise self._unsupported("rope_type")
            return {}
        check_rope(self._values, find({"model_type": "llama"}), self.path)
        for key in ("rope_parameters", "rope_scaling"):
            table = self.raw(key)
            if isinstance(table, Mapping) and (
                table.get("rope_type", table.get("type", "default")) != "default"
            ):
                return table
        return {}

    def rope_theta(self) -> float:
        if self._strict or self.has("rope_theta"):
            return self.number("rope_theta", None)
        # `rope_scaling` has checked that one of these is there.
        for key in ("rope_parameters", "rope_scaling"):
            table = self.raw(key)
            if isinstance(table, Mapping) and table.get("rope_theta") is not None:
                return float(table["rope_theta"])
        return self.number("rotary_emb_base", None)

    def dtype(self, kind: str) -> str:
        if not self._strict:
            name = weight_dtype(self._values, self.path)
            if name is None:
                raise self._absent("torch_dtype")
            return name
        stated = self._need("torch_dtype")
        if not isinstance(stated, str):
            raise self._mistyped("torch_dtype", "a string")
        name = WEIGHT_DTYPES.get(stated)
        if name is None or name == "f64" or (kind == "qwen3" and name != "bf16"):
            raise UnsupportedDtypeError(
                f'"torch_dtype" of the config is {shown(stated)}.',
                path=self.path,
                dtype=stated,
                known=["bfloat16"] if kind == "qwen3" else ["float32", "float16", "bfloat16"],
            )
        return name

    def count(self, key: str, default: int | None = None) -> int:
        if default is not None and not self.has(key):
            return default
        return self._unsigned(key, self._need(key))

    def number(self, key: str, default: float | None) -> float:
        if default is not None and not self.has(key):
            return default
        value = self._need(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            raise self._mistyped(key, "a number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.raw(key)
        if not isinstance(value, bool):
            raise self._mistyped(key, "true or false")
        return value

    def eos(self) -> tuple[int, ...]:
        if not self.has("eos_token_id"):
            return ()
        value = self.raw("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if not ids:
            raise self._mistyped("eos_token_id", "an id or a list of ids")
        if self._strict and len(ids) > MOST_EOS_IDS:
            raise _beyond(
                f'"eos_token_id" has {len(ids)} ids, LIS takes at most {MOST_EOS_IDS}',
                MOST_EOS_IDS,
                len(ids),
                self.path,
            )
        return tuple(self._unsigned("eos_token_id", token) for token in ids)

    def _unsigned(self, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self._mistyped(key, "an integer of at least 0")
        if value >= _U64:
            raise SizeOverflowError(
                f'"{key}" of the config is {shown(value)}, beyond 64 bits.', path=self.path
            )
        return value

    def _need(self, key: str) -> Any:
        if not self.has(key):
            raise self._absent(key)
        return self._values[key]

    def _absent(self, key: str) -> FormatError:
        return FormatError(
            f'the config lacks "{key}", which has no default: add it with the value that the '
            "model was trained with.",
            path=self.path,
            key=key,
        )

    def _mistyped(self, key: str, expected: str) -> FormatError:
        return FormatError(
            f'"{key}" of the config is {shown(self.raw(key))}, expected {expected}.',
            path=self.path,
            key=key,
        )

    def _unsupported(self, key: str) -> UnsupportedError:
        return UnsupportedError(
            f'"{key}" of the config is {shown(self.raw(key))}: LIS reads plain rotary embeddings only.',
            path=self.path,
            found=self.raw(key),
            expected=None,
        )
