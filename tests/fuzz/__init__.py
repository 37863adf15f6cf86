"""Fuzzing of the readers: see ``docs/gguf.md``."""
