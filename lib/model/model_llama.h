/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_LLAMA_H
#define MODEL_MODEL_LLAMA_H

#include "model/model.h"

/*
 * Rows of model_family.modules that families with Llama's network have in common, in order.
 * They differ in biases, and in what a family adds between the two parts of a layer.
 */
#define MODEL_LLAMA_ATTENTION(qkv, out)                                                        \
    {"model.embed_tokens", MODEL_EMBED, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE},                   \
        {"model.layers.%.self_attn.q_proj", MODEL_QKV, SIZE_HEADS, SIZE_HIDDEN, qkv},          \
        {"model.layers.%.self_attn.k_proj", MODEL_QKV, SIZE_KV, SIZE_HIDDEN, qkv},             \
        {"model.layers.%.self_attn.v_proj", MODEL_QKV, SIZE_KV, SIZE_HIDDEN, qkv},             \
    {                                                                                          \
        "model.layers.%.self_attn.o_proj", MODEL_OUT, SIZE_HIDDEN, SIZE_HEADS, out             \
    }

#define MODEL_LLAMA_FEED_FORWARD(ffn)                                                          \
    {"model.layers.%.mlp.gate_proj", MODEL_FFN, SIZE_FFN, SIZE_HIDDEN, ffn},                   \
        {"model.layers.%.mlp.up_proj", MODEL_FFN, SIZE_FFN, SIZE_HIDDEN, ffn},                 \
        {"model.layers.%.mlp.down_proj", MODEL_DOWN, SIZE_HIDDEN, SIZE_FFN, ffn},              \
        {"model.layers.%.input_layernorm", MODEL_NORM_ATTENTION, SIZE_HIDDEN, 0, BIAS_NONE},   \
        {"model.layers.%.post_attention_layernorm", MODEL_NORM_FFN, SIZE_HIDDEN, 0,            \
         BIAS_NONE},                                                                           \
        {"model.norm", MODEL_NORM_LAST, SIZE_HIDDEN, 0, BIAS_NONE},                            \
        {"lm_head", MODEL_HEAD, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE},                           \
    {                                                                                          \
        0                                                                                      \
    }

#endif
