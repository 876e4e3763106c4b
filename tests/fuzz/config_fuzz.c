/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a model's config.json. */
#include "reader_fuzz.h"

#include <math.h>

#include "base/jtree.h"
#include "shard/shard_parts.h"
#include "model/model.h"

static void check_units(const struct model *m)
{
    int64_t params = 0;
    int tensors = 0;

    assert(m->units >= 2 && m->visits == m->layers + 2);
    for (int u = 0; u < m->units; u++) {
        const struct model_unit *unit = &m->unit[u];
        int64_t elems = 0;
        assert(unit->first == tensors && unit->count > 0 && unit->name[0]);
        for (int i = tensors; i < tensors + unit->count; i++) {
            const struct model_tensor *t = &m->tensor[i];
            assert(t->unit == u && t->offset == elems && t->elems > 0 && t->name[0]);
            elems += t->elems;
        }
        assert(unit->elems == elems);
        tensors += unit->count;
        params += elems;
    }
    assert(tensors == m->tensors && params == m->params && params > 0);
    for (int v = 0; v < m->visits; v++)
        assert(model_unit_of_visit(m, v) < m->units);
}

/* Positions by a table, or by angles that are numbers. */
static void check_positions(const struct model *m)
{
    double scale = 0;

    if (m->positions) {
        assert(m->positions == m->max_seq && m->hidden % m->heads == 0);
        return;
    }
    double *f = mem_new((size_t)m->head_dim / 2, sizeof *f);
    for (int64_t seq = 1; seq <= m->max_seq; seq *= 7) {
        model_rope_frequencies(m, MODEL_ROPE, seq, f, &scale);
        assert(isfinite(scale) && scale > 0);
        for (int64_t i = 0; i < m->rotary / 2; i++)
            assert(isfinite(f[i]) && f[i] >= 0);
    }
    mem_free(f);
}

/* Any part of it trains: the units tile as before, and what trains lies in front. */
static void check_parts(const char *text, size_t bytes)
{
    static const char *const what[] = {"freeze=*.0.*", "train=*.1.*", "lora=3"};

    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        struct model m = {0};
        struct err err = {0};
        assert(model_parse(&m, FUZZ_NAME, text, (int64_t)bytes, &err) == 0);
        int64_t trained = 0;
        if (model_train(&m, what[i], &err) == 0) {
            check_units(&m);
            for (int k = 0; k < m.tensors; k++)
                trained += model_trains(&m, &m.tensor[k]) ? m.tensor[k].elems : 0;
            assert(trained == m.trained && trained > 0 && trained <= m.params);
        } else { /* there may be no layer 1 */
            assert(err.code == ERR_INPUT && err.text[0] && i == 1 && m.layers == 1);
        }
        model_release(&m);
    }
}

/* The tree is jansson's where jansson makes one, and none where jansson finds no JSON. */
static void check_tree(const char *text, size_t bytes)
{
    json_error_t why = {0}, other;
    json_t *is = jtree_load(text, (int64_t)bytes, &other);
    json_t *want =
        memchr(text, 0, bytes) ? NULL : json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    enum json_error_code code = json_error_code(&why);

    if (want)
        assert(json_equal(is, want));
    else if (code == json_error_invalid_syntax || code == json_error_invalid_utf8 ||
             code == json_error_premature_end_of_input ||
             code == json_error_end_of_input_expected)
        assert(!is || memmem(text, bytes, "NaN", 3) || memmem(text, bytes, "Infinity", 8));
    json_decref(is);
    json_decref(want);
}

/* The same with another type of the weights: that word differs, or is added, and no other. */
static void check_typed(const struct model *m)
{
    char *text = hf_config_as(m->config, DTYPE_F16);
    int said = 0;
    json_error_t why;
    json_t *was = jtree_load(m->config, (int64_t)strlen(m->config), &why), *v;
    json_t *is = jtree_load(text, (int64_t)strlen(text), &why);
    const char *key;
    assert(was && is);
    json_object_foreach(is, key, v)
    {
        int typed = strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0;
        if (typed)
            assert(strcmp(json_string_value(v), "float16") == 0);
        else
            assert(json_equal(v, json_object_get(was, key)));
        said += typed;
    }
    size_t keys = json_object_size(was);
    assert(said && (json_object_size(is) == keys || json_object_size(is) == keys + 1));
    json_decref(was);
    json_decref(is);
    mem_free(text);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct model m = {0};
    struct err err = {0};

    char *text = fuzz_copy(data, bytes);
    check_tree(text, bytes);
    int rc = model_parse(&m, FUZZ_NAME, text, (int64_t)bytes, &err);
    if (rc == 0 && m.tensors < 500) /* of larger ones there is no more to see */
        check_parts(text, bytes);
    mem_free(text);
    if (fuzz_judge(rc, &err))
        return 0;
    check_units(&m);
    assert(memcmp(m.config, data, bytes) == 0 && m.config[bytes] == 0);
    assert(m.head_dim * m.heads > 0 && m.norm_eps > 0 && m.init_std >= 0);
    assert(m.dropout >= 0 && m.dropout <= 1 && m.kv_heads > 0);
    check_positions(&m);
    check_typed(&m);
    double flops = model_flops_per_token(&m, m.max_seq);
    assert(isfinite(flops) && flops > 0 && model_largest_unit(&m) <= m.params);
    model_release(&m);
    return 1;
}

#define LLAMA                                                                                  \
    "{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n \"num_attention_heads\": 4,\n"       \
    " \"num_hidden_layers\": 1,\n \"vocab_size\": 9,\n "
static const char yarn[] = LLAMA "\"rope_scaling\": {\"type\": \"yarn\",\n"
                                 " \"factor\": 4.0,\n"
                                 " \"truncate\": false,\n"
                                 " \"beta_fast\": 32,\n"
                                 " \"mscale\": 1,\n"
                                 " \"mscale_all_dim\": 0.5,\n"
                                 " \"original_max_position_embeddings\": 1024}}\n";
static const char llama3[] = LLAMA "\"rope_parameters\": {\"rope_type\": \"llama3\",\n"
                                   " \"factor\": 8.0,\n"
                                   " \"low_freq_factor\": 1.0,\n"
                                   " \"high_freq_factor\": 4.0,\n"
                                   " \"rope_theta\": 500000.0}}\n";
static const char dynamic[] = LLAMA "\"rope_scaling\": {\"type\": \"dynamic\",\n"
                                    " \"factor\": 2.0}}\n";

FUZZ_SET(.name = "config", .cases = 8000, .ends = " \n:,{}[]",
         .words = FUZZ_LIST("0", "-1", "1", "2", "1e3", "1.5", "null", "true", "\"x\"", "[]",
                            "{}", "16384", "16385", "1048576", "16777216", "16777217",
                            "2147483648", "9223372036854775807", "9223372036854775808", "1e308",
                            "1e-320", "\"head_dim\"", "\"rope_theta\"", "\"hidden_size\"",
                            "\"rope_scaling\"", "\"num_hidden_layers\"", "\"rope_parameters\"",
                            "\"rope_type\"", "\"yarn\"", "\"longrope\"", "\"llama3\"",
                            "\"dynamic\"", "\"factor\"", "\"gpt2\"", "\"n_inner\"", "\"n_ctx\"",
                            "\xff", "\\u0000"),
         .files = FUZZ_LIST("examples/models/llama-tiny.json", "tests/data/llama_tied.json",
                            "tests/data/llama_untied.json", "examples/models/gpt2-tiny.json",
                            "examples/models/gpt2-124m.json", "tests/data/mistral.json",
                            "tests/data/qwen2.json", "tests/data/qwen3.json",
                            "tests/data/smollm3.json", "tests/data/phi3.json",
                            "tests/data/gemma3.json"),
         .text = {FUZZ_TEXT(yarn), FUZZ_TEXT(llama3), FUZZ_TEXT(dynamic)});
