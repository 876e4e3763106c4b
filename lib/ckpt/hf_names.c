/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows under which names a model's tensors lie in the files that people have: with or without
 * the family's base, a tied head written once more, and buffers of old versions that are no
 * parameters.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/hf.h"

enum { CHUNK_BYTES = 1 << 20 };

static int matches(const char *pattern, const char *name)
{
    size_t before = strcspn(pattern, "%"), digits;

    if (strncmp(pattern, name, before))
        return 0;
    digits = strspn(name + before, "0123456789");
    return digits > 0 && strcmp(pattern + before + 1, name + before + digits) == 0;
}

static int is_buffer(const struct model_family *f, const char *name)
{
    for (const char *const *b = f->buffers; b && *b; b++)
        if (matches(*b, name))
            return 1;
    return 0;
}

/* "lm_head.weight" */
static void head_name(const struct model *m, char name[128])
{
    snprintf(name, 128, "%s.weight", m->family->modules[model_module(m, MODEL_HEAD)].name);
}

enum hf_role hf_role(const struct model *m, const char *name, const struct model_tensor **t)
{
    const char *base = m->family->base;
    char head[128], full[256];

    snprintf(full, sizeof full, "%s%.127s", base ? base : "", name);
    head_name(m, head);
    *t = model_find(m, name);
    if (*t)
        return HF_OURS;
    if (is_buffer(m->family, name) || is_buffer(m->family, full))
        return HF_BUFFER;
    if (m->tied && strcmp(name, head) == 0) {
        *t = model_find_module(m, -1, model_module(m, MODEL_HEAD), 0);
        return HF_TIED;
    }
    if (base && strlen(name) < sizeof m->tensor->name)
        *t = model_find(m, full);
    return *t ? HF_OURS : HF_UNKNOWN;
}

/* The first byte at which two tensors of one size differ, or -1. */
static int first_gap(const struct hf *hf, struct hf_place a, struct hf_place b, int64_t *gap,
                     struct err *err)
{
    char *x = mem_new(CHUNK_BYTES, 1), *y = mem_new(CHUNK_BYTES, 1);
    int64_t bytes = a.t->last - a.t->first;
    int rc = 0;

    *gap = -1;
    for (int64_t at = 0; rc == 0 && *gap < 0 && at < bytes; at += CHUNK_BYTES) {
        int64_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        rc = ckpt_stopped(hf->stop, err) || st_read(&hf->file[a.file], a.t, at, n, x, err) ||
                     st_read(&hf->file[b.file], b.t, at, n, y, err)
                 ? -1
                 : 0;
        for (int64_t i = 0; rc == 0 && *gap < 0 && i < n; i++)
            if (x[i] != y[i])
                *gap = at + i;
    }
    mem_free(x);
    mem_free(y);
    return rc;
}

int hf_check_tied(const struct hf *hf, struct err *err)
{
    const struct model_tensor *t = NULL;
    int file = 0;
    int64_t gap = -1;
    char head[128];

    head_name(hf->model, head);
    const struct st_tensor *twice = hf_find(hf, head, &file);

    if (!twice || hf_role(hf->model, head, &t) != HF_TIED)
        return 0;
    const struct hf_place *first = &hf->place[t - hf->model->tensor];
    const char *path = hf->file[file].path;
    char have[256], need[256];
    st_print_shape(twice, have, sizeof have);
    st_print_shape(first->t, need, sizeof need);
    if (strcmp(have, need))
        return err_at(err, path, 0, head, "is %s, expected %s as '%s', to which it is tied",
                      have, need, first->t->name);
    if (first_gap(hf, (struct hf_place){file, twice}, *first, &gap, err))
        return -1;
    if (gap < 0)
        return 0;
    return err_at(err, path, 0, head,
                  "differs from '%s', to which the config ties it, from element %" PRId64
                  " on: tie_word_embeddings false would keep both",
                  first->t->name, gap / st_type_bytes(twice->type));
}
