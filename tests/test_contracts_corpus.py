"""Every file that the exporter wrote gives back the checkpoint that it was made from."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from contracts_util import F32, FILES, MORE, label, pair
from dmexp import contracts
from dmexp.contracts import Output
from dmexp.contracts._evidence import PROVEN
from dmexp.contracts._names import pattern_of

# The largest error that the file type itself leaves, over this corpus.
BOUNDS = {"f32": 0.0, "bf16": 0.0, "f16": 2.5e-4, "q8_0": 3.4e-3}


def _tolerance(architecture: str, output: Output, file_type: str) -> float:
    """0 means bit for bit."""
    contract = contracts.get(architecture, output.inputs[0]) if output.transform else None
    return max(0.0 if contract is None else contract.tolerance, BOUNDS[file_type])


def test_the_corpus_is_all_here() -> None:
    assert len(FILES) == 25
    assert len({path.parent for path in FILES}) == 21


@pytest.mark.parametrize("path", FILES, ids=label)
def test_every_checkpoint_tensor_is_rebuilt(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    wrong = []
    for output in made.outputs:
        built, wanted = output.build(file.stored), file.checkpoint[output.name]
        assert built.shape == wanted.shape == output.dims, output.name
        tolerance = _tolerance(file.architecture, output, path.name.split(".")[-2])
        if tolerance == 0:
            same = built.tobytes() == wanted.tobytes()
        else:
            same = float(np.abs(built - wanted).max()) <= tolerance
        if not same:
            wrong.append((output.name, output.transform))
    assert wrong == []


@pytest.mark.parametrize("path", FILES, ids=label)
def test_nothing_is_left_over_on_either_side(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    used = {name for output in made.outputs for name in output.inputs}
    used |= {one.external for one in made.dropped}
    assert used == set(file.dims)
    missing = set(file.checkpoint) - {output.name for output in made.outputs}
    losses = [one.canonical for one in contracts.lost(file.architecture)]
    assert [name for name in missing if not any(fnmatch(name, one) for one in losses)] == []
    expected = {"bert": {"pooler.dense.bias", "pooler.dense.weight"}}
    assert missing == expected.get(path.parent.name, set())


@pytest.mark.parametrize("path", FILES, ids=label)
def test_generated_tensors_hold_what_the_exporter_generates(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    for external, reason in made.dropped:
        assert reason
        made.check_dropped(external, file.stored[external])
    expected = {"llama-tied-rope3", "gemma4"}
    assert bool(made.dropped) == (path.parent.name in expected)


def test_exactly_the_corpus_is_marked_verified() -> None:
    seen: dict[str, set[str]] = {}
    for path in FILES + MORE:
        file = pair(path)
        seen.setdefault(file.architecture, set()).update(pattern_of(one)[0] for one in file.dims)
    assert {name: set(patterns) for name, patterns in PROVEN.items()} == seen


@pytest.mark.parametrize("path", F32, ids=label)
def test_files_of_the_corpus_are_verified_throughout(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    assert made.status == "verified"
    assert {output.status for output in made.outputs} == {"verified"}


def test_a_name_that_no_file_proves_is_marked_read() -> None:
    file = pair(F32[[path.parent.name for path in F32].index("llama-gqa")])
    dims = {**file.dims, "blk.0.attn_q.bias": (64,)}
    made = contracts.plan("llama", file.metadata, dims)
    by_name = {output.name: output for output in made.outputs}
    assert by_name["model.layers.0.self_attn.q_proj.bias"].status == "read"
    assert by_name["model.layers.0.self_attn.q_proj.weight"].status == "verified"
    assert made.status == "read"


@pytest.mark.parametrize(
    ("architecture", "proven"),
    [("qwen35", "qkv-value-rows-deinterleave"), ("qwen3next", "pack-qkvz")],
)
def test_a_second_meaning_of_a_proven_name_is_marked_read(architecture: str, proven: str) -> None:
    found = {
        contract.transform: contract.status
        for contract in contracts.list(architecture=architecture)
        if "blk.{i}.attn_qkv.weight" in contract.external
    }
    # No file of the corpus was written with attention fused.
    assert found == {proven: "verified", "split-qkv": "read"}


@pytest.mark.parametrize("path", F32, ids=label)
def test_leaving_a_step_out_shows_on_every_checkpoint_that_has_it(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    for output in made.outputs:
        if not output.transform or len(output.inputs) != 1:
            continue
        stored, wanted = file.stored[output.inputs[0]], file.checkpoint[output.name]
        if stored.shape == wanted.shape:
            assert float(np.abs(stored - wanted).max()) > 0.1, output.name
        else:
            assert output.transform != "", output.name


def test_the_files_of_one_model_give_the_same_tensors() -> None:
    by_folder: dict[Path, list[dict[str, str]]] = {}
    for path in FILES:
        file = pair(path)
        made = contracts.plan(file.architecture, file.metadata, file.dims)
        names = {output.name: output.transform for output in made.outputs}
        by_folder.setdefault(path.parent, []).append(names)
    for many in by_folder.values():
        assert all(one == many[0] for one in many)


def test_a_plain_rename_is_a_view() -> None:
    file = pair(next(path for path in F32 if path.parent.name == "llama-gqa"))
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    for output in made.outputs:
        if not output.transform:
            assert np.shares_memory(output.build(file.stored), file.stored[output.inputs[0]])


def test_experts_are_views_of_their_stack() -> None:
    file = pair(next(path for path in F32 if path.parent.name == "mixtral"))
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    stacked = [output for output in made.outputs if output.transform == "split-stack"]
    assert len(stacked) == 24
    for output in stacked:
        assert np.shares_memory(output.build(file.stored), file.stored[output.inputs[0]])


def test_what_is_built_is_contiguous() -> None:
    for path in F32:
        file = pair(path)
        made = contracts.plan(file.architecture, file.metadata, file.dims)
        assert all(output.build(file.stored).flags.c_contiguous for output in made.outputs)
