/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the keys of the GPT-2 family: transformers' GPT2Config.  Dropout is no part of the
 * network; what the config asks for is kept to be told of, and none is applied.
 */
#include "model/model_keys.h"
#include "model/model_parts.h"

static const char *const dropouts[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop"};

static const char *const keys[] = {
    "activation_function",
    "attn_pdrop",
    "embd_pdrop",
    "layer_norm_epsilon",
    "n_ctx",
    "n_embd",
    "n_head",
    "n_inner",
    "n_layer",
    "n_positions",
    "predict_special_tokens", /* of the first release, without effect since */
    "resid_pdrop",
    /* of a head for other tasks, which is not here */
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    NULL,
};

static const struct model_fixed fixed[] = {
    {"n_special", 0},
    {"reorder_and_upcast_attn", 0},
    {"scale_attn_by_inverse_layer_idx", 0},
    {"scale_attn_weights", 1},
    {NULL, 0},
};

/* The bounds are those of the Llama family. */
static int read_sizes(const struct config *c, struct model *m)
{
    m->vocab = 50257;
    m->hidden = 768;
    m->layers = 12;
    m->heads = 12;
    m->positions = 1024;
    if (keys_int(c, "vocab_size", 1 << 24, 0, &m->vocab) ||
        keys_int(c, "n_embd", 1 << 20, 0, &m->hidden) ||
        keys_int(c, "n_layer", 1 << 14, 0, &m->layers) ||
        keys_int(c, "n_head", 1 << 14, 0, &m->heads) ||
        keys_int(c, "n_positions", 1 << 24, 0, &m->positions))
        return -1;
    int64_t context = m->positions;
    m->ffn = 4 * m->hidden;
    if (keys_int(c, "n_inner", 1 << 22, 1, &m->ffn) ||
        keys_int(c, "n_ctx", 1 << 24, 1, &context))
        return -1;
    if (context != m->positions) /* an old name for the same number */
        return KEY_FAIL(c, "n_ctx", "is %" PRId64 ", but n_positions is %" PRId64, context,
                        m->positions);
    if (m->hidden % m->heads)
        return KEY_FAIL(c, "n_head",
                        "is %" PRId64 ", expected a divisor of n_embd, which is %" PRId64,
                        m->heads, m->hidden);
    m->max_seq = m->positions;
    m->kv_heads = m->heads;
    m->head_dim = m->hidden / m->heads;
    return 0;
}

static int read_dropouts(const struct config *c, struct model *m)
{
    for (size_t i = 0; i < sizeof dropouts / sizeof *dropouts; i++) {
        double p = 0.1;
        if (keys_num(c, dropouts[i], 1, &p))
            return -1;
        if (p > 1)
            return KEY_FAIL(c, dropouts[i], "is %g, expected a probability", p);
        if (p > m->dropout)
            m->dropout = p;
    }
    return 0;
}

static int read_gpt2(const struct config *c, struct model *m)
{
    static const char *const act[] = {"gelu_new", "gelu_pytorch_tanh", "gelu", NULL};
    int which = 0;

    m->norm = MODEL_NORM_LAYER;
    m->norm_eps = 1e-5;
    m->tied = m->attention_bias = m->ffn_bias = 1;
    if (read_sizes(c, m) || keys_word(c, "activation_function", act, &which) ||
        keys_bool(c, "tie_word_embeddings", &m->tied) ||
        keys_num(c, "layer_norm_epsilon", 0, &m->norm_eps) || read_dropouts(c, m))
        return -1;
    m->ffn_type = which == 2 ? MODEL_FFN_GELU : MODEL_FFN_GELU_TANH;
    return 0;
}

const struct model_family model_family_gpt2 = {
    "gpt2", "GPT2LMHeadModel", keys, fixed, read_gpt2, model_gpt2_units,
};
