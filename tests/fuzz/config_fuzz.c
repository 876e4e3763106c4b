/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a model's config.json. */
#include "reader_fuzz.h"

#include <math.h>

#include "value/value_tree.h"
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

/* libyaml's tree of a text that both take has the same values: JSON is YAML but for escapes. */
static int same_as_yaml(const struct tree_node *j, const struct tree_node *y)
{
    const struct tree_node *a = j->child, *b = y->child;
    int same = j->kind == TREE_NULL     ? strcmp(y->text, "null") == 0
               : j->kind == TREE_SCALAR ? y->text && strcmp(j->text, y->text) == 0
                                        : j->kind == y->kind && j->items == y->items;

    for (; same && a; a = a->next, b = b->next)
        same = (!a->key || strcmp(a->key, b->key) == 0) && same_as_yaml(a, b);
    return same;
}

static void check_tree(const char *text, size_t bytes)
{
    struct tree strict = {0}, loose = {0}, yaml = {0};
    struct err err;
    int rc = tree_parse_json(&strict, FUZZ_NAME, 1, text, (int64_t)bytes, &err);
    int other = tree_parse_loose(&loose, FUZZ_NAME, 1, text, (int64_t)bytes, &err);

    assert(rc || other == 0); /* a strict text is a loose one, too */
    if (rc == 0 && tree_parse(&yaml, FUZZ_NAME, text, (int64_t)bytes, &err) == 0)
        assert(same_as_yaml(strict.root, yaml.root));
    tree_release(&strict);
    tree_release(&loose);
    tree_release(&yaml);
}

static void read_tree(struct tree *t, const char *text)
{
    struct err err;
    int rc = tree_parse_loose(t, FUZZ_NAME, 1, text, (int64_t)strlen(text), &err);

    assert(rc == 0);
}

/* The same with another type of the weights: that word differs, or is added, and no other. */
static void check_typed(const struct model *m)
{
    char *text = hf_config_as(m->config, DTYPE_F16);
    int changed = 0;
    struct tree was, is;

    read_tree(&was, m->config);
    read_tree(&is, text);
    for (const struct tree_node *v = is.root->child; v; v = v->next) {
        const struct tree_node *old = tree_find(was.root, v->key);
        int typed = strcmp(v->key, "dtype") == 0 || strcmp(v->key, "torch_dtype") == 0;
        assert(typed ? strcmp(tree_string(v), "float16") == 0 : old && tree_equal(v, old));
        changed += typed;
    }
    int keys = was.root->items;
    assert(changed && (is.root->items == keys || is.root->items == keys + 1));
    tree_release(&was);
    tree_release(&is);
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
