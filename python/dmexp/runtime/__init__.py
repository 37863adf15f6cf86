"""A reference runtime: dense decoder-only language models in NumPy, in f32.

It exists to explain weights: what a file says when it runs, and what narrowing changed. It is
small and readable and no inference engine: one sequence at a time, no quantized kernels, no GPU.

`load` opens an export through the one load path that checks everything; `generate` continues a
prompt. Families: Llama, Mistral, Qwen2, Qwen3, Gemma, Gemma 2 and Gemma 3 (text). A config that
asks for anything else is refused by name.
"""
