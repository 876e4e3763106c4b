/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_CKPT_FIXTURE_H
#define TESTS_UNIT_CKPT_FIXTURE_H

#include "ckpt/ckpt_write.h"
#include "temp_fixture.h"

/* Makes a checkpoint of a small model, of which every value is known; after unit.h. */
static const char config[] =
    "{\"model_type\":\"llama\",\"vocab_size\":13,\"hidden_size\":6,\"intermediate_size\":5,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":3}";

/* The value every element of every state has: exact in bf16 for params, any for the rest. */
static float value(int unit, int state, int64_t i)
{
    return state == 0 ? (float)((unit * 37 + i) % 251 - 125)
                      : (float)i + (float)unit / 7 + state;
}

static int fill(void *arg, int unit, int state, struct range at, void *out, struct err *why)
{
    struct ckpt_shape *shape = arg;
    float v;

    (void)why;
    for (int64_t i = at.lo; i < at.hi; i++) {
        v = value(unit, state, i);
        dtype_convert((char *)out + (i - at.lo) * dtype_bytes(shape->state[state].type),
                      shape->state[state].type, &v, DTYPE_F32, 1);
    }
    return 0;
}

struct fixture {
    char dir[TEMP_PATH];
    struct model model;
    struct layout layout;
    struct ckpt_shape shape;
};

/* In a new folder; run NULL: of none. */
static void write_ckpt(struct fixture *f, const char *groups_text, const char *what,
                       const struct ckpt_run *run)
{
    struct groups g;

    temp_folder(f->dir, "paro-ckpt");
    assert_ok(model_parse(&f->model, "c.json", config, (int64_t)strlen(config), &err));
    assert_ok(model_train(&f->model, what, &err));
    assert_ok(groups_parse(&g, groups_text, &err));
    layout_init(&f->layout, &g);
    groups_release(&g);
    f->shape = (struct ckpt_shape){
        &f->model,
        &f->layout,
        "IIG",
        3,
        {{"params", DTYPE_BF16, 0}, {"master", DTYPE_F32, 0}, {"exp_avg", DTYPE_F32, 0}},
        0,
        0};
    int n = f->layout.groups.ranks;
    char **entry = mem_new((size_t)n, sizeof *entry);
    struct io_out dir = temp_open(f->dir);
    for (int r = 0; r < n; r++)
        assert_ok(ckpt_write_shard(&dir, r, 0, &f->shape, fill, &f->shape, &entry[r], &err));
    assert_ok(
        ckpt_manifest_write(&dir, &f->shape, (const char *const *)entry, run, NULL, &err));
    io_dir_leave(&dir);
    for (int r = 0; r < n; r++)
        mem_free(entry[r]);
    mem_free(entry);
}

/* The first bytes of a text, and their checksum, as a manifest. */
static void put_manifest(const char *path, const char *text, int64_t before)
{
    char hash[33];
    FILE *f = fopen(path, "w");

    ckpt_hash(text, before, hash);
    assert_non_null(f);
    fwrite(text, 1, (size_t)before, f);
    fprintf(f, ",\n\"checksum\": \"%s\"\n}\n", hash);
    fclose(f);
}

static void clean(struct fixture *f)
{
    io_remove_tree(f->dir, &err);
    layout_release(&f->layout);
    model_release(&f->model);
}

#endif
