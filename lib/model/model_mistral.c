/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Mistral family: transformers' MistralConfig and MistralForCausalLM.  Llama's
 * network; no sequence is longer than the sliding window.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 32000},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 4096},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 14336},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 32},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 32},
    {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), 8},
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 131072},
    {"sliding_window", KEY_INT_OR_NULL, MODEL_AT(window), 4096},
    {"hidden_act", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-6},
    {"attention_dropout", KEY_FIXED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_NONE, BIAS_NONE),
    MODEL_LLAMA_FEED_FORWARD(BIAS_NONE),
};

static const struct model_activation activations[] = {{"silu", MODEL_FFN_SWIGLU}, {0}};

const struct model_family model_family_mistral = {
    .name = "mistral",
    .architecture = "MistralForCausalLM",
    .base = "model.",
    .keys = keys,
    .modules = modules,
    .activations = activations,
    .norm = MODEL_NORM_RMS,
    .rope_theta = 10000,
    .gguf = "llama",
    .gguf_pairs = 1,
    .gguf_rope = MODEL_ROPE_LLAMA3,
};
