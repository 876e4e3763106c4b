/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests adapters: PEFT's files are read, files written here equal PEFT's own, and adapters
 * added into the matrices give what PEFT's merge_and_unload gave
 * (tests/reference/dump_peft.py).
 */
#include "unit.h"

#include "shard/shard_peft.h"
#include "shard/shard.h"
#include "temp_fixture.h"
#include "words_fixture.h"

static const struct {
    const char *folder, *lora;
} cases[] = {
    {"tests/data/peft_llama", "lora=3,alpha=6,targets=q_proj+v_proj+down_proj"},
    {"tests/data/peft_gpt2", "lora=2,alpha=5,targets=c_attn+mlp.c_proj"},
};

enum { CASES = sizeof cases / sizeof *cases };

struct fixture {
    char dir[TEMP_PATH]; /* of all that is written */
    struct model model;
    struct groups groups;
    char *adapter;
    struct shard_request what;
};

static void begin(struct fixture *f, int i, const char *lora)
{
    temp_folder(f->dir, "paro-peft");
    assert_ok(model_read(&f->model, cases[i].folder, &err));
    assert_ok(model_train(&f->model, lora ? lora : cases[i].lora, &err));
    assert_ok(groups_parse(&f->groups, "[3,2]", &err));
    f->adapter = io_join(cases[i].folder, "adapter");
    f->what = (struct shard_request)LIST(.model = &f->model, .groups = &f->groups,
                                         .strategy = "IIG", .adapter = f->adapter, .seed = 1,
                                         .options = {.buffer = 64 << 20});
}

static void end(struct fixture *f)
{
    io_remove_tree(f->dir, &err);
    mem_free(f->adapter);
    groups_release(&f->groups);
    model_release(&f->model);
}

static char *in(const struct fixture *f, const char *name)
{
    return io_join(f->dir, name);
}

static void split(struct fixture *f, int i, const char *name)
{
    char *to = in(f, name);

    if (shard_split(cases[i].folder, &f->what, (struct shard_target){to, 0}, &err))
        fail_msg("%s", err.text);
    mem_free(to);
}

static void merge(struct fixture *f, const char *name, int fuse, const char *to)
{
    char *from = in(f, name), *dir = in(f, to);

    if (shard_merge(from,
                    &(struct shard_merging){.fuse = fuse, .options = {.buffer = 64 << 20}},
                    (struct shard_target){dir, 0}, &err))
        fail_msg("%s", err.text);
    mem_free(from);
    mem_free(dir);
}

/* A tensor's elements, in double precision. */
static double *values(const char *dir, const char *file, const char *name, int64_t *count)
{
    char *path = io_join(dir, file);
    struct st st;

    assert_ok(st_open(&st, path, NULL, &err));
    const struct st_tensor *t = st_find(&st, name);
    if (!t)
        fail_msg("%s has no %s", path, name);
    float *raw = mem_new((size_t)t->elems, sizeof *raw);
    double *out = mem_new((size_t)t->elems, sizeof *out);
    assert_string_equal(st_type_name(t->type), "F32");
    assert_ok(st_read(&st, t, 0, t->elems * 4, raw, &err));
    for (int64_t i = 0; i < t->elems; i++)
        out[i] = raw[i];
    *count = t->elems;
    mem_free(raw);
    mem_free(path);
    st_release(&st);
    return out;
}

static void same_values(const char *dir, const char *file, const char *dir2, const char *file2,
                        const char *name)
{
    int64_t n = 0, n2 = 0;
    double *a = values(dir, file, name, &n), *b = values(dir2, file2, name, &n2);

    assert_int_equal(n, n2);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    mem_free(a);
    mem_free(b);
}

/*
 * PEFT adds in float32: rank products and their sum err by at most (rank + 1) u of the sum of
 * their sizes, the scale by u of it, the addition by u of the result; here all is rounded once.
 */
static void check_fused(const struct fixture *f, int i, const char *fused,
                        const struct model_tensor *t)
{
    const double u = 0x1p-24;
    int64_t n = 0, r = f->model.lora.rank;
    double scale = f->model.lora.alpha / (double)r;
    double *have = values(fused, "model.safetensors", t->name, &n);
    double *want = values(cases[i].folder, "fused.safetensors", t->name, &n);
    double *w = values(cases[i].folder, "model.safetensors", t->name, &n);
    int64_t in_a = 0, in_b = 0, moved = 0;
    double *a = values(f->adapter, "adapter_model.safetensors",
                       model_adapter(&f->model, t, MODEL_LORA_A)->name, &in_a);
    double *b = values(f->adapter, "adapter_model.safetensors",
                       model_adapter(&f->model, t, MODEL_LORA_B)->name, &in_b);

    for (int64_t e = 0; e < n; e++) {
        int64_t row = e / t->shape[1], col = e % t->shape[1], inputs = in_a / r;
        int64_t x = t->transposed ? row : col, y = t->transposed ? col : row;
        double sizes = 0;
        for (int64_t k = 0; k < r; k++)
            sizes += fabs(a[k * inputs + x] * b[y * r + k]);
        double bound = u * ((double)(r + 2) * scale * sizes + 2 * fabs(want[e]));
        if (!(fabs(have[e] - want[e]) <= bound))
            fail_msg("%s[%ld]: %.9g, expected %.9g", t->name, (long)e, have[e], want[e]);
        moved += have[e] != w[e];
    }
    assert_true(moved > n / 2);
    mem_free(have);
    mem_free(want);
    mem_free(w);
    mem_free(a);
    mem_free(b);
}

TEST(test_round_trip)
{
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        struct peft p = {0};
        begin(&f, i, NULL);
        split(&f, i, "ckpt");
        merge(&f, "ckpt", 0, "back");
        merge(&f, "ckpt", 1, "fused");
        char *back = in(&f, "back"), *fused = in(&f, "fused");
        if (peft_open(&p, back, &f.model, &err)) /* its own settings and tensors */
            fail_msg("%s", err.text);
        peft_release(&p);
        for (int k = 0; k < f.model.tensors; k++) {
            const struct model_tensor *t = &f.model.tensor[k];
            if (t->kind == MODEL_LORA_A || t->kind == MODEL_LORA_B)
                same_values(back, "adapter_model.safetensors", f.adapter,
                            "adapter_model.safetensors", t->name);
            else if (model_adapter(&f.model, t, MODEL_LORA_A))
                check_fused(&f, i, fused, t);
            else
                same_values(fused, "model.safetensors", cases[i].folder, "model.safetensors",
                            t->name);
        }
        mem_free(back);
        mem_free(fused);
        end(&f);
    }
}

/* target_modules say what PEFT would adapt: the same and no more. */
TEST(test_targets)
{
    static const struct {
        int i;
        const char *lora, *said;
    } rows[] = {
        {0, "lora=3",
         "[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\",\"up_proj\","
         "\"down_proj\"]"},
        {1, "lora=3", "[\"c_attn\",\"c_proj\",\"c_fc\"]"},
        {1, "lora=3,targets=c_proj", "[\"c_proj\"]"},
        {1, "lora=3,targets=attn.c_proj", "[\"attn.c_proj\"]"},
        {1, "lora=3,targets=h.1.mlp.c_proj", "[\"1.mlp.c_proj\"]"},
    };

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct fixture f;
        char *said = mem_new(1 << 14, 1), *to = said;
        begin(&f, rows[k].i, rows[k].lora);
        char *text = peft_config(&f.model, "ORG/base");
        for (const char *p = strchr(strstr(text, "target_modules"), '['); *p; p++)
            if (*p != ' ' && *p != '\n')
                *to++ = *p;
        said[strlen(rows[k].said)] = 0;
        assert_string_equal(said, rows[k].said);
        mem_free(text);
        mem_free(said);
        end(&f);
    }
}

/* Without a folder of adapters: first values, a function of the seed; B is 0. */
TEST(test_first_values)
{
    struct fixture f;
    int64_t n = 0;
    float first[64];

    begin(&f, 0, NULL);
    f.what.adapter = NULL;
    for (int seed = 1; seed <= 2; seed++) {
        f.what.seed = (uint64_t)seed;
        split(&f, 0, seed == 1 ? "one" : "two");
        merge(&f, seed == 1 ? "one" : "two", 0, seed == 1 ? "a" : "b");
        char *dir = in(&f, seed == 1 ? "a" : "b");
        for (int i = 0; i < f.model.tensors; i++) {
            const struct model_tensor *t = &f.model.tensor[i];
            if (t->kind != MODEL_LORA_A && t->kind != MODEL_LORA_B)
                continue;
            double *v = values(dir, "adapter_model.safetensors", t->name, &n);
            assert_true(n <= 64);
            model_init_values(t, (uint64_t)seed, 0, n, first);
            for (int64_t k = 0; k < n; k++)
                assert_true(v[k] == first[k] && (v[k] != 0) == (t->kind == MODEL_LORA_A));
            mem_free(v);
        }
        mem_free(dir);
    }
    end(&f);
}

static void refuse(struct fixture *f, const char *words, enum err_code code)
{
    struct peft p = {0};

    assert_refused(peft_open(&p, f->adapter, &f->model, &err), words);
    assert_int_equal(err.code, code);
}

/* The case's adapter_config.json with one text exchanged for another. */
static void refuse_config(const char *from, const char *to, const char *words,
                          enum err_code code)
{
    struct fixture f;
    char *text = NULL, out[1 << 13], name[64];
    int64_t bytes = 0;

    begin(&f, 0, NULL);
    char *path = io_join(f.adapter, "adapter_config.json");
    assert_ok(io_read_text(path, 1 << 12, &text, &bytes, &err));
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    strcpy(name, f.dir);
    mem_free(f.adapter);
    f.adapter = mem_dup(name);
    mem_free(path);
    path = io_join(f.adapter, "adapter_config.json");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(out, file);
    fclose(file);
    refuse(&f, words, code);
    mem_free(path);
    mem_free(text);
    end(&f);
}

TEST(test_refused_configs)
{
    refuse_config("\"r\": 3", "\"r\": 4", "adapter_config.json:31: 'r' 4, plan 3",
                  ERR_MISMATCH);
    refuse_config("\"lora_alpha\": 6", "\"lora_alpha\": 7.5", "'lora_alpha' 7.5, plan 6",
                  ERR_MISMATCH);
    refuse_config("\"r\": 3", "\"r\": \"3\"", "'r' text, above 0", ERR_INPUT);
    refuse_config("\"LORA\"", "\"IA3\"", "'peft_type' IA3 LORA", ERR_INPUT);
    refuse_config("\"peft_type\"", "\"peft_version_\"", "'peft_type' missing, LORA", ERR_INPUT);
    refuse_config("\"bias\": \"none\"", "\"bias\": \"all\"", "'bias' all none", ERR_INPUT);
    refuse_config("\"use_dora\": false", "\"use_dora\": true", "'use_dora' true, null false",
                  ERR_INPUT);
    refuse_config("\"use_rslora\": false", "\"use_rslora\": true", "'use_rslora' true",
                  ERR_INPUT);
    refuse_config("\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 8}",
                  "'rank_pattern' object, null false", ERR_INPUT);
    refuse_config("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]",
                  "'modules_to_save' list", ERR_INPUT);
    refuse_config("\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"",
                  "'init_lora_weights' pissa gaussian", ERR_INPUT);
    refuse_config("\"CAUSAL_LM\"", "\"SEQ_CLS\"", "'task_type' SEQ_CLS CAUSAL_LM", ERR_INPUT);
    refuse_config("\"revision\": null", "\"use_new_thing\": 0.5",
                  "'use_new_thing' 0.5 null false", ERR_INPUT);
    refuse_config("{", "[", "adapter_config.json:", ERR_INPUT);
    /* All is well with the settings: what is missing is the weights. */
    refuse_config("\"revision\": null", "\"use_new_thing\": false",
                  "adapter_model.safetensors': No such file", ERR_ABSENT);
}

TEST(test_refused_tensors)
{
    static const struct {
        const char *lora, *said;
    } rows[] = {
        {"lora=3,alpha=6,targets=q_proj+v_proj+down_proj+up_proj",
         "'base_model.model.model.layers.0.mlp.up_proj.lora_A.weight' missing plan"},
        {"lora=3,alpha=6,targets=q_proj+v_proj",
         "down_proj.lora_A.weight' plan 'lora=3,alpha=6,targets=q_proj+v_proj'"},
    };
    struct fixture f;

    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        begin(&f, 0, rows[k].lora);
        refuse(&f, rows[k].said, ERR_MISMATCH);
        end(&f);
    }
    begin(&f, 0, "freeze=*norm*");
    char *to = in(&f, "x");
    assert_refused(shard_split(cases[0].folder, &f.what, (struct shard_target){to, 0}, &err),
                   "plan no adapters");
    f.what.adapter = NULL;
    split(&f, 0, "ckpt");
    char *from = in(&f, "ckpt");
    assert_refused(
        shard_merge(from, &(struct shard_merging){.fuse = 1, .options = {.buffer = 64 << 20}},
                    (struct shard_target){to, 0}, &err),
        "no adapters");
    merge(&f, "ckpt", 0, "back"); /* frozen or not, what was split comes back */
    mem_free(from);
    mem_free(to);
    end(&f);
}
