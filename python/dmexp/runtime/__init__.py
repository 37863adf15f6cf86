"""A reference runtime: dense decoder-only language models in NumPy, in f32.

It exists to explain weights: what a file says when it runs, and what narrowing changed. It is
small and readable and no inference engine: one sequence at a time, no quantized kernels, no GPU.

`open_model` opens an export through the one load path that checks everything; `Generation`
continues a prompt. Families: Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma 2 and Gemma 3 (text). A
config that asks for anything else is refused by name.

>>> from dmexp.runtime import Generation, Options, open_model, prompt_ids
"""

from __future__ import annotations

from .generate import Generation, Options, Result, prompt_ids
from .loading import Loaded, open_model
from .model import Cache, Model
from .sampling import Sampling

__all__ = [
    "Cache",
    "Generation",
    "Loaded",
    "Model",
    "Options",
    "Result",
    "Sampling",
    "open_model",
    "prompt_ids",
]
