"""Byte for byte what the format's first writer wrote, and bytes of our own that do not change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tomli

import dmexp
from container_util import CHECKPOINT, GOOD, VECTORS, f32, noise, refusal, split

CONFIG = """\
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
TINY = np.array(0x3098, "<u2").view(ml_dtypes.bfloat16).astype("<f4")
TWO = {
    "norm.weight": np.array([[1, -2, 0.5], [0, 5.15625, TINY]], "<f4"),
    "loop_block.residual_scale": f32([1]),
}
DIGEST = "63b42f7621d5672a2d7570f53116642145037958aa61f8e1ec35dd58b93d1c30"


def _two(tensors: Any = TWO) -> bytes:
    return dmexp.save(
        tensors,
        config=CONFIG,
        source="checkpoints/latest.bin@step20",
        step=20,
        compat="dormouse",
    )


def test_the_two_tensor_file_has_the_originals_digest() -> None:
    data = _two()
    prefix, header, payload = split(data)
    assert prefix.hex() == "444d455850525401770300000e00000000000000f5ccb8e2"
    assert payload.hex() == "803f00c0003f0000a5409830803f"
    assert len(header) == 887
    assert hashlib.sha256(data).hexdigest() == DIGEST


def test_an_iterable_gives_the_same_bytes() -> None:
    assert hashlib.sha256(_two(iter(TWO.items()))).hexdigest() == DIGEST


def test_a_config_of_another_model_is_refused_when_written_and_reported_under_compat(
    tmp_path: Path,
) -> None:
    error = refusal(dmexp.save, TWO, config=CONFIG)
    assert error.code == "SHAPE_MISMATCH"
    assert "embedding.weight" in error.message
    # The original wrote such files; its reader refused them, and so does ours.
    report = dmexp.save_file(TWO, tmp_path / "two.dmexp", config=CONFIG, compat="dormouse")
    assert report.shapes.status == "no"
    assert refusal(dmexp.load_file, tmp_path / "two.dmexp").code == "SHAPE_MISMATCH"


def _again(data: bytes, tensors: bytes, **options: Any) -> bytes:
    """The same file, from its header and the tensors of another."""
    _, header, _ = split(data)
    facts = tomli.loads(header.decode("utf-8-sig"))
    return dmexp.save(
        dmexp.load(tensors, "stored"),
        dtype=facts["dtype"],
        config=facts["config"],
        source=facts["source"],
        step=facts["step"],
        compat="dormouse",
        **options,
    )


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_originals_exports_come_out_as_they_went_in(dtype: str) -> None:
    data = (CHECKPOINT / f"latest.{dtype}.dmexp").read_bytes()
    source = (CHECKPOINT / "latest.f32.dmexp").read_bytes()
    assert _again(data, source) == data
    assert _again(data, source, threads=4) == data


@pytest.mark.parametrize(
    "name", ["all-zero-f16.dmexp", "scalar-and-empty-bf16.dmexp", "unaligned-3-f32.dmexp"]
)
def test_files_of_the_corpus_come_out_as_they_went_in(name: str) -> None:
    data = (GOOD / name).read_bytes()
    assert _again(data, data) == data


def test_compat_leaves_out_what_the_original_does_not_know() -> None:
    _, header, _ = split(dmexp.save({"w": noise(1, 3)}, compat="dormouse"))
    facts = tomli.loads(header.decode())
    assert list(facts) == [
        "format",
        "dtype",
        "source",
        "step",
        "num_params",
        "num_tensors",
        "flushed",
        "max_abs",
        "min_nonzero_abs",
        "config",
        "tensors",
    ]
    assert list(facts["tensors"][0]) == ["name", "dims", "overflowed"]
    assert b"#" not in header
    assert header.endswith(b"overflowed = 0\n")


def test_no_tensors_are_an_empty_array() -> None:
    _, header, payload = split(dmexp.save({}, compat="dormouse"))
    assert header.endswith(b'config = ""\ntensors = []\n')
    assert payload == b""


def test_compat_has_no_place_for_metadata() -> None:
    error = refusal(dmexp.save, {}, compat="dormouse", metadata={"a": 1})
    assert (error.code, error.argument) == ("INVALID_ARGUMENT", "metadata")
    assert dmexp.save({}, compat="dormouse", metadata={}) == dmexp.save({}, compat="dormouse")


def test_another_compat_is_named() -> None:
    error = refusal(dmexp.save, {}, compat="burn")
    assert error.message == "unknown compat 'burn'. Known: 'dormouse'."


# Of our own mode. Each value is there for a reason: ties, subnormals, both zeros, extremes.
OURS: dict[str, Any] = {
    "edges": np.array(
        [0x3F808000, 0x3F818000, 0x00000001, 0x80000000, 0x33800001, 0x477FEFFF, 0xC2F00000],
        "<u4",
    ).view("<f4"),
    "matrix": np.arange(6, dtype="<f4").reshape(2, 3).T - 2.5,
    "scalar": np.float64(1 + 2**-8 + 2**-40),
    "empty": np.zeros((0, 4), "<f2"),
    'a "name" [of] größe': f32([0.1]),
}
ABOUT: dict[str, Any] = {
    "config": 'model_type = "of the golden file"\nrates = [0.1, 1e-5]\n',
    "source": "C:\\models\\golden.safetensors",
    "step": 12345,
    "metadata": {"note": "two\nlines", "list": [1, 2.5, True], "table": {"key": "value"}},
}


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_our_own_bytes_are_the_committed_ones(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmexp import _emit

    monkeypatch.setattr(_emit, "writer_name", lambda: "dmexp 0.1.0")
    golden = (VECTORS / f"golden.{dtype}.dmexp").read_bytes()
    assert dmexp.save(OURS, dtype=dtype, **ABOUT) == golden
    assert dmexp.save(OURS.items(), dtype=dtype, threads=3, **ABOUT) == golden


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_the_committed_bytes_hold_what_the_committed_text_says(dtype: str) -> None:
    listed = json.loads((VECTORS / "golden.json").read_text("utf-8"))[dtype]
    data = (VECTORS / f"golden.{dtype}.dmexp").read_bytes()
    found = dmexp.load(data, "stored")
    assert {name: array.tobytes().hex() for name, array in found.items()} == listed
    assert [array.shape for array in found.values()] == [(7,), (3, 2), (), (0, 4), (1,)]


def test_the_committed_bytes_are_verified(tmp_path: Path) -> None:
    for dtype in ("f32", "f16", "bf16"):
        path = tmp_path / f"golden.{dtype}.dmexp"
        path.write_bytes((VECTORS / path.name).read_bytes())
        assert "tensor checksums" in dmexp.verify(path).checks
        info = dmexp.info(path)
        assert info.metadata == ABOUT["metadata"]
        assert (info.source, info.step) == (ABOUT["source"], ABOUT["step"])
        assert (24 + info.header_bytes) % 64 == 0
