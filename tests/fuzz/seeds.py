"""Files to start from: small ones that go all the way through, and the headers of real ones."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gguf_util import Gguf, Tensor, f32

CORPUS = Path(__file__).parents[1] / "corpus" / "gguf"


@dataclass(frozen=True)
class Seed:
    """A file, and how much of it is header."""

    data: bytes
    header_bytes: int


def gguf_seeds() -> list[Seed]:
    """Three tiny models of our own, and the corpus' smaller files."""
    seeds = [
        _tiny("llama", "F32", _byte_level()),
        _tiny("llama", "Q8_0", _sentencepiece()),
        _tiny("qwen3", "F16", []),
    ]
    for name in ("mamba", "qwen35", "gpt_oss", "mixtral", "gemma4", "nemotron_h"):
        data = (CORPUS / name / f"{name}.f32.gguf").read_bytes()
        seeds.append(Seed(data, 8192))
    quantized = CORPUS / "qwen35" / "qwen35.q8_0.gguf"
    seeds.append(Seed(quantized.read_bytes(), 8192))
    return seeds


def _tiny(arch: str, kind: str, tokenizer: list[tuple[str, str, Any]]) -> Seed:
    metadata: list[tuple[str, str, Any]] = [
        ("general.architecture", "string", arch),
        ("general.alignment", "u32", 32),
        (f"{arch}.block_count", "u32", 1),
        (f"{arch}.context_length", "u32", 16),
        (f"{arch}.embedding_length", "u32", 32),
        (f"{arch}.feed_forward_length", "u32", 32),
        (f"{arch}.attention.head_count", "u32", 4),
        (f"{arch}.attention.head_count_kv", "u32", 2),
        (f"{arch}.attention.layer_norm_rms_epsilon", "f32", 1e-6),
        (f"{arch}.rope.freq_base", "f32", 10000.0),
        ("general.tags", "array:string", ["a", "b"]),
        *tokenizer,
    ]
    shapes = {
        "token_embd.weight": (4, 32),
        "output_norm.weight": (32,),
        "blk.0.attn_norm.weight": (32,),
        "blk.0.ffn_norm.weight": (32,),
        "blk.0.attn_q.weight": (32, 32),
        "blk.0.attn_k.weight": (16, 32),
        "blk.0.attn_v.weight": (16, 32),
        "blk.0.attn_output.weight": (32, 32),
        "blk.0.ffn_gate.weight": (32, 32),
        "blk.0.ffn_up.weight": (32, 32),
        "blk.0.ffn_down.weight": (32, 32),
    }
    if arch == "qwen3":
        shapes |= {"blk.0.attn_q_norm.weight": (8,), "blk.0.attn_k_norm.weight": (8,)}
    tensors = []
    for name, dims in shapes.items():
        values = np.linspace(-1, 1, int(np.prod(dims)), dtype=np.float32).reshape(dims)
        if kind == "F32" or len(dims) == 1:
            tensors.append(f32(name, values))
        elif kind == "F16":
            tensors.append(Tensor(name, dims, 1, values.astype("<f2").tobytes()))
        else:
            count = values.size // 32
            block = np.float16([0.5]).tobytes() + bytes(range(32))
            tensors.append(Tensor(name, dims, 8, block * count))
    if arch == "llama":
        tensors.append(f32("rope_freqs.weight", [1.0, 2.0, 8.0, 8.0]))
    file = Gguf(metadata, tensors)
    return Seed(file.to_bytes(), len(file.header()))


def _byte_level() -> list[tuple[str, str, Any]]:
    return [
        ("tokenizer.ggml.model", "string", "gpt2"),
        ("tokenizer.ggml.pre", "string", "llama-bpe"),
        ("tokenizer.ggml.tokens", "array:string", ["<s>", "a", "b", "ab"] + ["x"] * 70),
        ("tokenizer.ggml.token_type", "array:i32", [3, 1, 1, 1] + [1] * 70),
        ("tokenizer.ggml.merges", "array:string", ["a b"] * 70),
        ("tokenizer.ggml.bos_token_id", "u32", 0),
        ("tokenizer.ggml.add_bos_token", "bool", 1),
    ]


def _sentencepiece() -> list[tuple[str, str, Any]]:
    return [
        ("tokenizer.ggml.model", "string", "llama"),
        ("tokenizer.ggml.tokens", "array:string", ["<unk>", "<s>", "</s>", "a", "b", "ab"]),
        ("tokenizer.ggml.scores", "array:f32", [0.0, 0.0, 0.0, -1.0, -2.0, -3.0]),
        ("tokenizer.ggml.token_type", "array:i32", [2, 3, 3, 1, 1, 1]),
    ]


def safetensors_seeds() -> list[Seed]:
    """Small files with every part that a header can have, and two of the corpus."""
    tensors = {
        "a.weight": ("F32", [2, 3]),
        "b": ("BF16", [4]),
        "scalar": ("F16", []),
        "ids": ("I64", [2]),
        "flags": ("BOOL", [3]),
        'naïve \\ "name"': ("U8", [1]),
    }
    widths = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "BOOL": 1, "U8": 1}
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "note": "ö"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + widths[dtype] * int(np.prod(shape, dtype=int))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    seeds = [
        _safetensors(header, end),
        _safetensors({"x": header["b"] | {"data_offsets": [0, 8]}}, 8),
    ]
    for name in ("llama-gqa", "bert"):
        data = (CORPUS / name / "model.safetensors").read_bytes()
        seeds.append(Seed(data, 8 + struct.unpack_from("<Q", data)[0]))
    return seeds


def _safetensors(header: dict[str, Any], payload_bytes: int) -> Seed:
    text = json.dumps(header, ensure_ascii=False).encode()
    text = text.ljust(-(-len(text) // 8) * 8)
    head = struct.pack("<Q", len(text)) + text
    return Seed(head + bytes(payload_bytes), len(head))
