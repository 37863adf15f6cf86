"""Values outside their domain are refused, with tensor, index, value and domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from contracts_util import F32, metadata_of, pair
from dmexp import contracts
from dmexp.contracts._domain import NEGATIVE_DECAY
from dmexp.errors import ContractError, DomainError

DECAYS = [
    ("mamba", "blk.0.ssm_a", (4, 2), {}),
    ("jamba", "blk.0.ssm_a", (4, 2), {}),
    ("mamba2", "blk.0.ssm_a", (4, 1), {}),
    ("nemotron_h", "blk.0.ssm_a", (4, 1), {}),
    ("granitehybrid", "blk.0.ssm_a", (4, 1), {}),
    ("plamo2", "blk.0.ssm_a", (4,), {}),
    ("qwen3next", "blk.0.ssm_a", (4,), {}),
    ("qwen35", "blk.0.ssm_a", (4,), {"ssm__group_count": 2, "ssm__time_step_rank": 4}),
    ("qwen35moe", "blk.0.ssm_a", (4,), {"ssm__group_count": 4, "ssm__time_step_rank": 4}),
    ("kimi-linear", "blk.0.ssm_a", (1, 1, 4, 1), {}),
    ("glm5-next", "blk.0.ssm_a", (4,), {}),
]


def _output(architecture: str, name: str, dims: tuple[int, ...], **keys: int) -> contracts.Output:
    made = contracts.plan(architecture, metadata_of(architecture, **keys), {name: dims})
    (output,) = made.outputs
    return output


@pytest.mark.parametrize(("architecture", "name", "dims", "keys"), DECAYS)
@pytest.mark.parametrize("value", [0.25, 1e-30, np.inf, -np.inf, np.nan, 0.0, -0.0])
def test_a_decay_that_is_none_is_refused(
    architecture: str, name: str, dims: tuple[int, ...], keys: dict[str, int], value: float
) -> None:
    output = _output(architecture, name, dims, **keys)
    stored = np.full(dims, -1.5, np.float32)
    index = np.unravel_index(2, dims)
    stored[index] = value
    with pytest.raises(DomainError, match="finite and strictly negative") as caught:
        output.build({name: stored})
    error = caught.value
    assert error.tensor == name
    assert error.index == index
    assert error.value == pytest.approx(value, nan_ok=True)
    assert error.domain == NEGATIVE_DECAY.prose
    assert error.transform == output.transform
    assert error.architecture == architecture
    assert error.count == 1


@pytest.mark.parametrize(
    "path",
    [p for p in F32 if p.parent.name in ("mamba", "qwen35", "qwen3next", "nemotron_h")],
    ids=lambda p: p.parent.name,
)
def test_a_file_that_holds_a_log_is_refused(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    output = next(one for one in made.outputs if one.name.endswith("A_log"))
    raw = file.checkpoint[output.name].reshape(file.dims[output.inputs[0]])
    with pytest.raises(DomainError, match="apply exp twice"):
        output.build({output.inputs[0]: raw})


@pytest.mark.parametrize(
    "path", [p for p in F32 if p.parent.name in ("mamba", "qwen35")], ids=lambda p: p.parent.name
)
def test_undoing_a_step_twice_is_refused(path: Path) -> None:
    file = pair(path)
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    output = next(one for one in made.outputs if one.name.endswith("A_log"))
    name = output.inputs[0]
    once = output.build(file.stored)
    with pytest.raises(DomainError):
        output.build({name: once.reshape(file.dims[name])})


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (-0.0, r"-0\.0 is -exp\(A_log\) that underflowed: A_log was below about -104"),
        # The first entry of every row of a fresh Mamba's A_log is log(1).
        (0.0, r"0\.0 is no -exp\(A_log\).* A_log itself"),
        (-np.inf, r"-inf is -exp\(A_log\) that overflowed: A_log was above 88.72"),
        (np.inf, "hold A_log itself"),
        (np.nan, "NaN is no decay"),
        (0.5, "hold A_log itself"),
    ],
)
def test_the_message_says_what_the_value_is_likely_to_be(value: float, hint: str) -> None:
    output = _output("mamba", "blk.0.ssm_a", (2, 2))
    with pytest.raises(DomainError, match=hint):
        output.build({"blk.0.ssm_a": np.array([[-1, value], [-1, -1]], np.float32)})


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (0.0, r"either exp\(A_log\) that underflowed .*, or A_log itself"),
        (np.inf, r"inf is exp\(A_log\) that overflowed: A_log was above 88.72"),
        (-0.0, r"-0\.0 is no exp\(A_log\)"),
        (-np.inf, "hold A_log itself"),
    ],
)
def test_hints_know_with_which_sign_a_decay_is_stored(value: float, hint: str) -> None:
    output = _output("bailingmoe3", "blk.0.ssm_a", (2, 1))
    with pytest.raises(DomainError, match=hint):
        output.build({"blk.0.ssm_a": np.array([[1], [value]], np.float32)})


def test_the_first_value_outside_is_named_and_all_are_counted() -> None:
    output = _output("mamba", "blk.0.ssm_a", (2, 3))
    stored = np.array([[-1, -1, 0.5], [0.25, -1, 0.75]], np.float32)
    with pytest.raises(DomainError, match=r"0\.5 at \[0, 2\]") as caught:
        output.build({"blk.0.ssm_a": stored})
    assert caught.value.count == 3


def test_one_family_stores_the_decay_with_the_other_sign() -> None:
    name, log = "blk.0.ssm_a", np.array([-1.0, 0.0, 2.5], np.float32)
    output = _output("bailingmoe3", name, (3, 1))
    assert output.transform == "invert-exp-decay"
    assert np.abs(output.build({name: np.exp(log)[:, np.newaxis]}) - log).max() < 2e-6
    with pytest.raises(DomainError, match="finite and strictly positive"):
        output.build({name: -np.exp(log)[:, np.newaxis]})


def test_the_whole_range_of_f32_is_taken_back() -> None:
    # exp overflows above 88.72; from -87.3 down its result is subnormal and loses digits.
    log = np.linspace(-86, 88, 40_000, dtype=np.float32)
    output = _output("mamba", "blk.0.ssm_a", (200, 200))
    built = output.build({"blk.0.ssm_a": -np.exp(log)}).reshape(-1)
    assert np.abs(built - log).max() < 1e-5
    near = np.abs(log) < 8
    assert np.abs(built - log)[near].max() < 1e-6


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_gains_have_to_be_finite(value: float) -> None:
    output = _output("gemma", "output_norm.weight", (3,))
    with pytest.raises(DomainError, match="gain-minus-one"):
        output.build({"output_norm.weight": np.array([1, value, 1], np.float32)})


def test_gains_of_any_size_pass() -> None:
    # Real files hold gains from -132 to 1657: no range tells an offset gain from a plain one.
    output = _output("gemma3", "output_norm.weight", (4,))
    stored = np.array([-132, 0, 1, 1657], np.float32)
    assert output.build({"output_norm.weight": stored}).tolist() == [-133, -1, 0, 1656]


GENERATED = [
    ("llama", "rope_freqs.weight", [1, 1, 2.5, 8], [1, 0.5, 8, 8]),
    ("llama", "rope_freqs.weight", [1, 1, 1, 32], [1, 1, np.inf, 8]),
    ("gemma4", "rope_freqs.weight", [1, 1, 1e30, 1e30], [1, 2, 1e30, 1e30]),
    ("phi3", "rope_factors_long.weight", [1, 1.5, 3, 64], [1, 0, 3, 64]),
    ("muse-glimmer", "blk.0.attn_q_norm.weight", [2, 2, 2, 2], [2, 2, 1, 2]),
]


@pytest.mark.parametrize(("architecture", "name", "good", "bad"), GENERATED)
def test_generated_tensors_are_checked_before_they_are_dropped(
    architecture: str, name: str, good: list[float], bad: list[float]
) -> None:
    made = contracts.plan(architecture, metadata_of(architecture), {name: (4,)})
    assert made.outputs == ()
    assert made.dropped[0].external == name
    made.check_dropped(name, np.array(good, np.float32))
    with pytest.raises(DomainError) as caught:
        made.check_dropped(name, np.array(bad, np.float32))
    assert caught.value.tensor == name


def test_layer_0_of_rwkv7_has_copies_and_no_other_layer_has() -> None:
    tensors = {"blk.0.time_mix_v1.weight": (2, 3), "blk.1.time_mix_v1.weight": (2, 3)}
    made = contracts.plan("rwkv7", metadata_of("rwkv7"), tensors)
    assert [one.external for one in made.dropped] == ["blk.0.time_mix_v1.weight"]
    assert [one.name for one in made.outputs] == ["model.layers.1.attn.v_lora.lora.0.weight"]


def test_an_adapter_in_front_has_to_be_empty() -> None:
    name = "blk.0.attn_v.lora_a"
    output = _output("graniteswitch", name, (3, 2, 2))
    with pytest.raises(ContractError, match="adapter 0 is not all zero"):
        output.build({name: np.ones((3, 2, 2), np.float32)})


def test_a_signalling_nan_is_refused_without_a_warning() -> None:
    output = _output("mamba", "blk.0.ssm_a", (1, 1))
    stored = np.array([[0x7FA00001]], np.uint32).view(np.float32)
    with pytest.raises(DomainError):
        output.build({"blk.0.ssm_a": stored})
