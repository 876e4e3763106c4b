/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Qwen2 and Qwen2.5 family: transformers' Qwen2Config and Qwen2ForCausalLM.
 * Llama's network with biases of queries, keys and values.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(151936, 4096, 22016, 32, 32, 32, 32768),
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    MODEL_LLAMA_NUMBERS(0, 1e-6),
    {"attention_dropout", KEY_FIXED, 0, 0},
    MODEL_LLAMA_NO_WINDOW,
    {"use_mrope", KEY_FIXED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_ALWAYS, BIAS_NONE),
    MODEL_LLAMA_FEED_FORWARD(BIAS_NONE),
};

const struct model_family model_family_qwen2 = {
    .name = "qwen2",
    .architecture = "Qwen2ForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}},
    .rope_theta = 10000,
    .gguf = "qwen2",
};
