/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the SmolLM3 family: transformers' SmolLM3Config and SmolLM3ForCausalLM.  Llama's
 * network, in which some layers leave rotary positions out.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(128256, 2048, 11008, 36, 16, 4, 32768),
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"no_rope_layer_interval", KEY_INT, MODEL_AT(layer_period), 4},
    {"no_rope_layers", KEY_LAYERS, 0, 0},
    MODEL_LLAMA_NUMBERS(1, 1e-6),
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"mlp_bias", KEY_BOOL, MODEL_AT(ffn_bias), 0},
    {"attention_dropout", KEY_FIXED, 0, 0},
    MODEL_LLAMA_NO_WINDOW,
    {"pretraining_tp", KEY_IGNORED, 0, 0}, /* published as 2, but never read */
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_IF_ATTENTION, BIAS_IF_ATTENTION),
    MODEL_LLAMA_FEED_FORWARD(BIAS_IF_FFN),
};

const struct model_family model_family_smollm3 = {
    .name = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}},
    /* despite the key's name, 0 means a layer without rotary positions */
    .layer_kinds = {{"1", 0}, {"0", MODEL_NO_ROPE}},
    .rope_theta = 2000000,
    .gguf = "smollm3",
    .gguf_pairs = 1,
    .gguf_period = 4,
};
