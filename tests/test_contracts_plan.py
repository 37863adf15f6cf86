"""From names and dims to canonical tensors: what is accepted, and what is refused and how."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts_util import F32, metadata_of, pair
from dmexp import contracts
from dmexp.contracts._names import pattern_of
from dmexp.errors import ContractError, DmexpError, NotInvertibleError

Dims = Mapping[str, tuple[int, ...]]


def _plan(architecture: str, tensors: Dims, **keys: Any) -> contracts.Plan:
    keys = {"block_count": 8, "attention__head_count": 2, **keys}
    return contracts.plan(architecture, metadata_of(architecture, **keys), tensors)


def _names(made: contracts.Plan) -> list[str]:
    return [output.name for output in made.outputs]


# --- roles that differ by architecture -----------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "external", "canonical"),
    [
        ("llama", "ffn_norm", "post_attention_layernorm"),
        ("gemma", "ffn_norm", "post_attention_layernorm"),
        ("gemma2", "ffn_norm", "pre_feedforward_layernorm"),
        ("gemma3", "ffn_norm", "pre_feedforward_layernorm"),
        ("gemma3n", "ffn_norm", "pre_feedforward_layernorm"),
        ("gemma4", "ffn_norm", "pre_feedforward_layernorm"),
        ("gemma4", "post_attention_norm", "post_attention_layernorm"),
        ("olmo2", "post_attention_norm", "post_attention_layernorm"),
        ("exaone4", "post_attention_norm", "post_attention_layernorm"),
        ("gpt-oss", "post_attention_norm", "post_attention_layernorm"),
        ("qwen3next", "post_attention_norm", "post_attention_layernorm"),
        ("qwen35", "post_attention_norm", "post_attention_layernorm"),
        ("glm4", "post_attention_norm", "post_self_attn_layernorm"),
        ("glm4", "post_ffw_norm", "post_mlp_layernorm"),
        ("afmoe", "ffn_norm", "pre_mlp_layernorm"),
        ("apertus", "ffn_norm", "feedforward_layernorm"),
        ("jamba", "ffn_norm", "pre_ff_layernorm"),
        ("lfm2", "attn_norm", "operator_norm"),
    ],
)
def test_norms_have_the_role_that_the_architecture_gives_them(
    architecture: str, external: str, canonical: str
) -> None:
    made = _plan(architecture, {f"blk.3.{external}.weight": (4,)})
    assert _names(made) == [f"model.layers.3.{canonical}.weight"]


def test_falcon_with_two_norms_stores_the_one_for_the_mlp_first() -> None:
    two = {f"blk.{i}.{name}.weight": (4,) for i in (0, 1) for name in ("attn_norm", "attn_norm_2")}
    assert _names(_plan("falcon", two))[2:] == [
        "transformer.h.1.ln_mlp.weight",
        "transformer.h.1.ln_attn.weight",
    ]
    one = _plan("falcon", {"blk.1.attn_norm.weight": (4,)})
    assert _names(one) == ["transformer.h.1.input_layernorm.weight"]


def test_chatglm_has_two_spellings_told_by_its_attention() -> None:
    fused = _plan("chatglm", {"blk.0.attn_qkv.weight": (12, 4), "output_norm.weight": (4,)})
    assert _names(fused) == [
        "transformer.encoder.layers.0.self_attention.query_key_value.weight",
        "transformer.encoder.final_layernorm.weight",
    ]
    apart = _plan("chatglm", {"blk.0.attn_q.weight": (4, 4), "output_norm.weight": (4,)})
    assert _names(apart) == ["model.layers.0.self_attn.q_proj.weight", "model.norm.weight"]


def test_up_holds_gate_and_up_where_the_checkpoint_fuses_them() -> None:
    for architecture in ("phi3", "glm4", "plamo3"):
        made = _plan(architecture, {"blk.0.ffn_up.weight": (8, 4)})
        assert made.outputs[0].name.endswith("mlp.gate_up_proj.weight")
        assert made.outputs[0].transform == ""


def test_names_without_a_suffix_are_names() -> None:
    made = _plan("plamo3", {"blk.1.post_ffw_norm": (4,), "blk.1.post_attention_norm": (4,)})
    assert [one.transform for one in made.outputs] == [
        "gain-minus-fifth-to-three-halves",
        "gain-minus-one-fifth",
    ]


def test_deci_names_replaced_attention_by_its_missing_key_heads() -> None:
    tensors = {"blk.0.attn_output.weight": (4, 4), "blk.1.attn_output.weight": (4, 4)}
    made = _plan("deci", tensors, attention__head_count_kv=[0, 2])
    assert _names(made) == [
        "model.layers.0.self_attn.linear_attn.weight",
        "model.layers.1.self_attn.o_proj.weight",
    ]


def test_hrm_has_two_stacks_of_layers() -> None:
    tensors = {"blk.1.ffn_down.weight": (4, 4), "blk.3.ffn_down.weight": (4, 4)}
    made = _plan("hrm_text", tensors, hrm__layers_per_stack=2)
    assert _names(made) == [
        "model.L_module.layers.1.mlp.down_proj.weight",
        "model.H_module.layers.1.mlp.down_proj.weight",
    ]


# --- multi-token prediction ----------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["qwen3next", "qwen35", "qwen35moe"])
def test_mtp_blocks_are_counted_from_the_end(architecture: str) -> None:
    tensors = {
        "blk.7.attn_norm.weight": (4,),
        "blk.7.nextn.eh_proj.weight": (4, 8),
        "blk.7.nextn.enorm.weight": (4,),
        "blk.7.nextn.hnorm.weight": (4,),
        "blk.7.nextn.shared_head_norm.weight": (4,),
        "blk.6.attn_norm.weight": (4,),
    }
    made = _plan(architecture, tensors, nextn_predict_layers=1)
    assert _names(made) == [
        "mtp.layers.0.input_layernorm.weight",
        "mtp.fc.weight",
        "mtp.pre_fc_norm_embedding.weight",
        "mtp.pre_fc_norm_hidden.weight",
        "mtp.norm.weight",
        "model.layers.6.input_layernorm.weight",
    ]
    ids = [one.transform for one in made.outputs]
    assert ids == ["gain-minus-one", ""] + ["gain-minus-one"] * 4


@pytest.mark.parametrize("architecture", ["glm4moe", "deepseek32", "hy_v3"])
def test_other_mtp_blocks_keep_their_number(architecture: str) -> None:
    made = _plan(architecture, {"blk.7.nextn.eh_proj.weight": (4, 8)}, nextn_predict_layers=1)
    assert _names(made) == ["model.layers.7.eh_proj.weight"]


def test_one_mtp_block_of_nemotron_h_is_two_layers() -> None:
    tensors = {
        "blk.7.attn_norm.weight": (4,),
        "blk.7.attn_q.weight": (12, 4),
        "blk.7.post_attention_norm.weight": (4,),
        "blk.7.ffn_up_exps.weight": (2, 4, 4),
        "blk.6.attn_norm.weight": (4,),
    }
    made = _plan("nemotron_h_moe", tensors, nextn_predict_layers=1)
    assert _names(made) == [
        "mtp.layers.0.norm.weight",
        "mtp.layers.0.mixer.q_proj.weight",
        "mtp.layers.1.norm.weight",
        "mtp.layers.1.mixer.experts.0.up_proj.weight",
        "mtp.layers.1.mixer.experts.1.up_proj.weight",
        "backbone.layers.6.norm.weight",
    ]


def test_more_mtp_blocks_than_blocks_are_refused() -> None:
    with pytest.raises(ContractError, match="nextn_predict_layers' is 9, of 8"):
        _plan("qwen35", {"blk.0.attn_norm.weight": (4,)}, nextn_predict_layers=9)


# --- versions of the exporter --------------------------------------------------------------------


def test_one_latent_tensor_and_two_both_read() -> None:
    old = _plan("deepseek2", {"blk.0.attn_kv_b.weight": (6, 3)})
    new = _plan(
        "deepseek2", {"blk.0.attn_k_b.weight": (2, 3, 2), "blk.0.attn_v_b.weight": (2, 1, 3)}
    )
    assert [(one.name, one.dims) for one in old.outputs] == [
        (one.name, one.dims) for one in new.outputs
    ]
    assert (old.outputs[0].transform, new.outputs[0].transform) == ("", "merge-kv-b")


def test_both_generations_in_one_file_are_refused() -> None:
    tensors = {
        "blk.0.attn_kv_b.weight": (6, 3),
        "blk.0.attn_k_b.weight": (2, 3, 2),
        "blk.0.attn_v_b.weight": (2, 1, 3),
    }
    with pytest.raises(
        ContractError, match=r"both give 'model\.layers\.0\.self_attn\.kv_b_proj\.weight'"
    ):
        _plan("deepseek2", tensors)


@pytest.mark.parametrize("dims", [(6, 1, 4), (6, 4), (24,)])
def test_convolutions_of_every_version_come_back_with_three_axes(dims: tuple[int, ...]) -> None:
    made = _plan("mamba", {"blk.0.ssm_conv1d.weight": dims}, ssm__conv_kernel=4)
    assert made.outputs[0].dims == (6, 1, 4)
    assert made.outputs[0].transform == ("" if len(dims) == 3 else "reshape")


def test_qwen3next_of_both_generations() -> None:
    old = _plan("qwen3next", {"blk.0.ssm_in.weight": (20, 3)})
    assert old.outputs[0].transform == ""
    keys = {"ssm__group_count": 2, "ssm__time_step_rank": 6, "ssm__state_size": 2}
    tensors: dict[str, tuple[int, ...]] = {"blk.0.attn_qkv.weight": (14, 3)}
    tensors["blk.0.attn_gate.weight"] = (6, 3)
    tensors["blk.0.ssm_a"] = (6,)
    new = _plan("qwen3next", tensors, **keys)
    assert new.outputs[0].name == old.outputs[0].name
    assert new.outputs[0].transform == "pack-qkvz"
    assert new.outputs[1].transform == "invert-neg-exp-decay"


@pytest.mark.parametrize("dims", [(1, 4), (4,)])
def test_a_single_row_survives_tools_that_drop_its_axis(dims: tuple[int, ...]) -> None:
    made = _plan("qwen2moe", {"blk.0.ffn_gate_inp_shexp.weight": dims})
    assert made.outputs[0].dims == (1, 4)


# --- head counts ---------------------------------------------------------------------------------


def test_as_many_value_heads_as_key_heads_skip_the_reorder_and_nothing_else() -> None:
    keys = {"ssm__group_count": 4, "ssm__time_step_rank": 4, "ssm__state_size": 2}
    tensors = {
        "blk.0.ssm_a": (4,),
        "blk.0.attn_gate.weight": (8, 3),
        "blk.0.ssm_conv1d.weight": (24, 4),
        "blk.0.attn_norm.weight": (3,),
    }
    made = _plan("qwen35", tensors, **keys)
    assert [one.transform for one in made.outputs] == [
        "invert-neg-exp-decay",
        "",
        "reshape",
        "gain-minus-one",
    ]
    log = np.array([-1.0, 0.0, 0.5, 2.0], np.float32)
    assert np.abs(made.outputs[0].build({"blk.0.ssm_a": -np.exp(log)}) - log).max() < 2e-6


def test_falcon_with_one_key_head_is_left_alone() -> None:
    made = _plan("falcon", {"blk.0.attn_qkv.weight": (8, 3)}, attention__head_count_kv=1)
    assert made.outputs[0].transform == ""


def test_head_counts_may_differ_by_block() -> None:
    wanted = np.arange(12, dtype=np.float32)
    tensors = {"blk.0.attn_k.weight": (12,), "blk.1.attn_k.weight": (12,)}
    made = _plan("deci", tensors, attention__head_count=[2, 2], attention__head_count_kv=[1, 2])
    one, two = (output.build(dict.fromkeys(tensors, wanted)) for output in made.outputs)
    assert one.tolist() == [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]
    assert two.tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_keys_default_to_the_query_heads() -> None:
    made = _plan("llama", {"blk.0.attn_k.weight": (12, 1)}, attention__head_count=2)
    built = made.outputs[0].build({"blk.0.attn_k.weight": np.arange(12, dtype=np.float32)})
    assert built.reshape(-1).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensors", "keys", "match"),
    [
        (
            {"blk.0.attn_q.weight": (12, 1)},
            {"attention__head_count": 5},
            "12 rows are no whole number",
        ),
        ({"blk.0.attn_q.weight": (12, 1)}, {"attention__head_count": 0}, "is 0 here"),
        ({"blk.0.attn_q.weight": (12, 1)}, {"attention__head_count": "two"}, "expected a count"),
        ({"blk.0.attn_q.weight": (12, 1)}, {"attention__head_count": True}, "expected a count"),
        ({"blk.0.attn_q.weight": (12, 1)}, {"attention__head_count": -2}, "expected a count"),
        ({"blk.1.attn_q.weight": (12, 1)}, {"attention__head_count": [2]}, "none for block 1"),
        ({"blk.0.bogus.weight": (1,)}, {}, "declares no tensor 'blk.0.bogus.weight'"),
        ({"blk.00.attn_v.weight": (1,)}, {}, "declares no tensor 'blk.00.attn_v.weight'"),
        ({"blk.+1.attn_v.weight": (1,)}, {}, r"declares no tensor 'blk.\+1.attn_v.weight'"),
        ({"blk.-1.attn_v.weight": (1,)}, {}, "declares no tensor"),
        ({"blk.0.attn_v.weight ": (1,)}, {}, "declares no tensor"),
        ({"blk.0.ffn_up.scale": (1,)}, {}, "NVFP4"),
        ({"v.blk.0.attn_q.weight": (1,)}, {}, "declares no tensor"),
    ],
)
def test_what_does_not_fit_is_refused(tensors: Dims, keys: dict[str, Any], match: str) -> None:
    with pytest.raises(ContractError, match=match) as caught:
        _plan("llama", tensors, **keys)
    assert caught.value.architecture == "llama"


def test_a_missing_head_count_is_named() -> None:
    with pytest.raises(ContractError, match=r"the header has no 'llama\.attention\.head_count'"):
        contracts.plan("llama", metadata_of("llama"), {"blk.0.attn_q.weight": (12, 1)})


def test_every_unknown_name_is_a_fact() -> None:
    tensors = {f"blk.{i}.bogus.weight": (1,) for i in range(8)}
    with pytest.raises(ContractError, match="and 3 more") as caught:
        _plan("llama", tensors)
    assert caught.value.names == list(tensors)


def test_a_missing_part_is_named() -> None:
    with pytest.raises(ContractError, match=r"'blk\.2\.attn_v_b\.weight' missing") as caught:
        _plan("deepseek2", {"blk.2.attn_k_b.weight": (2, 3, 2)})
    assert caught.value.missing == ["blk.2.attn_v_b.weight"]


def test_parts_that_do_not_belong_together_are_refused() -> None:
    tensors = {"blk.0.attn_k_b.weight": (2, 3, 2), "blk.0.attn_v_b.weight": (2, 1, 4)}
    with pytest.raises(ContractError, match="do not belong together"):
        _plan("deepseek2", tensors)


REFUSALS = {
    "bitnet": ("blk.0.attn_q.weight", "rounded to three values"),
    "chameleon": ("blk.0.attn_q_norm.weight", "only the gain of head 0"),
    "clip": ("v.patch_embd.weight", "projector type"),
    "dots3note": ("blk.0.attn_q_a_norm.weight", "apply_mla_qkv_lora_rescale"),
    "falcon-h1": ("blk.0.ssm_in.weight", "constants"),
    "gptj": ("token_embd.weight", "no exporter"),
    "jais": ("token_embd.weight", "constants"),
    "kimi-k3": ("blk.0.attn_res_score.weight", "only the product"),
    "pockettts": ("token_embd.weight", "folded"),
    "qwen3tts": ("token_embd.weight", "folded"),
}


@pytest.mark.parametrize("architecture", REFUSALS)
def test_what_cannot_be_undone_is_refused_with_its_reason(architecture: str) -> None:
    external, reason = REFUSALS[architecture]
    with pytest.raises(NotInvertibleError, match=reason) as caught:
        _plan(architecture, {external: (4, 4)})
    assert caught.value.tensor == external
    assert caught.value.reason
    assert "original checkpoint" in str(caught.value)


@pytest.mark.parametrize("architecture", REFUSALS)
def test_ids_answer_for_what_cannot_be_imported(architecture: str) -> None:
    external, _ = REFUSALS[architecture]
    found = contracts.ids(architecture, metadata_of(architecture), {external: (4, 4)})
    assert found[external] != ""


def test_a_normalized_head_is_recognized_and_refused() -> None:
    made = _plan("bailingmoe", {"output.weight": (5, 3)})
    head = np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    assert made.outputs[0].transform == ""
    assert np.array_equal(made.outputs[0].build({"output.weight": head}), head)
    normalized = head / (np.linalg.norm(head, axis=0, keepdims=True) + 1e-7)
    with pytest.raises(NotInvertibleError, match="norm_head"):
        made.outputs[0].build({"output.weight": normalized})


def test_a_head_of_another_rank_is_refused() -> None:
    with pytest.raises(ContractError, match="output head, which has two"):
        _plan("bailingmoe", {"output.weight": (5, 3, 1)})


def test_a_centred_routing_bias_is_recognized_and_refused() -> None:
    made = _plan("bailingmoe2", {"blk.0.exp_probs_b.bias": (4,)})
    bias = np.array([0.5, 1.0, 2.5, 3.0], np.float32)
    name = "blk.0.exp_probs_b.bias"
    assert np.array_equal(made.outputs[0].build({name: bias}), bias)
    with pytest.raises(NotInvertibleError, match="mean"):
        made.outputs[0].build({name: bias - bias.mean()})


# --- building ------------------------------------------------------------------------------------


def test_arrays_may_come_flat() -> None:
    file = pair(next(path for path in F32 if path.parent.name == "llama-gqa"))
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    flat = {name: array.reshape(-1) for name, array in file.stored.items()}
    for output in made.outputs:
        assert output.build(flat).tobytes() == output.build(file.stored).tobytes()


def test_arrays_of_another_size_are_refused() -> None:
    made = _plan("llama", {"blk.0.attn_v.weight": (4, 3)})
    with pytest.raises(ContractError, match=r"came with 11 elements, its header says \[4, 3\]"):
        made.outputs[0].build({"blk.0.attn_v.weight": np.zeros(11, np.float32)})


@pytest.mark.parametrize("dtype", [np.float16, "bf16"])
def test_layout_steps_keep_the_dtype(dtype: Any) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bf16" else np.dtype(dtype)
    made = _plan("llama", {"blk.0.attn_q.weight": (12, 2)})
    stored = np.arange(24).astype(kind).reshape(12, 2)
    built = made.outputs[0].build({"blk.0.attn_q.weight": stored})
    assert built.dtype == kind
    assert sorted(built.reshape(-1).tolist()) == sorted(stored.reshape(-1).tolist())


def test_transforms_count_stored_tensors_by_id() -> None:
    file = pair(next(path for path in F32 if path.parent.name == "mixtral"))
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    assert made.transforms == {"rotary-unpermute": 4, "split-stack": 6}


def test_order_is_that_of_the_file() -> None:
    file = pair(next(path for path in F32 if path.parent.name == "smollm3"))
    made = contracts.plan(file.architecture, file.metadata, file.dims)
    assert [output.inputs[0] for output in made.outputs] == list(file.dims)


@pytest.mark.parametrize(
    ("name", "pattern", "block"),
    [
        ("blk.12.attn_q.weight", "blk.{i}.attn_q.weight", 12),
        ("blk.0.ssm_a", "blk.{i}.ssm_a", 0),
        ("enc.blk.3.attn_q.weight", "enc.blk.{i}.attn_q.weight", 3),
        ("posnet.5.conv1.weight", "posnet.{i}.conv1.weight", 5),
        ("output.weight", "output.weight", None),
        ("blk.01.attn_q.weight", "blk.01.attn_q.weight", None),
        ("blk..attn_q.weight", "blk..attn_q.weight", None),
        ("blk.9999999.attn_q.weight", "blk.9999999.attn_q.weight", None),
        ("blk.１.attn_q.weight", "blk.１.attn_q.weight", None),
    ],
)
def test_block_indexes_are_plain_decimals(name: str, pattern: str, block: int | None) -> None:
    assert pattern_of(name) == (pattern, block)


# --- anything at all -----------------------------------------------------------------------------

_shapes = st.lists(st.integers(0, 24), min_size=0, max_size=4).map(tuple)
_values = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 40), st.floats(), st.text(max_size=3),
    st.lists(st.integers(-2, 12), max_size=3),
)  # fmt: skip
_keys = st.sampled_from(
    [
        "attention.head_count", "attention.head_count_kv", "attention.key_length",
        "attention.value_length", "ssm.group_count", "ssm.time_step_rank", "ssm.state_size",
        "ssm.conv_kernel", "block_count", "nextn_predict_layers", "rope.dimension_count",
        "rescale_every_n_layers",
    ]
)  # fmt: skip


def _externals(architecture: str) -> list[str]:
    names = {name for rule in contracts.names(architecture) for name in rule[0]}
    return sorted(name.replace("{i}", "1") for name in names) or ["any"]


@given(
    architecture=st.sampled_from(contracts.architectures()),
    keys=st.dictionaries(_keys, _values, max_size=8),
    data=st.data(),
)
def test_no_header_causes_anything_but_a_refusal(
    architecture: str, keys: dict[str, Any], data: st.DataObject
) -> None:
    names = st.sampled_from(_externals(architecture))
    tensors = data.draw(st.dictionaries(names, _shapes, max_size=5))
    metadata = {f"{architecture}.{key}": value for key, value in keys.items()}
    with suppress(DmexpError):
        made = contracts.plan(architecture, metadata, tensors)
        for output in made.outputs:
            arrays = {name: np.full(tensors[name], -1.5, np.float32) for name in output.inputs}
            assert output.build(arrays).shape == output.dims
