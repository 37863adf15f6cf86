"""`load_file` with a widened result: S11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import data
import files
import numpy as np
import peers
import pytest
import safetensors.numpy
from board import Board
from race import Race

import dmexp

WHAT = "512MiB bf16 to 1GiB f32, 200 tensors"


@pytest.mark.parametrize("threads", [1, 2])
def test_load_file(race: Race, board: Board, disk: Path, scale: int, threads: int) -> None:
    model = data.model(max(data.MIB, data.GIB // scale))
    ours, theirs = disk / "x.dmexp", disk / "x.safetensors"
    dmexp.save_file(model, ours, sync=False)
    safetensors.numpy.save_file({n: a.astype(peers.BFLOAT16) for n, a in model.items()}, theirs)

    def with_numpy() -> dict[str, Any]:
        loaded = safetensors.numpy.load_file(theirs)
        return {name: array.astype(np.float32) for name, array in loaded.items()}

    found, expected = dmexp.load_file(ours, threads=threads), with_numpy()
    assert list(found) == list(model)
    assert all(found[name].tobytes() == expected[name].tobytes() for name in found)
    del found, expected, model
    candidates: dict[str, Any] = {"numpy": with_numpy}
    if peers.torch is not None:
        from safetensors.torch import load_file

        candidates["torch"] = lambda: {name: t.float() for name, t in load_file(theirs).items()}
    with files.threads(2):
        times = race(lambda: dmexp.load_file(ours, threads=threads), supplied=True, **candidates)
    files.remove(ours)
    files.remove(theirs)
    what = f"{WHAT}, {threads} thread{'s' * (threads > 1)}"
    judged = threads == 2
    board.at_least(
        "S11",
        what,
        times.speedup("numpy"),
        2.5 if judged else None,
        peer="safetensors.numpy load_file + astype (checks nothing)",
        seconds=times.medians(),
    )
    if peers.torch is None:
        board.missing("S11", what, "no torch")
        return
    board.at_least(
        "S11",
        what,
        times.speedup("torch"),
        0.75 if judged else None,
        peer="safetensors.torch load_file + .float() on 2 threads (checks nothing)",
        seconds=times.medians(),
    )
