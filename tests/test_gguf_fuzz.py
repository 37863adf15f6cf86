"""Replay what fuzzing found, and fuzz a little. ``tests/fuzz`` does it for as long as one likes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fuzz.mutation import MUTATORS, mutate
from fuzz.runner import BYTES_ANYWAY, run_one
from fuzz.seeds import Seed, gguf_seeds, safetensors_seeds
from fuzz.targets import Disagreement, check_gguf, check_safetensors

CORPUS = Path(__file__).parent / "fuzz" / "corpus"
TARGETS = {"gguf": check_gguf, "safetensors": check_safetensors}
SEEDS = {"gguf": gguf_seeds, "safetensors": safetensors_seeds}
EXAMPLES = sorted(CORPUS.glob("*/*.bin"))


def outcome_of(path: Path) -> str:
    """The code in an example's name; finds, now mended, may end in any."""
    return path.stem.rpartition("-")[0].partition(".")[0]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_examples_end_as_their_names_say(path: Path) -> None:
    outcome = run_one(TARGETS[path.parent.name], path)
    assert outcome_of(path) in ("find", outcome.partition(".")[0])


@pytest.mark.parametrize("name", TARGETS)
def test_there_are_examples_of_many_outcomes(name: str) -> None:
    outcomes = {outcome_of(path) for path in EXAMPLES if path.parent.name == name}
    assert {"FORMAT", "UNSUPPORTED_DTYPE", "UNSUPPORTED_SHAPE"} <= outcomes


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_a_good_file(tmp_path: Path, name: str) -> None:
    for seed in SEEDS[name]():
        path = tmp_path / "input"
        path.write_bytes(seed.data)
        assert run_one(TARGETS[name], path) == "opened"


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    rng = random.Random(20_260_101)
    seeds = SEEDS[name]()
    path = tmp_path / "input"
    outcomes = set()
    for _ in range(150):
        seed = rng.choice(seeds)
        path.write_bytes(mutate(seed.data, rng, seed.header_bytes))
        outcomes.add(run_one(TARGETS[name], path).partition(".")[0])
    assert {"opened", "FORMAT"} <= outcomes


def test_mutation_is_reproducible_and_changes_something() -> None:
    seed = Seed(bytes(range(256)), 128)
    first = [mutate(seed.data, random.Random(i), seed.header_bytes) for i in range(50)]
    again = [mutate(seed.data, random.Random(i), seed.header_bytes) for i in range(50)]
    assert first == again
    assert sum(data != seed.data for data in first) > 45
    for mutator in MUTATORS:
        data = bytearray(seed.data)
        mutator(data, random.Random(1), 128)
        assert data != seed.data or mutator.__name__ == "_move"


def test_the_memory_limit_can_be_exceeded(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"x")

    def greedy(_: Path) -> str:
        return str(len(bytearray(BYTES_ANYWAY + 1000)))

    with pytest.raises(AssertionError, match="bytes of memory for a file of 1"):
        run_one(greedy, path)


def test_readers_that_disagree_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fuzz.targets as module

    path = tmp_path / "input"
    path.write_bytes(gguf_seeds()[0].data)
    honest = module.read_header

    def shifted(where: Path, **arguments: bool) -> object:
        header = honest(where, **arguments)
        object.__setattr__(header, "tensors", header.tensors[::-1])
        return header

    monkeypatch.setattr(module, "read_header", shifted)
    with pytest.raises(Disagreement, match="tensors:"):
        check_gguf(path)
