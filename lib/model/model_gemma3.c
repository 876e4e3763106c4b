/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the text models of the Gemma 3 family: transformers' Gemma3TextConfig and
 * Gemma3ForCausalLM.  Has norms before and after each part of a layer, and for each head's
 * queries and keys; most layers have a sliding window and their own rotary positions.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 262208},
    {"hidden_size", KEY_INT, MODEL_AT(hidden), 2304},
    {"intermediate_size", KEY_INT, MODEL_AT(ffn), 9216},
    {"num_hidden_layers", KEY_INT, MODEL_AT(layers), 26},
    {"num_attention_heads", KEY_INT, MODEL_AT(heads), 8},
    {"num_key_value_heads", KEY_INT, MODEL_AT(kv_heads), 4},
    {"head_dim", KEY_INT, MODEL_AT(head_dim), 256},
    /* scores are divided by its root */
    {"query_pre_attn_scalar", KEY_SAME, MODEL_AT(head_dim), 256},
    {"max_position_embeddings", KEY_INT, MODEL_AT(max_seq), 131072},
    {"sliding_window", KEY_INT_OR_NULL, MODEL_AT(window), 4096},
    {"sliding_window_pattern", KEY_INT, MODEL_AT(layer_period), 6},
    {"_sliding_window_pattern", KEY_SAME, MODEL_AT(layer_period), 0},
    {"layer_types", KEY_LAYERS, 0, 0},
    {"rope_local_base_freq", KEY_POSITIVE, MODEL_AT(local_theta), 10000},
    {"hidden_activation", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 1},
    {"attention_bias", KEY_BOOL, MODEL_AT(attention_bias), 0},
    {"rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-6},
    {"attention_dropout", KEY_FIXED, 0, 0},
    {"attn_logit_softcapping", KEY_FIXED, 0, 0},
    {"final_logit_softcapping", KEY_FIXED, 0, 0},
    {"use_bidirectional_attention", KEY_FIXED, 0, 0},
    {"cache_implementation", KEY_IGNORED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ATTENTION(BIAS_IF_ATTENTION, BIAS_IF_ATTENTION),
    MODEL_LLAMA_LAYER("self_attn.q_norm", NORM_Q, HEAD_DIM, NONE, BIAS_NONE, "attn_q_norm"),
    MODEL_LLAMA_LAYER("self_attn.k_norm", NORM_K, HEAD_DIM, NONE, BIAS_NONE, "attn_k_norm"),
    MODEL_LLAMA_LAYER("mlp.gate_proj", FFN, FFN, HIDDEN, BIAS_NONE, "ffn_gate"),
    MODEL_LLAMA_LAYER("mlp.up_proj", FFN, FFN, HIDDEN, BIAS_NONE, "ffn_up"),
    MODEL_LLAMA_LAYER("mlp.down_proj", DOWN, HIDDEN, FFN, BIAS_NONE, "ffn_down"),
    MODEL_LLAMA_LAYER("input_layernorm", NORM_ATTENTION, HIDDEN, NONE, BIAS_NONE, "attn_norm"),
    MODEL_LLAMA_LAYER("post_attention_layernorm", NORM_OUT, HIDDEN, NONE, BIAS_NONE,
                      "post_attention_norm"),
    MODEL_LLAMA_LAYER("pre_feedforward_layernorm", NORM_FFN, HIDDEN, NONE, BIAS_NONE,
                      "ffn_norm"),
    MODEL_LLAMA_LAYER("post_feedforward_layernorm", NORM_DOWN, HIDDEN, NONE, BIAS_NONE,
                      "post_ffw_norm"),
    MODEL_LLAMA_ROW("model.norm", NORM_LAST, HIDDEN, NONE, BIAS_NONE, "output_norm"),
    MODEL_LLAMA_ROW("lm_head", HEAD, VOCAB, HIDDEN, BIAS_NONE, "output"),
    {0},
};

const struct model_family model_family_gemma3_text = {
    .name = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"gelu_pytorch_tanh", MODEL_FFN_GEGLU}},
    .layer_kinds = {{"sliding_attention", MODEL_LOCAL_ROPE}, {"full_attention", MODEL_ROPE}},
    .norm_plus = 1,
    .embed_scaled = 1,
    .rope_theta = 1000000,
    .gguf = "gemma3",
    .gguf_period = 6,
    .gguf_window = 2,
};
