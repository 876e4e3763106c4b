/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Mistral family: transformers' MistralConfig and MistralForCausalLM.  Llama's
 * network; no sequence is longer than the sliding window.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(32000, 4096, 14336, 32, 32, 8, 131072),
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"sliding_window", KEY_INT_OR_NULL, MODEL_AT(window), 4096},
    MODEL_LLAMA_NUMBERS(0, 1e-6),
    {"attention_dropout", KEY_FIXED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_NONE, BIAS_NONE),
    MODEL_LLAMA_FEED_FORWARD(BIAS_NONE),
};

const struct model_family model_family_mistral = {
    .name = "mistral",
    .architecture = "MistralForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}},
    .rope_theta = 10000,
    .gguf = "llama",
    .gguf_pairs = 1,
    .gguf_rope = MODEL_ROPE_LLAMA3,
};
