"""What `dmexp.torch` does where PyTorch is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dmexp.torch
from dmexp.errors import MissingDependencyError


def test_importing_it_does_not_import_pytorch() -> None:
    script = "import dmexp, dmexp.torch, sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("load_file", ()), ("save_file", ({},)), ("load_model", (None,))],
)
def test_without_pytorch_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, arguments: tuple[Any, ...]
) -> None:
    # None in the table of modules is how an absent one looks to an import.
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "m.dmexp"
    with pytest.raises(MissingDependencyError, match=r"pip install 'dmexp\[torch\]'") as caught:
        getattr(dmexp.torch, call)(*([path] if call == "load_file" else [*arguments, path]))
    assert (caught.value.package, caught.value.extra) == ("torch", "torch")
    assert not path.exists()


def test_its_public_names_are_sorted() -> None:
    assert dmexp.torch.__all__ == sorted(dmexp.torch.__all__)
    assert all(hasattr(dmexp.torch, name) for name in dmexp.torch.__all__)
