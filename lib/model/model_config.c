/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which family a Hugging Face config.json is of, and the keys that all families have.
 * Of each key it is known that it gives the network its numbers, that it must stand at the one
 * value that is built here, or that it does not touch the network.  Any other key may change
 * the network, so it is an error, never ignored.  Absent keys have the values of the family's
 * configuration class in transformers.
 */
#include <string.h>

#include "base/jtree.h"
#include "model/model_keys.h"
#include "model/model_parts.h"

static const struct model_family *const families[] = {&model_family_llama, &model_family_gpt2};
enum { FAMILIES = sizeof families / sizeof *families };

/* Do not touch the network, or only how text is drawn from it; or read below. */
static const char *const common[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "_num_labels",
    "architectures",
    "attn_implementation",
    "bos_token_id",
    "chunk_size_feed_forward",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "label2id",
    "max_length",
    "min_length",
    "model_type",
    "name_or_path",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_past",
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
    "initializer_range",
    "quantization_config",
    "tie_word_embeddings",
    "torch_dtype",
    "vocab_size",
    NULL,
};

static const struct model_fixed fixed[] = {
    {"add_cross_attention", 0}, {"is_decoder", 0},          {"is_encoder_decoder", 0},
    {"tf_legacy_loss", 0},      {"tie_encoder_decoder", 0}, {NULL, 0},
};

/* The family of a name: its own, or its architecture's; the value may be of any kind. */
static const struct model_family *find_family(const json_t *v, int architecture)
{
    for (int i = 0; i < FAMILIES; i++) {
        const char *name = architecture ? families[i]->architecture : families[i]->name;
        if (json_is_string(v) && strcmp(json_string_value(v), name) == 0)
            return families[i];
    }
    return NULL;
}

static int wrong_family(const struct config *c, const char *key, const char *is)
{
    return KEY_FAIL(c, key, "is %.80s, expected \"%s\" or \"%s\"", is, families[0]->name,
                    families[1]->name);
}

static int read_architecture(const struct config *c, const struct model_family **out)
{
    json_t *list = json_object_get(c->root, "architectures"), *first = json_array_get(list, 0);
    const struct model_family *want = *out, *have = find_family(first, 1);

    if (!list || json_is_null(list))
        return want ? 0 : wrong_family(c, "model_type", "missing");
    if (json_array_size(list) != 1 || !json_is_string(first))
        return KEY_FAIL(c, "architectures", "is not a list of one name, expected [\"%s\"]",
                        want ? want->architecture : families[0]->architecture);
    if (!have && !want)
        return KEY_FAIL(c, "architectures", "is [\"%.60s\"], expected [\"%s\"] or [\"%s\"]",
                        json_string_value(first), families[0]->architecture,
                        families[1]->architecture);
    if (!have || (want && have != want))
        return KEY_FAIL(c, "architectures", "is [\"%.60s\"], expected [\"%s\"]",
                        json_string_value(first), want->architecture);
    *out = have;
    return 0;
}

static int read_family(const struct config *c, const struct model_family **out)
{
    json_t *type = json_object_get(c->root, "model_type");
    char is[80];

    *out = find_family(type, 0);
    if (type && !*out) {
        int text = json_is_string(type);
        snprintf(is, sizeof is, "%s%.60s%s", text ? "\"" : "",
                 text ? json_string_value(type) : keys_kind(type), text ? "\"" : "");
        return wrong_family(c, "model_type", is);
    }
    return read_architecture(c, out);
}

static int is_listed(const char *const *list, const char *key)
{
    for (; *list; list++)
        if (strcmp(*list, key) == 0)
            return 1;
    return 0;
}

static const struct model_fixed *find_fixed(const struct model_fixed *list, const char *key)
{
    while (list->key && strcmp(list->key, key))
        list++;
    return list->key ? list : NULL;
}

static int check_fixed(const struct config *c, const struct model_fixed *f, const json_t *v)
{
    double d = json_is_true(v) ? 1 : json_is_number(v) ? json_number_value(v) : 0;

    if (json_is_null(v))
        return 0;
    if (!json_is_boolean(v) && !json_is_number(v))
        return KEY_FAIL(c, f->key, "is %s, expected %g", keys_kind(v), f->value);
    if (d != f->value)
        return KEY_FAIL(c, f->key, "is %g, expected %g: another value is not supported", d,
                        f->value);
    return 0;
}

static int check_keys(const struct config *c, const struct model_family *family)
{
    const char *key;
    json_t *v;

    json_object_foreach(c->root, key, v)
    {
        const struct model_fixed *f = find_fixed(fixed, key);
        if (!f)
            f = find_fixed(family->fixed, key);
        if (f && check_fixed(c, f, v))
            return -1;
        if (!f && !is_listed(common, key) && !is_listed(family->keys, key))
            return KEY_FAIL(c, key,
                            "is not a key known for the %s family: it may change the network",
                            family->name);
    }
    v = json_object_get(c->root, "quantization_config");
    if (v && !json_is_null(v))
        return KEY_FAIL(c, "quantization_config",
                        "is present: quantized weights are not supported");
    return 0;
}

static int read_dtype(const struct config *c, struct model *m)
{
    static const char *const words[] = {"float32", "bfloat16", "float16", "float64", NULL};
    static const char *const ours[] = {"f32", "bf16", "f16", "f64"};
    static const char *const keys[] = {"torch_dtype", "dtype"};
    int seen = -1;

    strcpy(m->dtype, "f32");
    for (size_t k = 0; k < 2; k++) {
        int i = -1;
        if (json_is_null(json_object_get(c->root, keys[k])))
            continue;
        if (keys_word(c, keys[k], words, &i))
            return -1;
        if (i < 0)
            continue;
        if (seen >= 0 && seen != i)
            return KEY_FAIL(c, keys[k], "is %s, but 'torch_dtype' is %s", words[i],
                            words[seen]);
        seen = i;
        strcpy(m->dtype, ours[i]);
    }
    return 0;
}

static int read_keys(const struct config *c, struct model *m, const struct model_family **out)
{
    if (!json_is_object(c->root))
        return err_at(c->err, c->name, 0, NULL, "is %s, expected an object",
                      keys_kind(c->root));
    if (read_family(c, out) || check_keys(c, *out))
        return -1;
    strcpy(m->family, (*out)->name);
    m->init_std = 0.02;
    return (*out)->read(c, m) || read_dtype(c, m) ||
                   keys_num(c, "initializer_range", 1, &m->init_std)
               ? -1
               : 0;
}

int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err)
{
    const struct model_family *family = NULL;
    struct config c = {.name = name, .text = text, .err = err};

    if (jtree_read(name, text, bytes, &c.root, err))
        return -1;
    int rc = read_keys(&c, m, &family);
    json_decref(c.root);
    if (rc == 0)
        family->units(m);
    return rc;
}
