/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the GPT-2 family (Radford et al. 2019): transformers' GPT2Config and
 * GPT2LMHeadModel.  Matrices of the layers are stored as (in, out), since the first
 * implementation wrote them as a convolution of width one.  The matrices that add to the
 * residual stream, two a layer, start smaller: section 2.3.
 */
#include "model/model.h"

/* key, how it is read, where to, its default (KEY_FIXED: the one value that is supported) */
static const struct model_key keys[] = {
    {"vocab_size", KEY_INT, MODEL_AT(vocab), 50257},
    {"n_embd", KEY_INT, MODEL_AT(hidden), 768},
    {"n_layer", KEY_INT, MODEL_AT(layers), 12},
    {"n_head", KEY_INT, MODEL_AT(heads), 12},
    {"n_positions", KEY_INT, MODEL_AT(positions), 1024},
    {"n_ctx", KEY_SAME, MODEL_AT(positions), 0},
    {"n_inner", KEY_INT_OR_NULL, MODEL_AT(ffn), 0},
    {"activation_function", KEY_ACTIVATION, 0, 0},
    {"tie_word_embeddings", KEY_BOOL, MODEL_AT(tied), 1},
    {"layer_norm_epsilon", KEY_POSITIVE, MODEL_AT(norm_eps), 1e-5},
    {"attn_pdrop", KEY_DROPOUT, 0, 0.1},
    {"embd_pdrop", KEY_DROPOUT, 0, 0.1},
    {"resid_pdrop", KEY_DROPOUT, 0, 0.1},
    {"n_special", KEY_FIXED, 0, 0},
    {"reorder_and_upcast_attn", KEY_FIXED, 0, 0},
    {"scale_attn_by_inverse_layer_idx", KEY_FIXED, 0, 0},
    {"scale_attn_weights", KEY_FIXED, 0, 1},
    /* in the first release, without effect since */
    {"predict_special_tokens", KEY_IGNORED, 0, 0},
    /* for heads of other tasks, which are not supported */
    {"summary_activation", KEY_IGNORED, 0, 0},
    {"summary_first_dropout", KEY_IGNORED, 0, 0},
    {"summary_proj_to_labels", KEY_IGNORED, 0, 0},
    {"summary_type", KEY_IGNORED, 0, 0},
    {"summary_use_proj", KEY_IGNORED, 0, 0},
    {0},
};

/* name, role, size of its output, of its input, bias, name in GGUF files */
static const struct model_module modules[] = {
    {"transformer.wte", MODEL_EMBED, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, "token_embd"},
    {"transformer.wpe", MODEL_POSITIONS, SIZE_POSITIONS, SIZE_HIDDEN, BIAS_NONE,
     "position_embd"},
    {"transformer.h.%.ln_1", MODEL_NORM_ATTENTION, SIZE_HIDDEN, 0, BIAS_ALWAYS,
     "blk.%.attn_norm"},
    {"transformer.h.%.attn.c_attn", MODEL_QKV, SIZE_QKV, SIZE_HIDDEN, BIAS_ALWAYS,
     "blk.%.attn_qkv"},
    {"transformer.h.%.attn.c_proj", MODEL_OUT, SIZE_HIDDEN, SIZE_HEADS, BIAS_ALWAYS,
     "blk.%.attn_output"},
    {"transformer.h.%.ln_2", MODEL_NORM_FFN, SIZE_HIDDEN, 0, BIAS_ALWAYS, "blk.%.ffn_norm"},
    {"transformer.h.%.mlp.c_fc", MODEL_FFN, SIZE_FFN, SIZE_HIDDEN, BIAS_ALWAYS, "blk.%.ffn_up"},
    {"transformer.h.%.mlp.c_proj", MODEL_DOWN, SIZE_HIDDEN, SIZE_FFN, BIAS_ALWAYS,
     "blk.%.ffn_down"},
    {"transformer.ln_f", MODEL_NORM_LAST, SIZE_HIDDEN, 0, BIAS_ALWAYS, "output_norm"},
    {"lm_head", MODEL_HEAD, SIZE_VOCAB, SIZE_HIDDEN, BIAS_NONE, "output"},
    {0},
};

const struct model_family model_family_gpt2 = {
    .name = "gpt2",
    .architecture = "GPT2LMHeadModel",
    .base = "transformer.",
    .keys = keys,
    .modules = modules,
    .activations = {{"gelu_new", MODEL_FFN_GELU_TANH},
                    {"gelu_pytorch_tanh", MODEL_FFN_GELU_TANH},
                    {"gelu", MODEL_FFN_GELU}},
    /* the causal mask, which old checkpoints hold next to the weights: skipped */
    .buffers = {"transformer.h.%.attn.bias", "transformer.h.%.attn.masked_bias"},
    .norm = MODEL_NORM_LAYER,
    .transposed = 1,
    .small_residuals = 1,
    .gguf = "gpt2",
};
