/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Llama family: transformers' LlamaConfig and LlamaForCausalLM; includes SmolLM2.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(32000, 4096, 11008, 32, 32, 0, 2048),
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    MODEL_LLAMA_NUMBERS(0, 1e-6),
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"mlp_bias", KEY_BOOL, MODEL_AT(ffn_bias), 0},
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

const struct model_family model_family_llama = {
    .name = "llama",
    .architecture = "LlamaForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}, {"swish", MODEL_FFN_SWIGLU}},
    .buffers = {"model.layers.%.self_attn.rotary_emb.inv_freq"},
    .rope_theta = 10000,
    .gguf = "llama",
    .gguf_pairs = 1,
    .gguf_rope = MODEL_ROPE_LLAMA3,
};
