/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Llama family: transformers' LlamaConfig and LlamaForCausalLM; includes SmolLM2.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 32000},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 4096},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 11008},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 32},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 32},
    {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), 0},
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 2048},
    {"hidden_act", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 0},
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"mlp_bias", KEY_BOOL, MODEL_AT(ffn_bias), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-6},
    {"attention_dropout", KEY_FIXED, 0, 0},
    {"partial_rotary_factor", KEY_FIXED, 0, 1},
    {"pretraining_tp", KEY_FIXED, 0, 1},
    {"rope_interleaved", KEY_FIXED, 0, 0},
    {"sliding_window", KEY_FIXED, 0, 0},
    {"use_sliding_window", KEY_FIXED, 0, 0},
    {"is_llama_config", KEY_IGNORED, 0, 0},
    {"max_sequence_length", KEY_IGNORED, 0, 0}, /* not a key of transformers: another tool's */
    {"transformers.js_config", KEY_IGNORED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_IF_ATTENTION, BIAS_IF_ATTENTION),
    MODEL_LLAMA_FEED_FORWARD(BIAS_IF_FFN),
};

static const struct model_activation activations[] = {
    {"silu", MODEL_FFN_SWIGLU}, {"swish", MODEL_FFN_SWIGLU}, {0}};

static const char *const buffers[] = {"model.layers.%.self_attn.rotary_emb.inv_freq", NULL};

const struct model_family model_family_llama = {
    .name = "llama",
    .architecture = "LlamaForCausalLM",
    .base = "model.",
    .keys = keys,
    .modules = modules,
    .activations = activations,
    .buffers = buffers,
    .norm = MODEL_NORM_RMS,
    .rope_theta = 10000,
    .gguf = "llama",
    .gguf_pairs = 1,
    .gguf_rope = MODEL_ROPE_LLAMA3,
};
