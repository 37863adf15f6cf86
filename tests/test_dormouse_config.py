"""A dormouse config as the original prints it, and where it is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

from dmexp.errors import (
    FormatError,
    InvalidArgumentError,
)
from dmexp.loaders import SourceOptions, open_source
from dmexp.loaders._dormouse_config import SCHEMA, config_from
from dmexp.loaders.dormouse import open_dormouse
from dormouse_util import arrays, burnpack, container, run, snapshot

CORPUS = Path(__file__).parent / "corpus" / "dmexp"


# The config and its snapshot.


def test_without_a_snapshot_the_missing_path_and_the_option_are_named(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())))
    with pytest.raises(InvalidArgumentError) as caught:
        open_source(path)
    assert str(tmp_path / "latest.config.toml") in caught.value.message
    assert "--config" in caught.value.message
    assert caught.value.missing == str(tmp_path / "latest.config.toml")


def test_a_snapshot_and_a_config_are_one_too_many(tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), snapshot())
    other = tmp_path / "other.toml"
    other.write_text("d_model = 8\n")
    with pytest.raises(InvalidArgumentError, match="One of the two is wrong") as caught:
        open_source(path, SourceOptions(config=other))
    assert str(other) in caught.value.message
    assert "latest.config.toml" in caught.value.message


@pytest.mark.parametrize("text", ["d_model = 8\nengram_rows = 4\n", snapshot()])
def test_a_config_is_taken_flat_or_as_a_snapshot(text: str, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())))
    other = tmp_path / "other.toml"
    other.write_text(text)
    with open_source(path, SourceOptions(config=other)) as source:
        values = tomli.loads(source.info.config)
        assert (values["d_model"], values["engram_rows"]) == (8, 4)
        assert source.info.config_origin == str(other)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("source = 'x'\n", "[model]"),
        ("[model\n", "TOML"),
        ("model = 3\n", "[model]"),
        ("[model]\nd_model = 'wide'\n", "d_model"),
        ("[model]\nd_model = 8.0\n", "d_model"),
        ("[model]\nd_model = -8\n", "d_model"),
        ("[model]\nuse_kda = 1\n", "use_kda"),
        ("[model]\nnorm_eps = '0'\n", "norm_eps"),
        ("[model]\nengram_orders = [2, 'x']\n", "engram_orders"),
        ("[model]\nact_quant = 'int5'\n", "act_quant"),
        ("[model]\nuse_attnres = [1]\n", "use_attnres"),
    ],
)
def test_a_broken_snapshot_is_refused_by_key(text: str, word: str, tmp_path: Path) -> None:
    path = run(tmp_path, container(burnpack(arrays())), text)
    with pytest.raises(FormatError) as caught:
        open_dormouse(path)
    assert word in caught.value.message
    assert caught.value.path == str(tmp_path / "latest.config.toml")


SMALL = """\
bf16 = false
act_group = 0
d_model = 768
n_heads = 12
head_dim = 64
d_ffn = 2048
vocab = 256
max_seq_len = 512
max_iter = 4
rank = 64
norm_eps = 0.0010000000474974513
use_kda = true
use_tsct = true
use_engram = true
use_gr = false
n_experts = 3
jepa_weight = 0.05000000074505806
jepa_mask_frac = 0.15000000596046448
jepa_mask_span = 8
dspark_weight = 0.10000000149011612
dspark_k = 4
dspark_stride = 16
engram_rows = 25000
engram_orders = [2, 3, 4]
engram_dim = 32
engram_lam_max = 0.5
use_mor = false
mor_k = 2
mor_bce_weight = 0.05000000074505806
"""


def test_an_empty_table_prints_the_preset_small() -> None:
    assert config_from({}, "x").text == SMALL
    assert list(SCHEMA) == [
        "bf16",
        "act_quant",
        *[line.split(" ")[0] for line in SMALL.split("\n")[1:-1]],
    ]


def test_what_was_printed_prints_itself() -> None:
    assert config_from(tomli.loads(SMALL), "x").text == SMALL


def test_the_snapshot_is_printed_through_the_schema() -> None:
    table = {
        "mor_k": 3,
        "norm_eps": 1,
        "d_model": 16,
        "use_gr": True,
        "jepa_weight": 1e-10,
        "engram_orders": [],
        "what": 5,
        "act_quant": "INT8",
    }
    config = config_from(table, "x")
    lines = config.text.split("\n")
    assert lines[:4] == ["bf16 = false", 'act_quant = "8"', "act_group = 0", "d_model = 16"]
    assert "norm_eps = 1.0" in lines
    assert "jepa_weight = 0.0000000001000000013351432" in lines
    assert "engram_orders = []" in lines
    assert "mor_k = 3" in lines
    assert config.dropped == ("what",)
    assert tomli.loads(config.text)["use_gr"] is True


@pytest.mark.parametrize(
    ("written", "printed"),
    [("fp4", "fp4"), ("FP4", "fp4"), (4, "4"), ("int4", "4"), (8, "8"), ("8", "8")],
)
def test_spellings_of_act_quant(written: object, printed: str) -> None:
    assert f'act_quant = "{printed}"\n' in config_from({"act_quant": written}, "x").text


def test_keys_of_later_versions_stay_where_the_snapshot_has_them() -> None:
    table = {"use_gr": False, "use_attnres": False, "mhc_streams": 4, "n_experts": 3}
    table |= {"mor_bce_weight": 0.05, "use_byteflow": False, "byteflow_eps2": 0.5, "msa_kb": 16}
    text = config_from(table, "x").text
    assert "use_gr = false\nuse_attnres = false\nmhc_streams = 4\nn_experts = 3\n" in text
    assert text.endswith(
        "mor_bce_weight = 0.05000000074505806\n"
        "use_byteflow = false\nbyteflow_eps2 = 0.5\nmsa_kb = 16\n"
    )
    assert config_from(table, "x").dropped == ()
