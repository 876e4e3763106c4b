/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_LLAMA_H
#define MODEL_MODEL_LLAMA_H

#include "model/model.h"

/*
 * Rows of model_family.modules that families with Llama's network have in common, in order.
 * They differ in biases, and in what a family adds between the two parts of a layer.
 */
#define MODEL_LLAMA_ATTENTION(qkv, out)                                                        \
    {"model.embed_tokens", MODEL_EMBED, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, "token_embd"},     \
        {"model.layers.%.self_attn.q_proj",                                                    \
         MODEL_QKV,                                                                            \
         SIZE_HEADS,                                                                           \
         SIZE_HIDDEN,                                                                          \
         qkv,                                                                                  \
         "blk.%.attn_q"},                                                                      \
        {"model.layers.%.self_attn.k_proj",                                                    \
         MODEL_QKV,                                                                            \
         SIZE_KV,                                                                              \
         SIZE_HIDDEN,                                                                          \
         qkv,                                                                                  \
         "blk.%.attn_k"},                                                                      \
        {"model.layers.%.self_attn.v_proj",                                                    \
         MODEL_QKV,                                                                            \
         SIZE_KV,                                                                              \
         SIZE_HIDDEN,                                                                          \
         qkv,                                                                                  \
         "blk.%.attn_v"},                                                                      \
    {                                                                                          \
        "model.layers.%.self_attn.o_proj", MODEL_OUT, SIZE_HIDDEN, SIZE_HEADS, out,            \
            "blk.%.attn_output"                                                                \
    }

#define MODEL_LLAMA_FEED_FORWARD(ffn)                                                          \
    {"model.layers.%.mlp.gate_proj", MODEL_FFN, SIZE_FFN, SIZE_HIDDEN, ffn, "blk.%.ffn_gate"}, \
        {"model.layers.%.mlp.up_proj", MODEL_FFN, SIZE_FFN, SIZE_HIDDEN, ffn, "blk.%.ffn_up"}, \
        {"model.layers.%.mlp.down_proj",                                                       \
         MODEL_DOWN,                                                                           \
         SIZE_HIDDEN,                                                                          \
         SIZE_FFN,                                                                             \
         ffn,                                                                                  \
         "blk.%.ffn_down"},                                                                    \
        {"model.layers.%.input_layernorm",                                                     \
         MODEL_NORM_ATTENTION,                                                                 \
         SIZE_HIDDEN,                                                                          \
         0,                                                                                    \
         BIAS_NONE,                                                                            \
         "blk.%.attn_norm"},                                                                   \
        {"model.layers.%.post_attention_layernorm",                                            \
         MODEL_NORM_FFN,                                                                       \
         SIZE_HIDDEN,                                                                          \
         0,                                                                                    \
         BIAS_NONE,                                                                            \
         "blk.%.ffn_norm"},                                                                    \
        {"model.norm", MODEL_NORM_LAST, SIZE_HIDDEN, 0, BIAS_NONE, "output_norm"},             \
        {"lm_head", MODEL_HEAD, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, "output"},                 \
    {                                                                                          \
        0                                                                                      \
    }

#endif
