"""Contracts against a second description of the exporter, at dims that no file here has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import exporter_util as exporter
from contracts_util import metadata_of
from dmexp import contracts

Array = np.ndarray


def _rows(rows: int, width: int = 3, start: int = 0) -> Array:
    return (np.arange(rows * width, dtype=np.float32) + start).reshape(rows, width)


def _imported(architecture: str, stored: dict[str, Array], **keys: Any) -> dict[str, Array]:
    keys = {"block_count": 4, **keys}
    metadata = metadata_of(architecture, **keys)
    made = contracts.plan(
        architecture, metadata, {name: array.shape for name, array in stored.items()}
    )
    return {output.name: output.build(stored) for output in made.outputs}


heads = st.sampled_from([(1, 1), (2, 1), (3, 3), (4, 2), (6, 2), (6, 3), (8, 1)])
dims = st.sampled_from([2, 4, 6, 8, 10])

ROTARY = [
    "llama", "arcee", "granite", "granitemoe", "granite_swa", "granitehybrid", "nemotron_h",
    "nemotron_h_moe", "smollm3", "nanbeige", "mistral3", "deepseek", "deci", "olmo", "minicpm",
    "arctic", "chameleon", "muse-glimmer", "llama-embed",
]  # fmt: skip

TWO_HALVES = [
    "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gemma", "gemma2", "gemma3", "gemma4", "phimoe",
    "stablelm", "starcoder2", "olmo2", "olmoe", "nemotron", "exaone4", "gpt-oss", "glm4moe",
    "hunyuan-dense", "lfm2", "minimax-m2", "seed_oss", "apertus", "afmoe", "orion", "smallthinker",
]  # fmt: skip

ADJACENT_IN_THE_CHECKPOINT = ["command-r", "cohere2", "llama4", "ernie4_5", "maincoder", "dots1"]


def _names(architecture: str, part: str) -> tuple[str, str]:
    external = f"blk.1.attn_{part}.weight"
    made = contracts.plan(
        architecture,
        metadata_of(architecture, block_count=4, attention__head_count=2),
        {external: (12, 3)},
    )
    return external, made.outputs[0].name


@pytest.mark.parametrize("architecture", ROTARY)
@given(counts=heads, dim=dims)
def test_rotary_rows_come_back_in_two_halves(
    architecture: str, counts: tuple[int, int], dim: int
) -> None:
    query, kv = counts
    keys = {"attention__head_count": query, "attention__head_count_kv": kv}
    for part, count in (("q", query), ("k", kv)):
        external, name = _names(architecture, part)
        wanted = _rows(count * dim)
        stored = {external: exporter.pairs_from_halves(wanted, count)}
        assert _imported(architecture, stored, **keys)[name].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("architecture", ["llama", "granite", "smollm3", "deci", "deepseek"])
@given(counts=heads, dim=dims)
def test_rotary_biases_are_regrouped_as_well(
    architecture: str, counts: tuple[int, int], dim: int
) -> None:
    query, kv = counts
    keys = {"attention__head_count": query, "attention__head_count_kv": kv}
    for part, count in (("q", query), ("k", kv)):
        wanted = np.arange(count * dim, dtype=np.float32)
        stored = {f"blk.2.attn_{part}.bias": exporter.pairs_from_halves(wanted, count)}
        built = _imported(architecture, stored, **keys)
        assert built[f"model.layers.2.self_attn.{part}_proj.bias"].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("architecture", ["olmo", "minicpm", "arctic", "xverse"])
def test_some_converters_regroup_weights_only(architecture: str) -> None:
    wanted = np.arange(12, dtype=np.float32)
    built = _imported(
        architecture,
        {"blk.0.attn_q.bias": wanted},
        attention__head_count=2,
        attention__head_count_kv=2,
    )
    assert built["model.layers.0.self_attn.q_proj.bias"].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("architecture", TWO_HALVES + ADJACENT_IN_THE_CHECKPOINT)
def test_other_rows_stay_as_they_are(architecture: str) -> None:
    wanted = _rows(36)
    keys = {"attention__head_count": 6, "attention__head_count_kv": 2}
    for part in "qkv":
        stored = {f"blk.1.attn_{part}.weight": wanted}
        (built,) = _imported(architecture, stored, **keys).values()
        assert built.tobytes() == wanted.tobytes()


def test_xverse_divides_the_head_counts_as_its_converter_does() -> None:
    wanted = _rows(24)
    stored = {"blk.0.attn_k.weight": exporter.pairs_from_halves(wanted, 6 // 3)}
    built = _imported("xverse", stored, attention__head_count=6, attention__head_count_kv=3)
    assert built["model.layers.0.self_attn.k_proj.weight"].tobytes() == wanted.tobytes()


def test_glm4_is_regrouped_only_where_the_header_has_sections() -> None:
    keys = {
        "attention__head_count": 3,
        "attention__head_count_kv": 2,
        "rope__dimension_count": 6,
    }
    sections = {"rope__dimension_sections": [1, 1, 1, 0]}
    for part, count in (("q", 3), ("k", 2)):
        wanted = _rows(count * 10)
        name = f"model.layers.0.self_attn.{part}_proj.weight"
        external = f"blk.0.attn_{part}.weight"
        moved = exporter.halves_from_pairs(wanted, count, 6)
        assert moved.tobytes() != wanted.tobytes()
        assert (
            _imported("glm4", {external: moved}, **keys, **sections)[name].tobytes()
            == wanted.tobytes()
        )
        assert _imported("glm4", {external: wanted}, **keys)[name].tobytes() == wanted.tobytes()


@pytest.mark.parametrize("architecture", ["granitehybrid", "nemotron_h"])
def test_blocks_without_key_heads_were_left_alone(architecture: str) -> None:
    # The converter takes a layer for a recurrent one where the config library rewrote the list.
    wanted = _rows(12)
    keys = {"attention__head_count": 2, "attention__head_count_kv": [0, 2]}
    plain = _imported(architecture, {"blk.0.attn_q.weight": wanted}, **keys)
    assert next(iter(plain.values())).tobytes() == wanted.tobytes()
    moved = {"blk.1.attn_q.weight": exporter.pairs_from_halves(wanted, 2)}
    assert next(iter(_imported(architecture, moved, **keys).values())).tobytes() == wanted.tobytes()


value_heads = st.sampled_from([(1, 1), (2, 2), (2, 4), (2, 6), (3, 6), (4, 4), (4, 12), (16, 32)])


@pytest.mark.parametrize("architecture", ["qwen35", "qwen35moe", "qwen4exp"])
@given(counts=value_heads, dim=st.sampled_from([1, 2, 5]), value_dim=st.sampled_from([1, 3]))
def test_value_heads_come_back_grouped(
    architecture: str, counts: tuple[int, int], dim: int, value_dim: int
) -> None:
    keys_count, values = counts
    keys = {
        "ssm__group_count": keys_count,
        "ssm__time_step_rank": values,
        "ssm__state_size": dim,
        "ssm__inner_size": values * value_dim,
        "ssm__conv_kernel": 4,
    }
    fixed = 2 * keys_count * dim

    def tiled(rows: Array) -> Array:
        return exporter.tiled(rows, keys_count, values)

    qkv = _rows(fixed + values * value_dim)
    conv = _rows(fixed + values * value_dim, 4)
    log = np.linspace(-1, 2.5, values, dtype=np.float32)
    out = _rows(3, values * value_dim)
    z, a, bias = _rows(values * value_dim), _rows(values), np.arange(values, dtype=np.float32)
    stored = {
        "blk.0.attn_qkv.weight": np.concatenate((qkv[:fixed], tiled(qkv[fixed:]))),
        "blk.0.ssm_conv1d.weight": np.concatenate((conv[:fixed], tiled(conv[fixed:]))),
        "blk.0.attn_gate.weight": tiled(z),
        "blk.0.ssm_alpha.weight": tiled(a),
        "blk.0.ssm_beta.weight": tiled(a + 1000),
        "blk.0.ssm_dt.bias": tiled(bias),
        "blk.0.ssm_out.weight": tiled(out.T).T.copy(),
        "blk.0.ssm_a": -np.exp(tiled(log)),
    }
    built = _imported(architecture, stored, **keys)
    layer = "model.layers.0.linear_attn."
    exact = {
        "in_proj_qkv.weight": qkv,
        "conv1d.weight": conv[:, np.newaxis],
        "in_proj_z.weight": z,
        "in_proj_a.weight": a,
        "in_proj_b.weight": a + 1000,
        "dt_bias": bias,
        "out_proj.weight": out,
    }
    for name, wanted in exact.items():
        assert built[layer + name].shape == wanted.shape
        assert np.array_equal(built[layer + name], wanted), name
    assert np.abs(built[layer + "A_log"] - log).max() < 2e-6


@given(counts=value_heads, dim=st.sampled_from([1, 2, 5]), value_dim=st.sampled_from([1, 3]))
def test_qwen3next_keeps_value_heads_in_order_and_packs_by_key_head(
    counts: tuple[int, int], dim: int, value_dim: int
) -> None:
    keys_count, values = counts
    packed = _rows(2 * keys_count * dim + 2 * values * value_dim)
    qkv, z = exporter.unpacked_qkvz(packed, keys_count, values, dim, value_dim)
    log = np.linspace(-1, 2.5, values, dtype=np.float32)
    built = _imported(
        "qwen3next",
        {"blk.0.attn_qkv.weight": qkv, "blk.0.attn_gate.weight": z, "blk.0.ssm_a": -np.exp(log)},
        ssm__group_count=keys_count,
        ssm__time_step_rank=values,
        ssm__state_size=dim,
    )
    layer = "model.layers.0.linear_attn."
    assert np.array_equal(built[layer + "in_proj_qkvz.weight"], packed)
    assert np.abs(built[layer + "A_log"] - log).max() < 2e-6


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("gptneox", "gpt_neox.layers.0.attention.query_key_value"),
        ("bloom", "transformer.h.0.self_attention.query_key_value"),
    ],
)
@given(count=st.sampled_from([1, 2, 3, 5]), dim=st.sampled_from([1, 2, 3]))
def test_fused_rows_go_back_to_heads(architecture: str, name: str, count: int, dim: int) -> None:
    weight, bias = _rows(3 * count * dim), np.arange(3 * count * dim, dtype=np.float32)
    built = _imported(
        architecture,
        {
            "blk.0.attn_qkv.weight": exporter.bands_from_heads(weight, count),
            "blk.0.attn_qkv.bias": exporter.bands_from_heads(bias, count),
        },
        attention__head_count=count,
    )
    assert np.array_equal(built[f"{name}.weight"], weight)
    assert np.array_equal(built[f"{name}.bias"], bias)


@given(counts=heads, dim=st.sampled_from([1, 2, 3]))
def test_falcon_goes_back_to_key_groups(counts: tuple[int, int], dim: int) -> None:
    query, kv = counts
    weight = _rows((query + 2 * kv) * dim)
    stored = np.concatenate(exporter.bands_from_groups(weight, query, kv))
    built = _imported(
        "falcon",
        {"blk.0.attn_qkv.weight": stored},
        attention__head_count=query,
        attention__head_count_kv=kv,
    )
    name = "transformer.h.0.self_attention.query_key_value.weight"
    assert np.array_equal(built[name], weight)


@given(counts=heads, dim=st.sampled_from([2, 4, 6]))
def test_internlm2_goes_back_to_key_groups_in_two_halves(counts: tuple[int, int], dim: int) -> None:
    query, kv = counts
    weight = _rows((query + 2 * kv) * dim)
    q, k, v = exporter.bands_from_groups(weight, query, kv)
    built = _imported(
        "internlm2",
        {
            "blk.0.attn_q.weight": exporter.pairs_from_halves(q, query),
            "blk.0.attn_k.weight": exporter.pairs_from_halves(k, kv),
            "blk.0.attn_v.weight": v,
        },
        attention__head_count=query,
        attention__head_count_kv=kv,
    )
    assert np.array_equal(built["model.layers.0.attention.wqkv.weight"], weight)


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("baichuan", "model.layers.0.self_attn.W_pack.weight"),
        ("bailingmoe", "model.layers.0.attention.query_key_value.weight"),
    ],
)
@given(count=st.sampled_from([1, 2, 3]), dim=st.sampled_from([2, 6, 8]))
def test_packed_rows_are_joined(architecture: str, name: str, count: int, dim: int) -> None:
    weight = _rows(3 * count * dim)
    q, k, v = np.split(weight, 3)
    built = _imported(
        architecture,
        {
            "blk.0.attn_q.weight": exporter.pairs_from_halves(q, count),
            "blk.0.attn_k.weight": exporter.pairs_from_halves(k, count),
            "blk.0.attn_v.weight": v,
        },
        attention__head_count=count,
        attention__head_count_kv=count,
    )
    assert np.array_equal(built[name], weight)


@pytest.mark.parametrize(
    ("architecture", "permuted"),
    [("llama", True), ("smollm3", True), ("qwen3", False), ("gemma3", False), ("command-r", False)],
)
@given(counts=heads, dim=st.sampled_from([2, 6, 8]))
def test_files_made_with_fuse_qkv_are_split(
    architecture: str, permuted: bool, counts: tuple[int, int], dim: int
) -> None:
    query, kv = counts
    q, k, v = _rows(query * dim), _rows(kv * dim, start=1000), _rows(kv * dim, start=5000)
    stored = (
        (exporter.pairs_from_halves(q, query), exporter.pairs_from_halves(k, kv), v)
        if permuted
        else (q, k, v)
    )
    built = _imported(
        architecture,
        {"blk.0.attn_qkv.weight": np.concatenate(stored)},
        attention__head_count=query,
        attention__head_count_kv=kv,
    )
    for part, wanted in (("q", q), ("k", k), ("v", v)):
        assert np.array_equal(built[f"model.layers.0.self_attn.{part}_proj.weight"], wanted)


def test_gated_queries_of_fused_files_keep_their_gate_rows() -> None:
    q, k, v = _rows(2 * 3 * 4), _rows(4, start=1000), _rows(4, start=2000)
    built = _imported(
        "qwen35",
        {"blk.1.attn_qkv.weight": np.concatenate((q, k, v))},
        attention__head_count=3,
        attention__head_count_kv=1,
    )
    assert np.array_equal(built["model.layers.1.self_attn.q_proj.weight"], q)
    assert np.array_equal(built["model.layers.1.self_attn.v_proj.weight"], v)


LATENT = ["deepseek2", "deepseek32", "glm-dsa", "mistral4", "hy_v4", "kimi-linear", "glm5-next"]


@pytest.mark.parametrize("architecture", LATENT)
@given(
    count=st.sampled_from([1, 2, 5]), nope=st.sampled_from([1, 2, 4]), value=st.sampled_from([1, 3])
)
def test_latent_parts_are_merged(architecture: str, count: int, nope: int, value: int) -> None:
    weight = _rows(count * (nope + value), 3)
    k, v = exporter.split_kv_b(weight, count, nope, value)
    built = _imported(architecture, {"blk.0.attn_k_b.weight": k, "blk.0.attn_v_b.weight": v})
    assert np.array_equal(built["model.layers.0.self_attn.kv_b_proj.weight"], weight)


@given(e=st.integers(2, 4), f=st.integers(1, 4), h=st.integers(1, 4))
def test_experts_of_every_layout(e: int, f: int, h: int) -> None:
    gate = np.arange(e * f * h, dtype=np.float32).reshape(e, f, h)
    up, down = gate + 1000, (gate + 2000).reshape(e, h, f)
    stored = {
        "blk.0.ffn_gate_exps.weight": gate,
        "blk.0.ffn_up_exps.weight": up,
        "blk.0.ffn_down_exps.weight": down,
    }
    layer = "model.layers.0."

    qwen = _imported("qwen3moe", stored)
    mixtral = _imported("llama", stored)
    for at in range(e):
        for part, one, wanted in (
            ("gate_proj", "w1", gate),
            ("up_proj", "w3", up),
            ("down_proj", "w2", down),
        ):
            assert np.array_equal(qwen[f"{layer}mlp.experts.{at}.{part}.weight"], wanted[at])
            name = f"{layer}block_sparse_moe.experts.{at}.{one}.weight"
            assert np.array_equal(mixtral[name], wanted[at])

    granite = _imported("granitemoe", stored)
    fused = granite[layer + "block_sparse_moe.input_linear.weight"]
    assert np.array_equal(fused[:, :f], gate)
    assert np.array_equal(fused[:, f:], up)
    assert np.array_equal(granite[layer + "block_sparse_moe.output_linear.weight"], down)

    for architecture, block in (("llama4", "feed_forward"), ("qwen3vlmoe", "mlp")):
        turned = _imported(architecture, stored)
        fused = turned[f"{layer}{block}.experts.gate_up_proj"]
        assert fused.shape == (e, h, 2 * f)
        assert np.array_equal(fused[:, :, :f], gate.transpose(0, 2, 1))
        assert np.array_equal(fused[:, :, f:], up.transpose(0, 2, 1))
        turned_down = turned[f"{layer}{block}.experts.down_proj"]
        assert np.array_equal(turned_down, down.transpose(0, 2, 1))

    oss = _imported("gpt-oss", stored)
    fused = oss[layer + "mlp.experts.gate_up_proj"]
    assert np.array_equal(fused[:, :, ::2], gate.transpose(0, 2, 1))
    assert np.array_equal(fused[:, :, 1::2], up.transpose(0, 2, 1))

    dbrx = _imported("dbrx", stored)
    mlp = "transformer.blocks.0.ffn.experts.mlp."
    assert np.array_equal(dbrx[mlp + "w1"], gate.reshape(e * f, h))
    assert np.array_equal(dbrx[mlp + "v1"], up.reshape(e * f, h))
    assert np.array_equal(dbrx[mlp + "w2"], down.transpose(0, 2, 1).reshape(e * f, h))


def test_experts_of_files_made_with_fuse_gate_up_exps() -> None:
    gate = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    up = gate + 100
    stored = {"blk.0.ffn_gate_up_exps.weight": np.concatenate((gate, up), axis=1)}
    built = _imported("qwen35moe", stored)
    for at in range(3):
        assert np.array_equal(built[f"model.layers.0.mlp.experts.{at}.gate_proj.weight"], gate[at])
        assert np.array_equal(built[f"model.layers.0.mlp.experts.{at}.up_proj.weight"], up[at])


def test_rwkv6_takes_the_lerps_apart_and_rescales_by_layer() -> None:
    lerps = np.arange(20, dtype=np.float32).reshape(5, 1, 1, 4)
    output = _rows(4, 4)
    built = _imported(
        "rwkv6",
        {"blk.3.time_mix_lerp_fused.weight": lerps, "blk.3.time_mix_output.weight": output},
        rescale_every_n_layers=2,
    )
    for at, letter in enumerate("wkvrg"):
        name = f"rwkv.blocks.3.attention.time_maa_{letter}"
        assert np.array_equal(built[name], lerps[at])
    assert np.array_equal(built["rwkv.blocks.3.attention.output.weight"], output * 2)


def test_gains_of_every_constant() -> None:
    gain = np.array([-0.5, 0.0, 0.25, 1.5], np.float32)
    built = _imported(
        "plamo3",
        {
            "blk.0.attn_norm.weight": gain + np.float32(1),
            "blk.0.post_attention_norm": gain + np.float32(1 / 5),
            "blk.0.post_ffw_norm": gain + np.float32(1 / 5**1.5),
        },
    )
    for name in ("pre_mixer_norm", "post_mixer_norm", "post_mlp_norm"):
        assert np.abs(built[f"model.layers.layers.0.{name}.weight"] - gain).max() < 2e-7


def test_muse_glimmer_moves_layer_norms_but_not_the_last_one() -> None:
    gain = np.array([0.5, 1.5], np.float32)
    built = _imported("muse-glimmer", {"output_norm.weight": gain, "blk.0.ffn_norm.weight": gain})
    assert np.array_equal(built["model.norm.weight"], gain)
    name = "model.layers.0.pre_feedforward_layernorm.weight"
    assert np.array_equal(built[name], gain - 1)


def test_talkie_negates_the_second_half_of_every_head() -> None:
    wanted = _rows(12)
    stored = wanted.copy()
    stored[3:6] *= -1
    stored[9:12] *= -1
    built = _imported("talkie", {"blk.0.attn_k.weight": stored}, attention__key_length=6)
    assert np.array_equal(built["model.blocks.0.attn.attn_key.weight"], wanted)


def test_scalars_that_moved_to_the_metadata_come_back() -> None:
    metadata = metadata_of("apertus", block_count=2)
    for key in ("alpha_n", "alpha_p", "beta", "eps"):
        metadata[f"xielu.{key}"] = [0.25, -0.5]
    made = contracts.plan("apertus", metadata, {"blk.1.attn_norm.weight": (4,)})
    built = {output.name: output.build({}) for output in made.outputs if not output.inputs}
    assert built["model.layers.1.mlp.act_fn.alpha_n"].tolist() == [-0.5]
    assert built["model.layers.1.mlp.act_fn.eps"].shape == ()
    assert made.transforms["scalar-from-metadata"] == 4


def test_adapters_lose_the_empty_one() -> None:
    b = np.arange(24, dtype=np.float32).reshape(2, 1, 12, 1)
    moved = np.stack([exporter.pairs_from_halves(one, 2) for one in b[:, 0]])
    stored = {"blk.0.attn_q.lora_b": np.concatenate((np.zeros((1, 12, 1), np.float32), moved))}
    built = _imported("graniteswitch", stored, attention__head_count=2)
    assert np.array_equal(built["model.layers.0.self_attn.qkv_proj.lora_B_slices.0"], b)
