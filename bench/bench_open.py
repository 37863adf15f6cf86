"""Opening files by their number of tensors: S10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import data
import files
import numpy as np
import peers
import pytest
import safetensors
import safetensors.numpy
import tomli
from board import Board
from race import Race

import dmexp

COUNTS = [54, 2_000, 10_000, 90_000]
NAME = "model.layers.{}.self_attn.q_proj.weight"


def loops_for(count: int) -> int:
    return max(1, 5_000 // count)


def open_theirs(path: Path) -> list[str]:
    with safetensors.safe_open(path, "np") as file:
        return list(file.keys())


def open_ours(path: Path) -> list[str]:
    with dmexp.safe_open(path) as file:
        return file.keys()


def open_ours_without_names(path: Path) -> int:
    with dmexp.safe_open(path) as file:
        return len(file)


def in_other_words(path: Path, target: Path) -> None:
    """The same file with a header that our writer would not write: other order, spaces, comments."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[8:12], "little")
    text = raw[24 : 24 + length].decode().rstrip("\n")
    assert text.rpartition("\n")[2].startswith("# header-crc32")
    text = text.rpartition("\n")[0]
    top, *tables = text.split("\n[[tensors]]\n")
    lines = [
        f"  {line} # said otherwise" if line.startswith(("step", "format")) else line
        for line in top.split("\n")
    ]
    others = [
        "".join(
            f"{key}={value}\n"
            for key, _, value in (
                line.partition(" = ") for line in reversed(table.strip().split("\n"))
            )
        )
        for table in tables
    ]
    text = "\r\n".join(lines) + "\n" + "".join(f"[[ tensors ]]\n{table}" for table in others)
    assert len(tomli.loads(text)["tensors"]) == len(tables)
    header = text.encode()
    prefix = raw[:8] + len(header).to_bytes(4, "little") + raw[12:24]
    target.write_bytes(prefix + header + raw[24 + length :])


@pytest.mark.parametrize("count", COUNTS)
def test_open(race: Race, board: Board, disk: Path, smoke: bool, count: int) -> None:
    if smoke:
        count = min(count, 200)
    model = {NAME.format(nth): np.full((2, 3), nth, "f4") for nth in range(count)}
    ours, others, theirs = disk / "x.dmexp", disk / "o.dmexp", disk / "x.safetensors"
    dmexp.save_file(model, ours, dtype="f32", sync=False)
    in_other_words(ours, others)
    safetensors.numpy.save_file(model, theirs)
    assert open_ours(ours) == open_ours(others) == list(model)
    assert sorted(open_theirs(theirs)) == sorted(model)
    assert open_ours_without_names(ours) == count
    times = race(
        lambda: open_ours(ours),
        loops=loops_for(count),
        safetensors=lambda: open_theirs(theirs),
        without_names=lambda: open_ours_without_names(ours),
        other_words=lambda: open_ours(others),
    )
    peer = "safetensors safe_open + keys()"
    for what, share, limit in (
        ("with names", times.share("safetensors"), 0.5),
        ("without names", times.share("safetensors", "without_names"), 0.25),
        ("header in other words, with names", times.share("safetensors", "other_words"), 2.0),
    ):
        board.at_most(
            "S10", f"{count:,} tensors, {what}", share, limit, peer=peer, seconds=times.medians()
        )
    for path in (ours, others, theirs):
        files.remove(path)


def test_open_a_model_with_its_config(race: Race, board: Board, disk: Path) -> None:
    """The same where the config names a family: its names and dims are derived and compared."""
    config, model = _llama()
    ours, theirs = disk / "x.dmexp", disk / "x.safetensors"
    report = dmexp.save_file(model, ours, config=config, sync=False)
    assert report.shapes.status == "yes"
    safetensors.numpy.save_file(
        {name: array.astype(peers.BFLOAT16) for name, array in model.items()}, theirs
    )
    times = race(lambda: open_ours(ours), loops=50, safetensors=lambda: open_theirs(theirs))
    board.at_most(
        "S10",
        f"{len(model)} tensors, with names, config compared with the tensors",
        times.share("safetensors"),
        None,
        peer="safetensors safe_open + keys(), which has no config",
        seconds=times.medians(),
    )


def _llama() -> tuple[dict[str, Any], dict[str, Any]]:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
    }
    model = {"model.embed_tokens.weight": data.normal(256 * 64).reshape(256, 64)}
    for nth in range(6):
        at = f"model.layers.{nth}"
        for name, dims in (
            ("self_attn.q_proj", (64, 64)),
            ("self_attn.k_proj", (32, 64)),
            ("self_attn.v_proj", (32, 64)),
            ("self_attn.o_proj", (64, 64)),
            ("mlp.gate_proj", (128, 64)),
            ("mlp.up_proj", (128, 64)),
            ("mlp.down_proj", (64, 128)),
            ("input_layernorm", (64,)),
            ("post_attention_layernorm", (64,)),
        ):
            model[f"{at}.{name}.weight"] = data.normal(int(np.prod(dims))).reshape(dims)
    model["model.norm.weight"] = data.normal(64)
    return config, model


def test_one_tensor_of_200(race: Race, board: Board, disk: Path, scale: int) -> None:
    model = data.model(max(data.MIB, data.GIB // scale))
    ours, theirs = disk / "x.dmexp", disk / "x.safetensors"
    dmexp.save_file(model, ours, sync=False)
    safetensors.numpy.save_file({n: a.astype(peers.BFLOAT16) for n, a in model.items()}, theirs)
    name = list(model)[100]
    nbytes = model[name].nbytes // 2

    def one_of_ours() -> Any:
        with dmexp.safe_open(ours) as file:
            return file[name]

    def unchecked() -> Any:
        with dmexp.safe_open(ours, verify=False) as file:
            return file[name]

    def one_of_theirs() -> Any:
        with safetensors.safe_open(theirs, "np") as file:
            return file.get_tensor(name)

    assert one_of_ours().tobytes() == one_of_theirs().tobytes() == unchecked().tobytes()
    times = race(one_of_ours, loops=20, safetensors=one_of_theirs, unchecked=unchecked)
    peer = "safetensors safe_open + get_tensor, numpy"
    what = f"one tensor of 200, {nbytes:,} bytes"
    board.at_most(
        "S10",
        f"{what}, its checksum and values checked",
        times.share("safetensors"),
        1.0,
        peer=peer,
        seconds=times.medians(),
    )
    board.at_most(
        "S10",
        f"{what}, not checked",
        times.share("safetensors", "unchecked"),
        1.0,
        peer=peer,
        seconds=times.medians(),
    )
    files.remove(ours)
    files.remove(theirs)
