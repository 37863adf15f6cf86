"""Readers of the formats that checkpoints come in. `open_source` looks at content, not suffix."""
