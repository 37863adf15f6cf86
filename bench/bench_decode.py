"""The runtime against the matrix products it cannot do without, over the same weights.

    python bench/bench_decode.py [FILE.dmexp] [--check]

Decode: one token against every matrix times one vector. Prefill: a prompt against every matrix
times as many. Both sides run in turns in one process; figures are medians. Without FILE the
weights are random, with the dims of SmolLM2-135M (538,060,032 bytes as f32). ``--check`` exits
with 1 where the runtime reaches less than half of the products' speed.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

from dmexp.runtime import Cache, Model, open_model
from dmexp.runtime.config import read_config
from dmexp.runtime.weights import build_model, expected_tensors

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
BAR = 0.5


def load(path: str | None) -> tuple[Model, list[np.ndarray[Any, Any]]]:
    """The model, and its matrices in f32: those of the layers, then the head's."""
    if path is not None:
        import dmexp

        return open_model(path).model, matrices(dmexp.load_file(path))
    random = np.random.default_rng(0)
    tensors = {}
    for name, dims in expected_tensors(read_config(CONFIG)).items():
        values = random.standard_normal(dims, dtype=np.float32)
        if len(dims) == 2:
            values *= np.float32(dims[1] ** -0.5)
        tensors[name] = values
    return build_model(read_config(CONFIG), tensors), matrices(tensors)


def matrices(tensors: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    inner = [value for name, value in tensors.items() if ".layers." in name and value.ndim == 2]
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    return [*inner, head]


def in_turns(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each side, A B B A."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for index in range(rounds + 1):
        names = list(sides) if index % 2 else list(reversed(sides))
        for name in names:
            began = time.perf_counter()
            sides[name]()
            if index:  # the first round warms up
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}


def verify(model: Model, tokens: list[int]) -> float:
    """Token by token has to give what all at once gives; returns the largest difference."""
    cache = Cache(model.config)
    for token in tokens[:-1]:
        model.logits([token], cache)
    last = model.logits(tokens[-1:], cache)
    difference = float(np.abs(last - model.logits(tokens)).max())
    if difference > 1e-3:
        sys.exit(f"decode and prefill disagree by {difference}")
    return difference


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()

    model, weights = load(args.file)
    random = np.random.default_rng(1)
    prompt = random.integers(0, model.config.vocab_size, args.prompt).tolist()
    difference = verify(model, prompt[:16])
    vectors = {w.shape[1]: random.standard_normal(w.shape[1], dtype=np.float32) for w in weights}
    rows = {size: random.standard_normal((args.prompt, size), dtype=np.float32) for size in vectors}
    cache = Cache(model.config)
    model.remember(prompt, cache)

    def decode() -> None:
        model.logits(prompt[:1], cache)

    def matrix_vector() -> None:
        for weight in weights:
            weight @ vectors[weight.shape[1]]

    def prefill() -> None:
        model.logits(prompt)

    def matrix_matrix() -> None:
        for weight in weights[:-1]:
            rows[weight.shape[1]] @ weight.T
        weights[-1] @ vectors[weights[-1].shape[1]]

    size = sum(weight.nbytes for weight in weights)
    print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}, {date.today()}")
    print(f"{size:,} bytes of matrices; decode and prefill agree to {difference:.1e}")
    decoding = in_turns({"runtime": decode, "products": matrix_vector}, args.rounds)
    filling = in_turns({"runtime": prefill, "products": matrix_matrix}, max(3, args.rounds // 3))
    shares = []
    for name, found, count in (("decode", decoding, 1), ("prefill", filling, args.prompt)):
        share = found["products"] / found["runtime"]
        shares.append(share)
        print(
            f"{name:8} {1000 * found['runtime']:8.1f} ms  {count / found['runtime']:8.1f} tokens/s  "
            f"products alone {1000 * found['products']:8.1f} ms  share {share:.2f}"
        )
    if args.check and min(shares) < BAR:
        sys.exit(f"less than {BAR} of the products' speed")


if __name__ == "__main__":
    main()
