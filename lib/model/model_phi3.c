/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the Phi-3, Phi-3.5 and Phi-4-mini family: transformers' Phi3Config and
 * Phi3ForCausalLM.  Llama's network with one matrix for queries, keys and values and one for
 * gate and up; only a part of each head may rotate.
 */
#include "model/model_llama.h"

static const struct model_key keys[] = {
    MODEL_LLAMA_SIZES(32064, 3072, 8192, 32, 32, 0, 4096),
    {"head_dim", KEY_INT_OR_NULL, MODEL_AT(head_dim), 0},
    {"sliding_window", KEY_INT_OR_NULL, MODEL_AT(window), 0},
    {"partial_rotary_factor", KEY_IGNORED, 0, 0}, /* model_rope.c reads it */
    MODEL_LLAMA_NUMBERS(0, 1e-5),
    {"attention_dropout", KEY_DROPOUT, 0, 0},
    {"embd_pdrop", KEY_DROPOUT, 0, 0},
    {"resid_pdrop", KEY_DROPOUT, 0, 0},
    {"attention_bias", KEY_FIXED, 0, 0}, /* the keys from here on are Phi-4-mini's */
    {"full_attn_mod", KEY_FIXED, 0, 1},
    {"interpolate_factor", KEY_FIXED, 0, 1},
    {"lm_head_bias", KEY_FIXED, 0, 0},
    {"mlp_bias", KEY_FIXED, 0, 0},
    {0},
};

static const struct model_module modules[] = {
    MODEL_LLAMA_ROW("model.embed_tokens", EMBED, VOCAB, HIDDEN, BIAS_NONE, "token_embd"),
    MODEL_LLAMA_LAYER("self_attn.qkv_proj", QKV, QKV, HIDDEN, BIAS_NONE, "attn_qkv"),
    MODEL_LLAMA_LAYER("self_attn.o_proj", OUT, HIDDEN, HEADS, BIAS_NONE, "attn_output"),
    MODEL_LLAMA_LAYER("mlp.gate_up_proj", FFN, GATE_UP, HIDDEN, BIAS_NONE, "ffn_up"),
    MODEL_LLAMA_DOWN_AND_NORMS(BIAS_NONE),
};

const struct model_family model_family_phi3 = {
    .name = "phi3",
    .architecture = "Phi3ForCausalLM",
    MODEL_LLAMA_FAMILY,
    .activations = {{"silu", MODEL_FFN_SWIGLU}},
    .rope_theta = 10000,
    .partial_rotary = 1,
    .gguf = "phi3",
    .gguf_rope = MODEL_ROPE_LONG,
    .gguf_window = 1,
};
