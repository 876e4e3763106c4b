/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the keys of a Hugging Face config.json of the Llama family: which give the network its
 * numbers, which must stand at the one value that is built here, and which do not touch it.
 * Any other key may change the network, so it is an error, never ignored.  Absent keys have the
 * values of transformers' LlamaConfig.
 */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "model/model_parts.h"

struct config {
    const char *name, *text;
    json_t *root;
    struct err *err;
};

/* Do not touch the network, or only how text is drawn from it. */
static const char *const harmless[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "architectures",
    "attn_implementation",
    "bos_token_id",
    "chunk_size_feed_forward",
    "eos_token_id",
    "finetuning_task",
    "id2label",
    "label2id",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "prefix",
    "problem_type",
    "return_dict",
    "sep_token_id",
    "task_specific_params",
    "tokenizer_class",
    "torchscript",
    "transformers_version",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    /* sampling */
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_scores",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict_in_generate",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    /* read below */
    "dtype",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "initializer_range",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "quantization_config",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "tie_word_embeddings",
    "torch_dtype",
    "vocab_size",
};

/* Must stand at one value: another would be another network, or another training. */
static const struct {
    const char *key;
    double value; /* false is 0; null is always taken for the value */
} fixed[] = {
    {"add_cross_attention", 0},   {"attention_bias", 0},
    {"attention_dropout", 0},     {"is_decoder", 0},
    {"is_encoder_decoder", 0},    {"mlp_bias", 0},
    {"partial_rotary_factor", 1}, {"pretraining_tp", 1},
    {"rope_interleaved", 0},      {"sliding_window", 0},
    {"tf_legacy_loss", 0},        {"tie_encoder_decoder", 0},
    {"use_sliding_window", 0},
};

/* The line of a key of the outermost object: the parser keeps none.  0 if not seen. */
static int line_of(const char *text, const char *key)
{
    size_t n = strlen(key);
    int line = 1, depth = 0;

    for (const char *p = text; *p; p++) {
        if (*p == '\n')
            line++;
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (*p != '"')
            continue;
        const char *start = p + 1;
        for (p++; *p && *p != '"'; p++)
            p += *p == '\\' && p[1];
        if (!*p)
            break;
        size_t after = 1 + strspn(p + 1, " \t\r\n");
        if (depth == 1 && (size_t)(p - start) == n && memcmp(start, key, n) == 0 &&
            p[after] == ':')
            return line;
    }
    return 0;
}

#define FAIL(c, key, ...) err_at((c)->err, (c)->name, line_of((c)->text, key), key, __VA_ARGS__)

static const char *kind_of(const json_t *v)
{
    static const char *const names[] = {"an object", "a list", "a text", "a whole number",
                                        "a number",  "true",   "false",  "null"};

    return names[json_typeof(v)];
}

/* A whole number within bounds; absent: *out stays.  null_ok: null counts as absent. */
static int get_int(const struct config *c, const char *key, int64_t hi, int null_ok,
                   int64_t *out)
{
    json_t *v = json_object_get(c->root, key);

    if (!v || (null_ok && json_is_null(v)))
        return 0;
    if (!json_is_integer(v))
        return FAIL(c, key, "is %s, expected a whole number from 1 to %" PRId64, kind_of(v),
                    hi);
    int64_t n = json_integer_value(v);
    if (n < 1 || n > hi)
        return FAIL(c, key, "is %" PRId64 ", expected a whole number from 1 to %" PRId64, n,
                    hi);
    *out = n;
    return 0;
}

/* A number above 0, or 0 where zero_ok; absent: *out stays. */
static int num_of(const struct config *c, const char *key, const json_t *v, int zero_ok,
                  double *out)
{
    if (!v)
        return 0;
    const char *want = zero_ok ? "a number, 0 or above" : "a number above 0";
    if (!json_is_number(v))
        return FAIL(c, key, "is %s, expected %s", kind_of(v), want);
    double d = json_number_value(v);
    if (d < 0 || (d == 0 && !zero_ok) || d > 1e30)
        return FAIL(c, key, "is %g, expected %s", d, want);
    *out = d;
    return 0;
}

static int get_num(const struct config *c, const char *key, int zero_ok, double *out)
{
    return num_of(c, key, json_object_get(c->root, key), zero_ok, out);
}

static int check_family(const struct config *c)
{
    json_t *type = json_object_get(c->root, "model_type");
    json_t *list = json_object_get(c->root, "architectures");

    if (type && !(json_is_string(type) && strcmp(json_string_value(type), "llama") == 0))
        return FAIL(c, "model_type", "is %s%s%s, expected \"llama\"",
                    json_is_string(type) ? "\"" : "",
                    json_is_string(type) ? json_string_value(type) : kind_of(type),
                    json_is_string(type) ? "\"" : "");
    if (!list && !type)
        return FAIL(c, "model_type", "is missing, expected \"llama\"");
    if (!list || json_is_null(list))
        return 0;
    json_t *first = json_array_get(list, 0);
    if (json_array_size(list) != 1 || !json_is_string(first))
        return FAIL(c, "architectures",
                    "is not a list of one name, expected "
                    "[\"LlamaForCausalLM\"]");
    if (strcmp(json_string_value(first), "LlamaForCausalLM"))
        return FAIL(c, "architectures", "is [\"%s\"], expected [\"LlamaForCausalLM\"]",
                    json_string_value(first));
    return 0;
}

static int key_known(const char *key)
{
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], key) == 0)
            return 1;
    return 0;
}

static int check_keys(const struct config *c)
{
    const char *key;
    json_t *v;

    json_object_foreach(c->root, key, v)
    {
        size_t i = 0, n = sizeof fixed / sizeof *fixed;
        while (i < n && strcmp(fixed[i].key, key))
            i++;
        if (i == n) {
            if (!key_known(key))
                return FAIL(c, key,
                            "is not a key known for the llama family: it may change "
                            "the network");
            continue;
        }
        double d = json_is_true(v) ? 1 : json_is_number(v) ? json_number_value(v) : 0;
        if (!json_is_null(v) && !json_is_boolean(v) && !json_is_number(v))
            return FAIL(c, key, "is %s, expected %g", kind_of(v), fixed[i].value);
        if (!json_is_null(v) && d != fixed[i].value)
            return FAIL(c, key, "is %g, expected %g: another value is not supported", d,
                        fixed[i].value);
    }
    v = json_object_get(c->root, "quantization_config");
    if (v && !json_is_null(v))
        return FAIL(c, "quantization_config", "is there: quantized weights are not supported");
    return 0;
}

/* rope_scaling, or rope_parameters of transformers 5: only the plain type. */
static int read_rope(const struct config *c, const char *key, double *theta)
{
    json_t *rope = json_object_get(c->root, key), *v;
    const char *part;

    if (!rope || json_is_null(rope))
        return 0;
    if (!json_is_object(rope))
        return FAIL(c, key, "is %s, expected null or an object", kind_of(rope));
    json_object_foreach(rope, part, v)
    {
        int type = strcmp(part, "rope_type") == 0 || strcmp(part, "type") == 0;
        if (type && !(json_is_string(v) && strcmp(json_string_value(v), "default") == 0))
            return FAIL(c, key, "has %s \"%s\", expected \"default\"", part,
                        json_is_string(v) ? json_string_value(v) : kind_of(v));
        if (type)
            continue;
        if (strcmp(part, "rope_theta"))
            return FAIL(c, key, "has '%s': only the type \"default\" is supported", part);
        if (num_of(c, key, v, 0, theta))
            return -1;
    }
    return 0;
}

static int read_dtype(const struct config *c, struct model *m)
{
    static const char *const words[][2] = {
        {"float32", "f32"}, {"bfloat16", "bf16"}, {"float16", "f16"}};
    static const char *const keys[] = {"torch_dtype", "dtype"};
    const char *seen = NULL;

    strcpy(m->dtype, "f32");
    for (size_t k = 0; k < 2; k++) {
        json_t *v = json_object_get(c->root, keys[k]);
        if (!v || json_is_null(v))
            continue;
        const char *word = json_is_string(v) ? json_string_value(v) : kind_of(v);
        size_t i = 0;
        while (i < 3 && strcmp(words[i][0], word))
            i++;
        if (i == 3)
            return FAIL(c, keys[k], "is %s, expected float32, bfloat16 or float16", word);
        if (seen && strcmp(seen, word))
            return FAIL(c, keys[k], "is %s, but 'torch_dtype' is %s", word, seen);
        seen = word;
        strcpy(m->dtype, words[i][1]);
    }
    return 0;
}

static int read_words(const struct config *c, struct model *m)
{
    json_t *act = json_object_get(c->root, "hidden_act");
    json_t *tied = json_object_get(c->root, "tie_word_embeddings");

    if (act && !(json_is_string(act) && (strcmp(json_string_value(act), "silu") == 0 ||
                                         strcmp(json_string_value(act), "swish") == 0)))
        return FAIL(c, "hidden_act", "is %s, expected silu",
                    json_is_string(act) ? json_string_value(act) : kind_of(act));
    if (tied && !json_is_boolean(tied))
        return FAIL(c, "tie_word_embeddings", "is %s, expected true or false", kind_of(tied));
    m->tied = json_is_true(tied);
    return 0;
}

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
    if (get_int(c, "vocab_size", 1 << 24, 0, &m->vocab) ||
        get_int(c, "hidden_size", 1 << 20, 0, &m->hidden) ||
        get_int(c, "intermediate_size", 1 << 22, 0, &m->ffn) ||
        get_int(c, "num_hidden_layers", 1 << 14, 0, &m->layers) ||
        get_int(c, "num_attention_heads", 1 << 14, 0, &m->heads) ||
        get_int(c, "max_position_embeddings", INT64_C(1) << 31, 0, &m->max_seq))
        return -1;
    m->kv_heads = m->heads;
    m->head_dim = m->hidden / m->heads; /* rounded down, as the family does */
    if (get_int(c, "num_key_value_heads", m->heads, 1, &m->kv_heads) ||
        get_int(c, "head_dim", 1 << 16, 1, &m->head_dim))
        return -1;
    if (m->heads % m->kv_heads)
        return FAIL(c, "num_key_value_heads",
                    "is %" PRId64 ", expected a divisor of "
                    "num_attention_heads, which is %" PRId64,
                    m->kv_heads, m->heads);
    /* Rotary embedding turns pairs of elements. */
    if (m->head_dim < 2 || m->head_dim % 2)
        return FAIL(c, "head_dim", "is %" PRId64 ", expected an even number", m->head_dim);
    if (m->heads * m->head_dim > 1 << 24)
        return FAIL(c, "head_dim",
                    "times num_attention_heads is %" PRId64 ", expected at most %d",
                    m->heads * m->head_dim, 1 << 24);
    return 0;
}

static int read_keys(const struct config *c, struct model *m)
{
    m->rope.theta = 10000;
    m->norm = MODEL_NORM_RMS;
    m->ffn_type = MODEL_FFN_SWIGLU;
    m->norm_eps = 1e-6;
    m->init_std = 0.02;
    if (!json_is_object(c->root))
        return err_at(c->err, c->name, 0, NULL, "is %s, expected an object", kind_of(c->root));
    if (check_family(c) || check_keys(c) || read_sizes(c, m) || read_words(c, m) ||
        read_dtype(c, m))
        return -1;
    if (get_num(c, "rope_theta", 0, &m->rope.theta) ||
        get_num(c, "rms_norm_eps", 0, &m->norm_eps) ||
        get_num(c, "initializer_range", 1, &m->init_std))
        return -1;
    return read_rope(c, "rope_scaling", &m->rope.theta) ||
                   read_rope(c, "rope_parameters", &m->rope.theta)
               ? -1
               : 0;
}

int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err)
{
    json_error_t where;
    struct config c = {.name = name, .text = text, .err = err};

    c.root = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &where);
    if (!c.root)
        return err_at(err, name, where.line, NULL, "no valid JSON: %s", where.text);
    int rc = read_keys(&c, m);
    json_decref(c.root);
    return rc;
}
