/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Qwen2 and Qwen2.5 family: transformers' Qwen2Config and Qwen2ForCausalLM.
 * Llama's network with biases of queries, keys and values.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 151936},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 4096},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 22016},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 32},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 32},
    {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), 32},
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 32768},
    {"hidden_act", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-6},
    {"attention_dropout", KEY_FIXED, 0, 0},
    {"layer_types", KEY_FULL, 0, 0},
    {"use_mrope", KEY_FIXED, 0, 0},
    {"use_sliding_window", KEY_FIXED, 0, 0},
    {"max_window_layers", KEY_IGNORED, 0, 0}, /* for a sliding window, like the next key */
    {"sliding_window", KEY_IGNORED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_ALWAYS, BIAS_NONE),
    MODEL_LLAMA_FEED_FORWARD(BIAS_NONE),
};

static const struct model_activation activations[] = {{"silu", MODEL_FFN_SWIGLU}, {0}};

const struct model_family model_family_qwen2 = {
    .name = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    .base = "model.",
    .keys = keys,
    .modules = modules,
    .activations = activations,
    .norm = MODEL_NORM_RMS,
    .rope_theta = 10000,
    .gguf = "qwen2",
};
