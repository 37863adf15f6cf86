"""Every declared architecture, by the canonical spelling of its name."""

from __future__ import annotations

from .._declare import Architecture
from . import dense, encoders, experts, gemma, gpt, granite, latent, llama, qwen, recurrent, rwkv

__all__ = ["ARCHITECTURES"]

_GROUPS = (dense, encoders, experts, gemma, gpt, granite, latent, llama, qwen, recurrent, rwkv)

ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture
    for architecture in sorted(
        (one for group in _GROUPS for one in group.ARCHITECTURES), key=lambda one: one.name
    )
}
