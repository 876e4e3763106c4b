/* SPDX-License-Identifier: BSD-3-Clause */
/* The Phi-3, Phi-3.5 and Phi-4-mini family: transformers' Phi3Config and Phi3ForCausalLM.
   Llama's network with one matrix for queries, keys and values and one for gate and up, of
   whose heads a part may turn. */
#include "model/model.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 32064},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 3072},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 8192},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 32},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 32},
    {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), 0},
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 4096},
    {"sliding_window", KEY_INT_OR_NULL, MODEL_AT(window), 0},
    {"partial_rotary_factor", KEY_IGNORED, 0, 0}, /* model_rope.c reads it */
    {"hidden_act", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-5},
    {"attention_dropout", KEY_DROPOUT, 0, 0},
    {"embd_pdrop", KEY_DROPOUT, 0, 0},
    {"resid_pdrop", KEY_DROPOUT, 0, 0},
    {"attention_bias", KEY_FIXED, 0, 0}, /* from here on keys that Phi-4-mini publishes */
    {"full_attn_mod", KEY_FIXED, 0, 1},
    {"interpolate_factor", KEY_FIXED, 0, 1},
    {"lm_head_bias", KEY_FIXED, 0, 0},
    {"mlp_bias", KEY_FIXED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    {"model.embed_tokens", MODEL_EMBED, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, NULL},
    {"model.layers.%.self_attn.qkv_proj", MODEL_QKV, SIZE_QKV, SIZE_HIDDEN, BIAS_NONE, NULL},
    {"model.layers.%.self_attn.o_proj", MODEL_OUT, SIZE_HIDDEN, SIZE_HEADS, BIAS_NONE, NULL},
    {"model.layers.%.mlp.gate_up_proj", MODEL_FFN, SIZE_GATE_UP, SIZE_HIDDEN, BIAS_NONE, NULL},
    {"model.layers.%.mlp.down_proj", MODEL_DOWN, SIZE_HIDDEN, SIZE_FFN, BIAS_NONE, NULL},
    {"model.layers.%.input_layernorm", MODEL_NORM_ATTENTION, SIZE_HIDDEN, 0, BIAS_NONE, NULL},
    {"model.layers.%.post_attention_layernorm", MODEL_NORM_FFN, SIZE_HIDDEN, 0, BIAS_NONE,
     NULL},
    {"model.norm", MODEL_NORM_LAST, SIZE_HIDDEN, 0, BIAS_NONE, NULL},
    {"lm_head", MODEL_HEAD, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, NULL},
    {0},
};

static const struct model_activation activations[] = {{"silu", MODEL_FFN_SWIGLU}, {0}};

const struct model_family model_family_phi3 = {
    .name = "phi3",
    .architecture = "Phi3ForCausalLM",
    .base = "model.",
    .keys = keys,
    .modules = modules,
    .activations = activations,
    .norm = MODEL_NORM_RMS,
    .rope_theta = 10000,
    .partial_rotary = 1,
};
