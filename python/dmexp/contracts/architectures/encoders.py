"""Encoders, encoder-decoders, and models for speech and images."""

from __future__ import annotations

from .._declare import Architecture, declare
from . import _tables as t

BERT = """
token_embd.weight       -> embeddings.word_embeddings.weight
token_types.weight      -> embeddings.token_type_embeddings.weight  : unit-row
position_embd.weight    -> embeddings.position_embeddings.weight
token_embd_norm.*       -> embeddings.LayerNorm.*
.attn_q.*               -> @.attention.self.query.*
.attn_k.*               -> @.attention.self.key.*
.attn_v.*               -> @.attention.self.value.*
.attn_qkv.*             -> @.attention.self.query.* + @.attention.self.key.* + @.attention.self.value.* : split-qkv
.attn_output.*          -> @.attention.output.dense.*
.attn_output_norm.*     -> @.attention.output.LayerNorm.*
.ffn_up.*               -> @.intermediate.dense.*
.ffn_down.*             -> @.output.dense.*
.layer_output_norm.*    -> @.output.LayerNorm.*
cls.*                   -> classifier.dense.*
cls.output.weight       -> classifier.out_proj.weight  : unit-row
cls.output.bias         -> classifier.out_proj.bias
"""

# RoBERTa's head has two layers. BERT's has one, under either of the two names: the exporter takes
# the second where the labels have names of their own.
ONE_LAYER_HEAD = """
!cls.output.*
cls.weight              -> classifier.weight  : unit-row
cls.bias                -> classifier.bias
"""
ONE_LAYER_OUTPUT = """
!cls.*
cls.output.weight       -> classifier.weight  : unit-row
cls.output.bias         -> classifier.bias
"""

DISTILBERT = """
!token_types.weight
.attn_q.*               -> @.attention.q_lin.*
.attn_k.*               -> @.attention.k_lin.*
.attn_v.*               -> @.attention.v_lin.*
.attn_qkv.*             -> @.attention.q_lin.* + @.attention.k_lin.* + @.attention.v_lin.* : split-qkv
.attn_output.*          -> @.attention.out_lin.*
.attn_output_norm.*     -> @.sa_layer_norm.*
.ffn_up.*               -> @.ffn.lin1.*
.ffn_down.*             -> @.ffn.lin2.*
.layer_output_norm.*    -> @.output_layer_norm.*
cls.*                   -> pre_classifier.*
cls.output.weight       -> classifier.weight  : unit-row
cls.output.bias         -> classifier.bias
"""

NOMIC = """
token_embd.weight       -> embeddings.word_embeddings.weight
token_types.weight      -> embeddings.token_type_embeddings.weight  : unit-row
token_embd_norm.*       -> emb_ln.*
.attn_qkv.*             -> @.attn.Wqkv.*
.attn_output.*          -> @.attn.out_proj.*
.attn_output_norm.*     -> @.norm1.*
.ffn_up.*               -> @.mlp.fc11.*
.ffn_gate.*             -> @.mlp.fc12.*
.ffn_down.*             -> @.mlp.fc2.*
.layer_output_norm.*    -> @.norm2.*
"""

NOMIC_EXPERTS = """
.ffn_up.*               -> @.mlp.fc1.*
.ffn_gate_inp.*         -> @.mlp.router.layer.*
.ffn_up_exps.weight     -> @.mlp.experts.mlp.w1  : expert-rows
.ffn_down_exps.weight   -> @.mlp.experts.mlp.w2  : expert-columns
!.ffn_gate.*
"""

JINA2 = """
.attn_q_norm.*          -> @.attention.self.layer_norm_q.*
.attn_k_norm.*          -> @.attention.self.layer_norm_k.*
.attn_norm_2.*          -> @.layer_norm_1.*
.ffn_up.*               -> @.mlp.gated_layers.*
.ffn_down.*             -> @.mlp.wo.*
.layer_output_norm.*    -> @.mlp.layernorm.*
cls.*                   -> classifier.*
!cls.output.*
"""

# The code variant has two norms of its own a layer, and other names in the MLP.
JINA2_CODE = """
.ffn_up.*               -> @.mlp.up_gated_layer.*
.ffn_down.*             -> @.mlp.down_layer.*
.layer_output_norm.*    -> @.layer_norm_2.*
"""

JINA3 = """
token_embd.weight       -> embeddings.word_embeddings.weight
token_types.weight      -> embeddings.token_type_embeddings.weight  : unit-row
token_embd_norm.*       -> emb_ln.*
.attn_qkv.*             -> @.mixer.Wqkv.*
.attn_output.*          -> @.mixer.out_proj.*
.attn_output_norm.*     -> @.norm1.*
.ffn_up.*               -> @.mlp.fc1.*
.ffn_down.*             -> @.mlp.fc2.*
.layer_output_norm.*    -> @.norm2.*
"""

MODERN = """
token_embd.weight       -> embeddings.tok_embeddings.weight
token_embd_norm.*       -> embeddings.norm.*
output_norm.*           -> final_norm.*
.attn_norm.*            -> @.attn_norm.*
.attn_qkv.*             -> @.attn.Wqkv.*
.attn_output.*          -> @.attn.Wo.*
.ffn_norm.*             -> @.mlp_norm.*
.ffn_up.*               -> @.mlp.Wi.*
.ffn_down.*             -> @.mlp.Wo.*
cls.*                   -> head.dense.*
cls.norm.*              -> head.norm.*
cls.output.weight       -> classifier.weight  : unit-row
cls.output.bias         -> classifier.bias
"""

NEO = """
token_embd.weight       -> encoder.weight
enc.output_norm.*       -> layer_norm.*
.attn_norm.*            -> @.attention_norm.*
.attn_qkv.*             -> @.qkv.*
.attn_output.*          -> @.wo.*
.ffn_norm.*             -> @.ffn_norm.*
.ffn_up.*               -> @.ffn.w12.*
.ffn_down.*             -> @.ffn.w3.*
cls.*                   -> dense.*
cls.output.weight       -> classifier.weight  : unit-row
cls.output.bias         -> classifier.bias
"""

T5_ENCODER = """
token_embd.weight       -> shared.weight
output.*                -> lm_head.*
enc.output_norm.*       -> encoder.final_layer_norm.*
enc.blk.{i}.attn_norm.*   -> encoder.block.{i}.layer.0.layer_norm.*
enc.blk.{i}.attn_q.*      -> encoder.block.{i}.layer.0.SelfAttention.q.*
enc.blk.{i}.attn_k.*      -> encoder.block.{i}.layer.0.SelfAttention.k.*
enc.blk.{i}.attn_v.*      -> encoder.block.{i}.layer.0.SelfAttention.v.*
enc.blk.{i}.attn_o.*      -> encoder.block.{i}.layer.0.SelfAttention.o.*
enc.blk.{i}.attn_rel_b.*  -> encoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.*
enc.blk.{i}.ffn_norm.*    -> encoder.block.{i}.layer.1.layer_norm.*
enc.blk.{i}.ffn_gate.*    -> encoder.block.{i}.layer.1.DenseReluDense.wi_0.*
enc.blk.{i}.ffn_up.*      -> encoder.block.{i}.layer.1.DenseReluDense.wi_1.*
enc.blk.{i}.ffn_down.*    -> encoder.block.{i}.layer.1.DenseReluDense.wo.*
"""

T5_DECODER = """
dec.output_norm.*             -> decoder.final_layer_norm.*
dec.blk.{i}.attn_norm.*       -> decoder.block.{i}.layer.0.layer_norm.*
dec.blk.{i}.attn_q.*          -> decoder.block.{i}.layer.0.SelfAttention.q.*
dec.blk.{i}.attn_k.*          -> decoder.block.{i}.layer.0.SelfAttention.k.*
dec.blk.{i}.attn_v.*          -> decoder.block.{i}.layer.0.SelfAttention.v.*
dec.blk.{i}.attn_o.*          -> decoder.block.{i}.layer.0.SelfAttention.o.*
dec.blk.{i}.attn_rel_b.*      -> decoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.*
dec.blk.{i}.cross_attn_norm.* -> decoder.block.{i}.layer.1.layer_norm.*
dec.blk.{i}.cross_attn_q.*    -> decoder.block.{i}.layer.1.EncDecAttention.q.*
dec.blk.{i}.cross_attn_k.*    -> decoder.block.{i}.layer.1.EncDecAttention.k.*
dec.blk.{i}.cross_attn_v.*    -> decoder.block.{i}.layer.1.EncDecAttention.v.*
dec.blk.{i}.cross_attn_o.*    -> decoder.block.{i}.layer.1.EncDecAttention.o.*
dec.blk.{i}.cross_attn_rel_b.* -> decoder.block.{i}.layer.1.EncDecAttention.relative_attention_bias.*
dec.blk.{i}.ffn_norm.*        -> decoder.block.{i}.layer.2.layer_norm.*
dec.blk.{i}.ffn_gate.*        -> decoder.block.{i}.layer.2.DenseReluDense.wi_0.*
dec.blk.{i}.ffn_up.*          -> decoder.block.{i}.layer.2.DenseReluDense.wi_1.*
dec.blk.{i}.ffn_down.*        -> decoder.block.{i}.layer.2.DenseReluDense.wo.*
"""

# The first T5 had no gate, and one matrix called wi.
T5_ENCODER += """
enc.blk.{i}.ffn_up.*    -> encoder.block.{i}.layer.1.DenseReluDense.wi.* ? no encoder gate
"""
T5_DECODER += """
dec.blk.{i}.ffn_up.*    -> decoder.block.{i}.layer.2.DenseReluDense.wi.* ? no decoder gate
"""

WAVTOKENIZER = """
token_embd.weight       -> backbone.embedding.weight
token_embd_norm.*       -> backbone.norm.*
conv1d.*                -> backbone.embed.*
output.*                -> head.out.*
output_norm.*           -> backbone.final_layer_norm.*
convnext.{i}.dw.*       -> backbone.convnext.{i}.dwconv.*
convnext.{i}.norm.*     -> backbone.convnext.{i}.norm.*
convnext.{i}.pw1.*      -> backbone.convnext.{i}.pwconv1.*
convnext.{i}.pw2.*      -> backbone.convnext.{i}.pwconv2.*
convnext.{i}.gamma.*    -> backbone.convnext.{i}.gamma.*
posnet.{i}.conv1.*      -> backbone.posnet.{i}.conv1.*
posnet.{i}.conv2.*      -> backbone.posnet.{i}.conv2.*
posnet.{i}.norm1.*      -> backbone.posnet.{i}.norm1.*
posnet.{i}.norm2.*      -> backbone.posnet.{i}.norm2.*
posnet.{i}.attn_norm.*  -> backbone.posnet.{i}.norm.*
posnet.{i}.attn_q.*     -> backbone.posnet.{i}.q.*
posnet.{i}.attn_k.*     -> backbone.posnet.{i}.k.*
posnet.{i}.attn_v.*     -> backbone.posnet.{i}.v.*
posnet.{i}.attn_output.* -> backbone.posnet.{i}.proj_out.*
"""

QWEN3TTS = """
token_embd.weight       -> talker.model.text_embedding.weight  : unfold-embedding
output_norm.*           -> talker.model.norm.*
output.*                -> talker.codec_head.*
!.attn_qkv.*
"""

POCKETTTS = """
token_embd.weight       -> flow_lm.conditioner.embed.weight    : unfold-embedding
output_norm.*           -> flow_lm.out_norm.*
.attn_norm.*            -> @.norm1.*
.ffn_norm.*             -> @.norm2.*
.attn_q.weight + .attn_k.weight + .attn_v.weight -> @.self_attn.in_proj.weight : merge-qkv
.attn_output.*          -> @.self_attn.out_proj.*
.ffn_up.*               -> @.linear1.*
.ffn_down.*             -> @.linear2.*
"""

POOLER = {
    "pooler.dense.weight": "not exported",
    "pooler.dense.bias": "not exported",
    "embeddings.position_ids": "a count",
    "cls.predictions.*": "not exported",
    "cls.seq_relationship.*": "not exported",
}
SHARED = {
    "encoder.embed_tokens.weight": "a copy of the shared embedding",
    "decoder.embed_tokens.weight": "a copy of the shared embedding",
}

ARCHITECTURES: tuple[Architecture, ...] = (
    declare(
        "bert",
        "BertModel, RobertaModel, XLMRobertaModel",
        BERT,
        layer="encoder.layer",
        lost=POOLER,
        variants={
            "!token_types.weight": declare(
                "bert",
                "DistilBertModel",
                BERT + DISTILBERT,
                layer="transformer.layer",
                lost={"vocab_*": "not exported"},
            ),
            "!cls.weight": declare(
                "bert",
                "BertModel, RobertaModel, XLMRobertaModel",
                BERT + ONE_LAYER_OUTPUT,
                layer="encoder.layer",
                lost=POOLER,
            ),
            "!cls.output.weight": declare(
                "bert", "BertModel", BERT + ONE_LAYER_HEAD, layer="encoder.layer", lost=POOLER
            ),
        },
        note="names of BertModel; position tables of RoBERTa come back without their first rows; "
        "DistilBERT is told by its lack of token types",
    ),
    declare("nomic-bert", "NomicBertModel", NOMIC, layer="encoder.layers", lost=POOLER),
    declare(
        "nomic-bert-moe",
        "NomicBertModel",
        NOMIC + NOMIC_EXPERTS,
        layer="encoder.layers",
        lost=POOLER | {"*.mlp.experts.bias": "not exported"},
    ),
    declare(
        "jina-bert-v2",
        "JinaBertV2Model",
        BERT + JINA2 + "!position_embd.weight",
        layer="encoder.layer",
        lost=POOLER,
        variants={
            "blk.0.attn_norm_2.weight": declare(
                "jina-bert-v2",
                "JinaBertV2Model",
                BERT + JINA2 + JINA2_CODE + "!position_embd.weight",
                layer="encoder.layer",
                lost=POOLER,
            )
        },
        note="the code variant is told by attn_norm_2",
    ),
    declare(
        "jina-bert-v3",
        "XLMRobertaModel",
        JINA3,
        layer="encoder.layers",
        lost=POOLER,
        note="adapters are exported to files of their own",
    ),
    declare(
        "modern-bert", "ModernBertModel", MODERN, layer="layers", note="names of ModernBertModel"
    ),
    declare(
        "neo-bert", "NeoBert", NEO, layer="transformer_encoder", lost={"decoder.*": "not exported"}
    ),
    declare(
        "eurobert",
        "EuroBertModel",
        t.DECODER.replace("model.", "") + "!output.*",
        layer="layers",
        note="names of EuroBertModel",
    ),
    declare("t5", "T5Model", T5_ENCODER + T5_DECODER, lost=SHARED),
    declare("t5encoder", "T5EncoderModel", T5_ENCODER, lost=SHARED),
    declare(
        "wavtokenizer-dec",
        "WavTokenizerDecModel",
        WAVTOKENIZER,
        lost={
            "*codebook.cluster_size": "statistics of training",
            "*codebook.embed_avg": "statistics of training",
        },
    ),
    declare(
        "qwen3tts",
        "Qwen3TTSTalkerModel",
        t.DECODER + t.QK_NORM + QWEN3TTS,
        layer="talker.model.layers",
    ),
    declare("pockettts", "PocketTTSModel", POCKETTTS, layer="flow_lm.transformer.layers"),
    declare("clip", "MmprojModel and its subclasses", refused="unconvert-projector"),
)
