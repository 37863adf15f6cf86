"""Whether the LIS project would import a checkpoint, and the status of each tensor if not."""

from __future__ import annotations

import os
from pathlib import Path

from dmexp.errors import DmexpError

from ._source import TensorEntry
from .hf_config import read_config
from .lis_config import LlamaConfig, parse_llama_config
from .safetensors import LisReport, LisTensor, SafetensorsFile, lis_scope

OK = "OK"
_HEAD = "lm_head.weight"


def lis_checkpoint(path: str | os.PathLike[str]) -> LisReport:
    """Say what LIS gives for a directory with ``config.json`` and ``model.safetensors``.

    Each step is taken where the one before it succeeded: the file's header (`lis_scope`), the
    config, the mapping of tensors to roles. Statuses are LIS's, without their prefix.

    Parameters
    ----------
    path
        A directory, or what stands for one; LIS judges other paths as `lis_scope` says.

    Raises
    ------
    OSError
        ``config.json`` or ``model.safetensors`` cannot be read; LIS gives ``IO``.
    """
    report = lis_scope(path)
    if report.status != OK or not os.path.isdir(path):
        return report
    folder = Path(path)
    try:
        config = parse_llama_config(
            read_config(folder / "config.json").parsed, True, path=str(folder / "config.json")
        )
        with SafetensorsFile(folder / "model.safetensors") as file:
            entries = file.entries()
    except DmexpError as error:
        return LisReport(str(path), error.code, error.message, (), True, error.code)
    tensors = map_tensors(config, entries)
    bad = next((tensor for tensor in tensors if tensor.status != OK), None)
    status, reason = (OK, "") if bad is None else (bad.status, f"{bad.name}: {bad.reason}")
    return LisReport(str(path), status, reason, tuple(tensors), True, report.stricter)


def map_tensors(config: LlamaConfig, entries: list[TensorEntry]) -> list[LisTensor]:
    """The status that LIS gives each tensor, and ``FORMAT`` for each that it misses.

    LIS looks at the dtype, then at the rank, then at the dims. A head that is there clears the
    tie, whatever the config says.
    """
    table = lis_table(config)
    found = {entry.name for entry in entries}
    if config.tie_word_embeddings and _HEAD not in found:
        del table[_HEAD]
    result = [_judge(entry, table.get(entry.name), config.weight_dtype) for entry in entries]
    result += [
        LisTensor(name, "FORMAT", "the tensor is missing") for name in table if name not in found
    ]
    return result


def _judge(entry: TensorEntry, expected: tuple[int, ...] | None, dtype: str) -> LisTensor:
    if expected is None:
        return LisTensor(entry.name, "FORMAT", "no role has this name")
    if entry.dtype != dtype:
        return LisTensor(
            entry.name, "UNSUPPORTED_DTYPE", f"{entry.dtype}, and the config says {dtype}"
        )
    if len(entry.dims) != len(expected):
        return LisTensor(
            entry.name, "UNSUPPORTED_SHAPE", f"rank {len(entry.dims)}, expected {len(expected)}"
        )
    if entry.dims != expected:
        return LisTensor(
            entry.name, "SHAPE_MISMATCH", f"{list(entry.dims)}, expected {list(expected)}"
        )
    return LisTensor(entry.name, OK)


def lis_table(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that LIS has a role for, with its dims. It knows no bias and no fused one."""
    hidden, inner = config.hidden_size, config.intermediate_size
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.model_type == "qwen3":
        layer["self_attn.q_norm.weight"] = layer["self_attn.k_norm.weight"] = (config.head_dim,)
    return {
        "model.embed_tokens.weight": (config.vocab_size, hidden),
        "model.norm.weight": (hidden,),
        _HEAD: (config.vocab_size, hidden),
        **{
            f"model.layers.{index}.{name}": dims
            for index in range(config.num_hidden_layers)
            for name, dims in layer.items()
        },
    }
