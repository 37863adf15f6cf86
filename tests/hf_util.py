"""Build small Hugging Face directories, whole or broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import load_file

from families_util import CORPUS
from safetensors_util import pack

INDEX = "model.safetensors.index.json"
Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 32,
    "rope_theta": 10000.0,
    "torch_dtype": "float32",
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}

_NAMES = {
    np.dtype(np.float64): "F64",
    np.dtype(np.float32): "F32",
    np.dtype(np.float16): "F16",
    np.dtype(ml_dtypes.bfloat16): "BF16",
    np.dtype(np.int64): "I64",
    np.dtype(np.int32): "I32",
    np.dtype(np.uint8): "U8",
    np.dtype(np.bool_): "BOOL",
    np.dtype(ml_dtypes.float8_e4m3fn): "F8_E4M3",
}


def llama(dtype: Any = np.float32, seed: int = 3) -> Arrays:
    """The tensors of `LLAMA`, every value different."""
    shapes = {
        "lm_head.weight": (32, 16),
        "model.embed_tokens.weight": (32, 16),
        "model.layers.0.input_layernorm.weight": (16,),
        "model.layers.0.mlp.down_proj.weight": (16, 24),
        "model.layers.0.mlp.gate_proj.weight": (24, 16),
        "model.layers.0.mlp.up_proj.weight": (24, 16),
        "model.layers.0.post_attention_layernorm.weight": (16,),
        "model.layers.0.self_attn.k_proj.weight": (8, 16),
        "model.layers.0.self_attn.o_proj.weight": (16, 16),
        "model.layers.0.self_attn.q_proj.weight": (16, 16),
        "model.layers.0.self_attn.v_proj.weight": (8, 16),
        "model.norm.weight": (16,),
    }
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def safetensors_bytes(arrays: Arrays) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": array.shape,
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    return pack(header, b"".join(array.tobytes() for array in arrays.values()))


def write_config(folder: Path, config: Any) -> None:
    text = config if isinstance(config, str) else json.dumps(config, indent=2)
    (folder / "config.json").write_text(text, "utf-8")


def single(folder: Path, arrays: Arrays | None = None, config: Any = LLAMA) -> Path:
    """A directory with ``config.json`` and ``model.safetensors``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, config)
    data = safetensors_bytes(llama() if arrays is None else arrays)
    (folder / "model.safetensors").write_bytes(data)
    return folder


def shard_names(count: int) -> list[str]:
    return [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]


def sharded(
    folder: Path, arrays: Arrays | None = None, config: Any = LLAMA, count: int = 3
) -> Path:
    """A directory with an index; tensors go round the shards in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, config)
    parts: list[Arrays] = [{} for _ in range(count)]
    weight_map = {}
    for at, (name, array) in enumerate((llama() if arrays is None else arrays).items()):
        parts[at % count][name] = array
        weight_map[name] = shard_names(count)[at % count]
    for shard, part in zip(shard_names(count), parts, strict=True):
        (folder / shard).write_bytes(safetensors_bytes(part))
    write_index(folder, weight_map)
    return folder


def write_index(folder: Path, weight_map: Any) -> None:
    data = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / INDEX).write_text(json.dumps(data, indent=2), "utf-8")


def read_index(folder: Path) -> dict[str, str]:
    weight_map: dict[str, str] = json.loads((folder / INDEX).read_text("utf-8"))["weight_map"]
    return weight_map


def corpus(name: str) -> Path:
    return CORPUS / "gguf" / name


def corpus_arrays(name: str) -> Arrays:
    """Every tensor of a checkpoint of the corpus, read by the reference reader."""
    arrays: Arrays = load_file(corpus(name) / "model.safetensors")
    return arrays


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
