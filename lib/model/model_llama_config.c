/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the keys of the Llama family: transformers' LlamaConfig. */
#include <string.h>

#include "model/model_keys.h"
#include "model/model_parts.h"

static const char *const keys[] = {
    "attention_bias",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "is_llama_config",
    "max_position_embeddings",
    "max_sequence_length", /* no key of transformers': another tool's */
    "mlp_bias",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "original_max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "transformers.js_config",
    NULL,
};

static const struct model_fixed fixed[] = {
    {"attention_dropout", 0},
    {"partial_rotary_factor", 1},
    {"pretraining_tp", 1},
    {"rope_interleaved", 0},
    {"sliding_window", 0},
    {"use_sliding_window", 0},
    {NULL, 0},
};

/*
 * The bounds are some ten times the largest known models.  With them the largest tensor has
 * 2^44 elements, a layer less than 2^47, a model less than 2^61: no product overflows.
 */
static int read_sizes(const struct config *c, struct model *m)
{
    m->vocab = 32000;
    m->hidden = 4096;
    m->ffn = 11008;
    m->layers = 32;
    m->heads = 32;
    m->max_seq = 2048;
    if (keys_int(c, "vocab_size", 1 << 24, 0, &m->vocab) ||
        keys_int(c, "hidden_size", 1 << 20, 0, &m->hidden) ||
        keys_int(c, "intermediate_size", 1 << 22, 0, &m->ffn) ||
        keys_int(c, "num_hidden_layers", 1 << 14, 0, &m->layers) ||
        keys_int(c, "num_attention_heads", 1 << 14, 0, &m->heads) ||
        keys_int(c, "max_position_embeddings", INT64_C(1) << 31, 0, &m->max_seq))
        return -1;
    m->kv_heads = m->heads;
    m->head_dim = m->hidden / m->heads; /* rounded down, as the family does */
    if (keys_int(c, "num_key_value_heads", m->heads, 1, &m->kv_heads) ||
        keys_int(c, "head_dim", 1 << 16, 1, &m->head_dim))
        return -1;
    if (m->heads % m->kv_heads)
        return KEY_FAIL(c, "num_key_value_heads",
                        "is %" PRId64 ", expected a divisor of "
                        "num_attention_heads, which is %" PRId64,
                        m->kv_heads, m->heads);
    /* Rotary embedding turns pairs of elements. */
    if (m->head_dim < 2 || m->head_dim % 2)
        return KEY_FAIL(c, "head_dim", "is %" PRId64 ", expected an even number", m->head_dim);
    if (m->heads * m->head_dim > 1 << 24)
        return KEY_FAIL(c, "head_dim",
                        "times num_attention_heads is %" PRId64 ", expected at most %d",
                        m->heads * m->head_dim, 1 << 24);
    return 0;
}

static int read_llama(const struct config *c, struct model *m)
{
    static const char *const act[] = {"silu", "swish", NULL};
    int any;

    m->norm = MODEL_NORM_RMS;
    m->ffn_type = MODEL_FFN_SWIGLU;
    m->norm_eps = 1e-6;
    return read_sizes(c, m) || keys_word(c, "hidden_act", act, &any) ||
                   keys_bool(c, "tie_word_embeddings", &m->tied) ||
                   keys_bool(c, "attention_bias", &m->attention_bias) ||
                   keys_bool(c, "mlp_bias", &m->ffn_bias) ||
                   keys_num(c, "rms_norm_eps", 0, &m->norm_eps) || keys_rope(c, m)
               ? -1
               : 0;
}

const struct model_family model_family_llama = {
    "llama", "LlamaForCausalLM", keys, fixed, read_llama, model_llama_units,
};
