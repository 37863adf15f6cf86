"""Narrowing with all counts, in memory: S1 to S5."""

from __future__ import annotations

from typing import Any

import data
import ml_dtypes
import numpy as np
import peers
import pytest
from board import Board
from race import Race

import dmexp

M = 1 << 20
VALUES = {"1M_values_4MiB": M, "16M_values_64MiB": 16 * M, "256M_values_1GiB": 256 * M}
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype("f2")}

# Section, dtype, size: times torch's copy_, times NumPy with the same counts.
GIVEN = {
    ("S1", "bf16", "1M_values_4MiB"): (1.15, 15.0),
    ("S1", "bf16", "16M_values_64MiB"): (1.1, 9.0),
    ("S1", "bf16", "256M_values_1GiB"): (1.0, 12.0),
    ("S2", "f16", "1M_values_4MiB"): (0.95, None),
    ("S2", "f16", "16M_values_64MiB"): (1.05, None),
    ("S2", "f16", "256M_values_1GiB"): (1.0, None),
}


def loops_for(count: int) -> int:
    return max(1, 16 * M // count)


def check(source: Any, out: Any, dtype: str) -> None:
    """The first and last values are ml_dtypes' and NumPy's, bit for bit."""
    for part in (slice(0, 4096), slice(-4096, None)):
        expected = source[part].astype(DTYPES[dtype])
        assert out[part].view("u2").tolist() == expected.view("u2").tolist()


@pytest.mark.parametrize(("section", "dtype", "size"), GIVEN)
def test_given_output(
    race: Race, board: Board, scale: int, section: str, dtype: str, size: str
) -> None:
    count = max(4096, VALUES[size] // scale)
    against_torch, against_numpy = GIVEN[section, dtype, size]
    source = data.normal(count)
    out = np.empty(count, DTYPES[dtype])
    _, stats = dmexp.narrow_with_stats(source, dtype, out=out)
    check(source, out, dtype)
    counted = peers.Counted(count, dtype)
    found = counted(source)
    assert (found["flushed"], found["subnormal"]) == (stats.flushed, stats.subnormal)
    assert counted.out.view("u2").tolist()[:4096] == out.view("u2").tolist()[:4096]

    looking = peers.Counted(count, dtype, looks_first=True)
    assert looking(source)["flushed"] == stats.flushed
    candidates: dict[str, Any] = {
        "numpy_counted": lambda: counted(source),
        "numpy_looking": lambda: looking(source),
    }
    if dtype == "f16":
        numpy_out = np.empty(count, "f2")
        candidates["numpy_astype"] = lambda: np.copyto(numpy_out, source, casting="unsafe")
    # Reads and writes as many bytes as narrowing: nothing that is in memory goes much faster.
    copied, copy = np.empty(count * 3 // 4, "f4"), np.empty(count * 3 // 4, "f4")
    np.copyto(copied, source[: copied.size])
    candidates["copy"] = lambda: np.copyto(copy, copied)
    if peers.torch is not None:
        peers.torch.set_num_threads(1)
        tensor = peers.torch_of(source)
        torch_out = peers.torch.empty(count, dtype=peers.torch_dtype(dtype))
        torch_out.copy_(tensor)
        candidates["torch"] = lambda: torch_out.copy_(tensor)
    times = race(
        lambda: dmexp.narrow_with_stats(source, dtype, out=out),
        loops=loops_for(count),
        **candidates,
    )
    name = size.replace("_", " ")
    if peers.torch is None:
        board.missing(section, f"{dtype}, {name}", "no torch")
    else:
        board.at_least(
            section,
            f"{dtype}, {name}",
            times.speedup("torch"),
            against_torch,
            peer="torch copy_ (counts nothing), 1 thread",
        )
    board.at_least(
        section,
        f"{dtype}, {name}",
        times.speedup("numpy_counted"),
        against_numpy,
        peer="hand-tuned NumPy, same counts",
    )
    board.at_least(
        section,
        f"{dtype}, {name}",
        times.speedup("numpy_looking"),
        None,
        peer="the same, counts left out where the extremes allow it",
    )
    board.at_least(
        section,
        f"{dtype}, {name}",
        times.speedup("copy"),
        None,
        peer="NumPy copying as many bytes as are read and written",
    )
    if dtype == "f16":
        board.at_least(
            section,
            f"{dtype}, {name}",
            times.speedup("numpy_astype"),
            25.0,
            peer="NumPy astype (counts nothing)",
        )


def test_f16_of_values_below_1e_5(race: Race, board: Board, scale: int) -> None:
    count = max(4096, M // scale)
    source = data.below(count, 1e-5)
    out, numpy_out = np.empty(count, "f2"), np.empty(count, "f2")
    dmexp.narrow_with_stats(source, "f16", out=out)
    check(source, out, "f16")
    times = race(
        lambda: dmexp.narrow_with_stats(source, "f16", out=out),
        loops=16,
        numpy_astype=lambda: np.copyto(numpy_out, source, casting="unsafe"),
    )
    board.at_least(
        "S2",
        "f16, 1M values 4MiB, all below 1e-5",
        times.speedup("numpy_astype"),
        70.0,
        peer="NumPy astype (counts nothing)",
    )


def test_new_result(race: Race, board: Board, scale: int) -> None:
    count = max(4096, 16 * M // scale)
    source = data.normal(count)
    check(source, dmexp.narrow_with_stats(source, "bf16")[0], "bf16")
    candidates: dict[str, Any] = {"ml_dtypes": lambda: source.astype(DTYPES["bf16"])}
    if peers.torch is not None:
        peers.torch.set_num_threads(1)
        tensor = peers.torch_of(source)
        candidates["torch"] = lambda: tensor.to(peers.torch.bfloat16)
    times = race(
        lambda: dmexp.narrow_with_stats(source, "bf16"),
        before=lambda _: data.give_back_freed_memory(),
        **candidates,
    )
    what = "bf16, 16M values 64MiB"
    if peers.torch is None:
        board.missing("S3", what, "no torch")
    else:
        board.at_least("S3", what, times.speedup("torch"), 2.2, peer="torch .to")
    board.at_least("S3", what, times.speedup("ml_dtypes"), 1.3, peer="ml_dtypes astype")


@pytest.mark.parametrize(("given", "limit"), [(False, 1.5), (True, 1.0)])
def test_small_call(race: Race, board: Board, given: bool, limit: float) -> None:
    source = data.normal(1024)
    out = np.empty(1024, DTYPES["bf16"])
    check(source, dmexp.narrow_with_stats(source, "bf16", out=out)[0], "bf16")
    if given:
        times = race(lambda: dmexp.narrow_with_stats(source, "bf16", out=out), loops=20_000)
    else:
        times = race(lambda: dmexp.narrow_with_stats(source, "bf16"), loops=20_000)
    board.at_most(
        "S4",
        f"bf16, 1,024 values 4KiB, {'given' if given else 'new'} output",
        times.median("ours") * 1e6,
        limit,
        unit="µs",
    )


AWKWARD = {
    "a zero in every block": lambda count: data.with_every(count, 1024, 0.0),
    "tiny values and zeros": data.tiny,
    "all zeros": lambda count: np.zeros(count, "f4"),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_data(race: Race, board: Board, scale: int, kind: str, dtype: str) -> None:
    count = max(4096, M // scale)
    source, ordinary = AWKWARD[kind](count), data.normal(count)
    out = np.empty(count, DTYPES[dtype])
    dmexp.narrow_with_stats(source, dtype, out=out)
    check(source, out, dtype)
    times = race(
        lambda: dmexp.narrow_with_stats(source, dtype, out=out),
        loops=16,
        ordinary=lambda: dmexp.narrow_with_stats(ordinary, dtype, out=out),
    )
    board.at_most(
        "S5", f"{dtype}, 1M values 4MiB, {kind}", times.share("ordinary"), 2.3, peer="ordinary data"
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_nan_in_every_block(race: Race, board: Board, scale: int, dtype: str) -> None:
    count = max(4096, M // scale)
    source = data.with_every(count, 1024, float("nan"))
    out = np.empty(count, DTYPES[dtype])
    _, stats = dmexp.narrow_with_stats(source, dtype, out=out)
    assert stats.nan == count // 1024
    times = race(lambda: dmexp.narrow_with_stats(source, dtype, out=out), loops=16)
    board.at_least(
        "S5",
        f"{dtype}, 1M values 4MiB, a NaN in every block",
        source.nbytes / times.median("ours") / 1e9,
        3.0,
        unit="GB/s",
    )
