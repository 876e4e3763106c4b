/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the SmolLM3 family: transformers' SmolLM3Config and SmolLM3ForCausalLM.  Llama's
 * network, in which some layers leave rotary positions out.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 128256},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 2048},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 11008},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 36},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 16},
    {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), 4},
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 32768},
    {"no_rope_layer_interval", KEY_INT, MODEL_AT(layer_period), 4},
    {"no_rope_layers", KEY_LAYERS, 0, 0},
    {"hidden_act", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 1},
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"mlp_bias", KEY_BOOL, MODEL_AT(ffn_bias), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-6},
    {"attention_dropout", KEY_FIXED, 0, 0},
    {"layer_types", KEY_FULL, 0, 0},
    {"use_sliding_window", KEY_FIXED, 0, 0},
    {"max_window_layers", KEY_IGNORED, 0, 0}, /* for a sliding window, like the next key */
    {"sliding_window", KEY_IGNORED, 0, 0},
    {"pretraining_tp", KEY_IGNORED, 0, 0}, /* published as 2, but never read */
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_IF_ATTENTION, BIAS_IF_ATTENTION),
    MODEL_LLAMA_FEED_FORWARD(BIAS_IF_FFN),
};

static const struct model_activation activations[] = {{"silu", MODEL_FFN_SWIGLU}, {0}};

/* Despite the key's name, 0 means a layer without rotary positions. */
static const struct model_layer_kind layer_kinds[] = {{"1", 0}, {"0", MODEL_NO_ROPE}, {0}};

const struct model_family model_family_smollm3 = {
    .name = "smollm3",
    .architecture = "SmolLM3ForCausalLM",
    .base = "model.",
    .keys = keys,
    .modules = modules,
    .activations = activations,
    .layer_kinds = layer_kinds,
    .norm = MODEL_NORM_RMS,
    .rope_theta = 2000000,
    .gguf = "smollm3",
    .gguf_pairs = 1,
    .gguf_period = 4,
};
