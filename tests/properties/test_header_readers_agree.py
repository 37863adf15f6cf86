"""Two readers of headers, one answer: a quick one that knows our words, and a TOML parser."""

from __future__ import annotations

import pytest

from header_fuzz_util import compare


def test_both_readers_agree_on_headers_as_written_and_on_mutated_ones() -> None:
    ways = compare(seed=1, count=8000)
    # Every way is taken often, so agreement means something.
    assert ways["quick, as written"] > 600
    assert ways["quick, mutated"] > 400
    assert ways["general reads"] > 2 * ways["quick, as written"]
    assert ways["general refuses"] > 3000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_both_readers_agree_on_many_more(seed: int) -> None:
    assert compare(seed, 100_000)["quick, mutated"] > 5000
