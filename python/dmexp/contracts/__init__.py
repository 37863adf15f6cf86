"""What the numbers of a foreign file mean, as declared and tested claims.

`plan` turns the tensor list of a file into canonical tensors; every step that is not a plain
rename is a `Contract`.
"""

from __future__ import annotations

from ._plan import Dropped, Output, Plan, plan

__all__ = ["Dropped", "Output", "Plan", "plan"]
