/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the dense models of the Qwen3 family: transformers' Qwen3Config and
 * Qwen3ForCausalLM.  Llama's network with norms of each head's queries and keys.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(151936, 4096, 22016, 32, 32, 32, 32768),
    {"head_dim", KEY_INT, MODEL_AT(head_dim), 128},
    MODEL_LLAMA_NUMBERS(0, 1e-6),
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"attention_dropout", KEY_FIXED, 0, 0},
    MODEL_LLAMA_NO_WINDOW,
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_IF_ATTENTION, BIAS_IF_ATTENTION),
    {"model.layers.%.self_attn.q_norm", MODEL_NORM_Q, SIZE_HEAD_DIM, 0, BIAS_NONE,
     "blk.%.attn_q_norm"},
    {"model.layers.%.self_attn.k_norm", MODEL_NORM_K, SIZE_HEAD_DIM, 0, BIAS_NONE,
     "blk.%.attn_k_norm"},
    MODEL_LLAMA_FEED_FORWARD(BIAS_NONE),
};

const struct model_family model_family_qwen3 = {
    .name = "qwen3",
    .architecture = "Qwen3ForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}},
    .rope_theta = 10000,
    .gguf = "qwen3",
};
