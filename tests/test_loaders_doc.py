"""``docs/loaders.md`` names every departure from LIS, and its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmexp._kinds import Kind
from dmexp.loaders.safetensors._header import LARGEST_HEADER_BYTES, WIDTH_BYTES
from safetensors_util import tensor, write
from test_lis_scope import ROWS

TEXT = re.sub(r"\s+", " ", (Path(__file__).parents[1] / "docs" / "loaders.md").read_text("utf-8"))

DEPARTURES = [
    condition for condition, (_, status, ours) in ROWS.items() if (status == "OK") != (ours is None)
]


@pytest.mark.parametrize("condition", DEPARTURES)
def test_every_departure_from_lis_is_named(condition: str) -> None:
    assert condition in TEXT


def test_every_dtype_and_limit_is_named() -> None:
    for dtype in WIDTH_BYTES:
        assert re.search(rf"\b{dtype}\b", TEXT), dtype
    assert f"{LARGEST_HEADER_BYTES:,}" in TEXT


def test_every_family_of_kinds_is_named() -> None:
    for kind in Kind:
        name = kind.value.split("-")[0]
        assert re.search(rf"\b{name}\b", TEXT, re.IGNORECASE), kind


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "loaders.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    write(Path("model.safetensors"), {"a": tensor()}, bytes(24))
    scope: dict[str, object] = {}
    exec(code, scope)
    assert scope["report"].inside  # type: ignore[attr-defined]
