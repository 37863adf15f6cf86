"""GPT-2 and its time, and encoders: other names for the same sizes."""

from __future__ import annotations

from ._decoder import epsilon, named, sizes, standard, tokens
from ._meta import Meta, Values
from ._rope import rope


def gpt2(m: Meta) -> Values:
    config: Values = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": m.vocab,
        "n_embd": m.count("embedding_length"),
        "n_layer": m.layers,
        "n_head": m.heads,
        "n_positions": m.tensors.get("position_embd.weight", (m.count("context_length"),))[0],
        "n_inner": m.feed_forward,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": epsilon(m),
    }
    return config | tokens(m)


def gptneox(m: Meta) -> Values:
    config = named(m, "gpt_neox", "GPTNeoXForCausalLM")
    config["intermediate_size"] = m.count("feed_forward_length")
    config |= sizes(m)
    # This family has no grouped queries and no width of its own for heads.
    for key in ("num_key_value_heads", "head_dim"):
        del config[key]
    config["hidden_act"] = "gelu"
    config["layer_norm_eps"] = epsilon(m)
    config["use_parallel_residual"] = m.flag("use_parallel_residual", True)
    config["attention_bias"] = m.has("attn_qkv.bias")
    turned = rope(m)
    config["rotary_pct"] = turned.get("partial_rotary_factor", 1.0)
    config["rotary_emb_base"] = turned["rope_theta"]
    return config | turned | tokens(m)


def bloom(m: Meta) -> Values:
    config: Values = {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        "vocab_size": m.vocab,
        "hidden_size": m.count("embedding_length"),
        "n_layer": m.layers,
        "n_head": m.heads,
        "layer_norm_epsilon": epsilon(m),
    }
    return config | tokens(m)


def mpt(m: Meta) -> Values:
    alibi = m.number("attention.max_alibi_bias", 0.0)
    clip = m.number("attention.clamp_kqv", 0.0)
    hidden = m.count("embedding_length")
    config: Values = {
        "architectures": ["MPTForCausalLM"],
        "model_type": "mpt",
        "vocab_size": m.vocab,
        "d_model": hidden,
        "n_layers": m.layers,
        "n_heads": m.heads,
        "expansion_ratio": m.feed_forward // hidden,
        "max_seq_len": m.count("context_length"),
        "layer_norm_epsilon": epsilon(m),
        "no_bias": not m.has("ffn_up.bias"),
        "attn_config": {"alibi": alibi > 0, "alibi_bias_max": alibi},
    }
    if clip:
        config["attn_config"]["clip_qkv"] = clip
    return config | tokens(m)


def falcon(m: Meta) -> Values:
    config = named(m, "falcon", "FalconForCausalLM")
    two_norms = m.has("attn_norm_2.weight")
    config |= {
        "num_attention_heads": m.heads,
        "num_kv_heads": m.kv_heads,
        "ffn_hidden_size": m.feed_forward,
        "max_position_embeddings": m.count("context_length"),
        "layer_norm_epsilon": epsilon(m),
        "multi_query": m.kv_heads == 1,
        "new_decoder_architecture": two_norms or m.kv_heads not in (1, m.heads),
        "parallel_attn": True,
        "bias": m.has("attn_qkv.bias"),
        "alibi": False,
    }
    return config | rope(m, partial=False) | tokens(m)


def starcoder2(m: Meta) -> Values:
    config = standard(
        m, "starcoder2", "Starcoder2ForCausalLM", act=GELU_TANH, eps="norm_epsilon", bias=False
    )
    config["norm_type"] = "layer_norm"
    config["use_bias"] = m.has("attn_q.bias")
    if m.present("attention.sliding_window"):
        config["sliding_window"] = m.count("attention.sliding_window")
    return config


GELU_TANH = "gelu_pytorch_tanh"


def stablelm(m: Meta) -> Values:
    config = standard(
        m, "stablelm", "StableLmForCausalLM", eps="layer_norm_eps", partial=True, bias=False
    )
    config["use_qkv_bias"] = m.has("attn_q.bias")
    config["qk_layernorm"] = m.has("attn_q_norm.weight")
    config["use_parallel_residual"] = m.flag("use_parallel_residual", False)
    return config


def phi2(m: Meta) -> Values:
    config = standard(
        m,
        "phi",
        "PhiForCausalLM",
        act="gelu_new",
        eps="layer_norm_eps",
        partial=True,
        bias=False,
        width=m.feed_forward,
    )
    config["qk_layernorm"] = m.has("attn_q_norm.weight")
    return config


def t5(m: Meta) -> Values:
    gated = m.has("ffn_gate.weight")
    config: Values = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "vocab_size": m.vocab,
        "d_model": m.count("embedding_length"),
        "d_kv": m.count("attention.key_length"),
        "d_ff": m.count("feed_forward_length"),
        "num_layers": m.layers,
        "num_decoder_layers": m.count("decoder_block_count", m.layers),
        "num_heads": m.heads,
        "relative_attention_num_buckets": m.count("attention.relative_buckets_count"),
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "layer_norm_epsilon": epsilon(m),
    }
    if m.present("decoder_start_token_id"):
        config["decoder_start_token_id"] = m.count("decoder_start_token_id", zero=True)
    return config | tokens(m)


def bert(m: Meta) -> Values:
    if "token_types.weight" not in m.tensors:
        return _distilbert(m)
    # Only RoBERTa's heads have two layers.
    roberta = {"cls.weight", "cls.output.weight"} <= m.tensors.keys()
    labels, types = _labels(m), m.tensors["token_types.weight"]
    name = ("Roberta" if roberta else "Bert") + ("ForSequenceClassification" if labels else "Model")
    config = named(m, "roberta" if roberta else "bert", name) | {
        "num_attention_heads": m.heads,
        "intermediate_size": m.count("feed_forward_length"),
        "hidden_act": "gelu",
        "layer_norm_eps": epsilon(m),
        # The tables themselves, since a reader may have asked for a shorter context.
        "max_position_embeddings": m.tensors.get(
            "position_embd.weight", (m.count("context_length"),)
        )[0],
        # A single row loses its axis to quantizing tools.
        "type_vocab_size": types[0] if len(types) == 2 else 1,
    }
    return config | labels | encoder_padding(m)


def encoder_padding(m: Meta) -> Values:
    """The padding token, the one special token that an encoder's config needs."""
    pad = m.token("padding")
    return {} if pad is None else {"pad_token_id": pad}


def _labels(m: Meta) -> Values:
    """What a classifier tells apart, under the names that the file has for it."""
    dims = m.tensors.get("cls.output.weight") or m.tensors.get("cls.weight")
    if dims is None:
        return {}
    count = dims[0] if len(dims) == 2 else 1
    names = m.raw("classifier.output_labels")
    if not (isinstance(names, list) and len(names) == count):
        names = [f"LABEL_{index}" for index in range(count)]
    return {"id2label": {str(index): str(name) for index, name in enumerate(names)}}


def _distilbert(m: Meta) -> Values:
    labels = _labels(m)
    name = "DistilBertForSequenceClassification" if labels else "DistilBertModel"
    config: Values = {
        "architectures": [name],
        "model_type": "distilbert",
        "vocab_size": m.vocab,
        "dim": m.count("embedding_length"),
        "n_layers": m.layers,
        "n_heads": m.heads,
        "hidden_dim": m.feed_forward,
        "max_position_embeddings": m.tensors.get(
            "position_embd.weight", (m.count("context_length"),)
        )[0],
        "activation": "gelu",
    }
    return config | labels | encoder_padding(m)
