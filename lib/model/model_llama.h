/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_LLAMA_H
#define MODEL_MODEL_LLAMA_H

#include "model/model.h"

/*
 * Lists rows of model_family.keys: sizes, with a family's defaults, then numbers.  Families
 * differ in head_dim and in the keys they add.
 */
#define MODEL_LLAMA_SIZES(vocab_, hidden_, ffn_, layers_, heads_, kv_heads_, max_seq_)         \
    {"vocab_size", KEY_INT, MODEL_AT(vocab), vocab_},                                          \
        {"hidden_size", KEY_INT, MODEL_AT(hidden), hidden_},                                   \
        {"intermediate_size", KEY_INT, MODEL_AT(ffn), ffn_},                                   \
        {"num_hidden_layers", KEY_INT, MODEL_AT(layers), layers_},                             \
        {"num_attention_heads", KEY_INT, MODEL_AT(heads), heads_},                             \
        {"num_key_value_heads", KEY_INT_OR_NULL, MODEL_AT(kv_heads), kv_heads_},               \
    {                                                                                          \
        "max_position_embeddings", KEY_INT, MODEL_AT(max_seq), max_seq_                        \
    }
#define MODEL_LLAMA_NUMBERS(tied_, norm_eps_)                                                  \
    {"hidden_act", KEY_ACTIVATION, 0, 0},                                                      \
        {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), tied_},                              \
    {                                                                                          \
        "rms_norm_eps", KEY_POSITIVE, MODEL_AT(norm_eps), norm_eps_                            \
    }
/* Keys of a sliding window that must be off. */
#define MODEL_LLAMA_NO_WINDOW                                                                  \
    {"layer_types", KEY_FULL, 0, 0}, {"use_sliding_window", KEY_FIXED, 0, 0},                  \
        {"max_window_layers", KEY_IGNORED, 0, 0},                                              \
    {                                                                                          \
        "sliding_window", KEY_IGNORED, 0, 0                                                    \
    }

/* Members of struct model_family that do not differ. */
#define MODEL_LLAMA_FAMILY                                                                     \
    .base = "model.", .keys = keys, .modules = modules, .norm = MODEL_NORM_RMS

/*
 * Lists the rows of model_family.modules that families with Llama's network have in common, in
 * order.  Families differ in biases, and in the modules they add between the two parts of a
 * layer.
 */
#define MODEL_LLAMA_ROW(name, role, out, in, bias, gguf)                                       \
    {                                                                                          \
        name, MODEL_##role, SIZE_##out, SIZE_##in, bias, gguf                                  \
    }
#define MODEL_LLAMA_LAYER(name, role, out, in, bias, gguf)                                     \
    MODEL_LLAMA_ROW("model.layers.%." name, role, out, in, bias, "blk.%." gguf)

#define MODEL_LLAMA_ATTENTION(qkv, out)                                                        \
    MODEL_LLAMA_ROW("model.embed_tokens", EMBED, VOCAB, HIDDEN, BIAS_NONE, "token_embd"),      \
        MODEL_LLAMA_LAYER("self_attn.q_proj", QKV, HEADS, HIDDEN, qkv, "attn_q"),              \
        MODEL_LLAMA_LAYER("self_attn.k_proj", QKV, KV, HIDDEN, qkv, "attn_k"),                 \
        MODEL_LLAMA_LAYER("self_attn.v_proj", QKV, KV, HIDDEN, qkv, "attn_v"),                 \
        MODEL_LLAMA_LAYER("self_attn.o_proj", OUT, HIDDEN, HEADS, out, "attn_output")

#define MODEL_LLAMA_FEED_FORWARD(ffn)                                                          \
    MODEL_LLAMA_LAYER("mlp.gate_proj", FFN, FFN, HIDDEN, ffn, "ffn_gate"),                     \
        MODEL_LLAMA_LAYER("mlp.up_proj", FFN, FFN, HIDDEN, ffn, "ffn_up"),                     \
        MODEL_LLAMA_DOWN_AND_NORMS(ffn)

/* The rest of a layer, and the modules after the layers. */
#define MODEL_LLAMA_DOWN_AND_NORMS(ffn)                                                        \
    MODEL_LLAMA_LAYER("mlp.down_proj", DOWN, HIDDEN, FFN, ffn, "ffn_down"),                    \
        MODEL_LLAMA_LAYER("input_layernorm", NORM_ATTENTION, HIDDEN, NONE, BIAS_NONE,          \
                          "attn_norm"),                                                        \
        MODEL_LLAMA_LAYER("post_attention_layernorm", NORM_FFN, HIDDEN, NONE, BIAS_NONE,       \
                          "ffn_norm"),                                                         \
        MODEL_LLAMA_ROW("model.norm", NORM_LAST, HIDDEN, NONE, BIAS_NONE, "output_norm"),      \
        MODEL_LLAMA_ROW("lm_head", HEAD, VOCAB, HIDDEN, BIAS_NONE, "output"),                  \
    {                                                                                          \
        0                                                                                      \
    }

#endif
