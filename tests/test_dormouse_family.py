"""The tensors that a dormouse config calls for."""

from __future__ import annotations

from math import prod

import pytest

from dmexp.families._check import Verdict, compare
from dmexp.families._config import Config, NotKnown, Undescribed
from dmexp.families._table import Table
from dmexp.families.dormouse import build, expected, recognises

PRESETS = {
    "small": ({}, 9_197_390, 54),
    "nano": ({"d_model": 512, "n_heads": 8, "rank": 96}, 7_192_906, 54),
    "base": (
        {"d_model": 1024, "n_heads": 16, "d_ffn": 2816, "max_iter": 8, "max_seq_len": 1024},
        13_065_810,
        54,
    ),
}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_totals_of_the_presets(preset: str) -> None:
    config, params, tensors = PRESETS[preset]
    table = expected(config)
    assert sum(prod(dims) for dims in table.values()) == params
    assert len(table) == tensors


def test_the_order_and_dims_of_small() -> None:
    table = expected({})
    names = list(table)
    assert names[0] == "embedding.weight"
    assert names[1:3] == [
        "loop_block.controller.weight",
        "loop_block.shared_attn.gdn2.q_proj.weight",
    ]
    assert names[13] == "loop_block.expert_ffns.0.gate_up.inner.Tsct.u"
    assert names[31] == "loop_block.engram.memory.embedding.weight"
    assert names[43:45] == ["norm.weight", "lm_head.inner.Tsct.u"]
    assert names[53] == "aux.conf.proj.weight"
    assert table["loop_block.controller.weight"] == (1536, 8)
    assert table["loop_block.engram.memory.embedding.weight"] == (98304, 32)
    assert table["loop_block.engram.key_projs.0.weight"] == (96, 768)
    assert table["loop_block.expert_ffns.2.down.inner.Tsct.u"] == (2048, 64)
    assert table["aux.dspark.joint_proj.weight"] == (896, 192)


def test_a_dense_model_has_padded_matrices_with_biases() -> None:
    table = expected({"use_tsct": False, "vocab": 258})
    assert table["lm_head.inner.Dense.weight"] == (768, 260)
    assert table["lm_head.inner.Dense.bias"] == (260,)
    assert not any("Tsct" in name for name in table)


def test_the_rank_is_capped_by_the_sides() -> None:
    assert expected({"rank": 5000, "d_ffn": 100})["loop_block.expert_ffns.0.down.inner.Tsct.u"] == (
        100,
        100,
    )


@pytest.mark.parametrize(
    ("rows", "total"), [(1, 3), (2, 6), (3, 12), (10, 48), (64, 192), (65, 384)]
)
def test_memory_rows_are_rounded_up_to_a_power_of_two(rows: int, total: int) -> None:
    name = "loop_block.engram.memory.embedding.weight"
    assert expected({"engram_rows": rows})[name] == (total, 32)


@pytest.mark.parametrize("width", [1, 65])
def test_both_versions_of_the_confidence_head_are_accepted(width: int) -> None:
    found = expected({}) | {"aux.conf.proj.weight": (768 if width == 1 else 768 + 64, 1)}
    assert _verdict({}, found).status == "yes"


def test_another_confidence_head_is_a_conflict() -> None:
    verdict = _verdict({}, expected({}) | {"aux.conf.proj.weight": (769, 1)})
    assert verdict.status == "no"
    assert [str(conflict) for conflict in verdict.conflicts] == [
        "aux.conf.proj.weight: the config calls for [768, 1], the file has [769, 1]"
    ]


def test_halving_the_width_is_a_conflict_that_names_the_embedding() -> None:
    verdict = _verdict({"d_model": 384}, expected({}))
    assert verdict.status == "no"
    assert any(conflict.name == "embedding.weight" for conflict in verdict.conflicts)


@pytest.mark.parametrize("switch", ["use_gr", "use_attnres", "use_mhc", "use_byteflow", "use_msa"])
def test_no_check_is_claimed_for_a_switch_whose_tensors_are_not_known(switch: str) -> None:
    with pytest.raises(NotKnown, match=switch):
        expected({switch: True})
    assert expected({switch: False}) == expected({})


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"d_model": "768"}, "d_model"),
        ({"d_model": 0}, "d_model"),
        ({"n_experts": 2**62}, "n_experts"),
        ({"n_experts": 2**39}, "tensors"),
        ({"engram_orders": 3}, "engram_orders"),
        ({"use_tsct": 1}, "use_tsct"),
        ({"engram_rows": -1}, "engram_rows"),
    ],
)
def test_an_absurd_config_gives_a_reason(config: dict[str, object], key: str) -> None:
    with pytest.raises(Undescribed, match=key):
        expected(config)


def test_the_config_is_recognised_by_its_keys() -> None:
    assert recognises({"d_model": 768, "engram_rows": 25000})
    assert not recognises({"d_model": 768})
    assert not recognises({"d_model": 768, "engram_rows": 1, "model_type": "llama"})


def _verdict(config: dict[str, object], found: dict[str, tuple[int, ...]]) -> Verdict:
    table = Table(found)
    build(Config(config), table)
    return compare("dormouse", table.expected, found, optional=frozenset(table.optional))
