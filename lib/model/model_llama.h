/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_LLAMA_H
#define MODEL_MODEL_LLAMA_H

#include "model/model.h"

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
