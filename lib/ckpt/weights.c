/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how to look at a checkpoint, a folder and a file in one way. */
#include "ckpt/weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weights_item *)a)->name,
                  ((const struct weights_item *)b)->name);
}

static void list_ckpt(struct weights *w)
{
    const struct ckpt *c = &w->ckpt;

    w->item = mem_new((size_t)c->states * (size_t)c->model.tensors, sizeof *w->item);
    for (int s = 0; s < c->states; s++) {
        const struct ckpt_state *state = &c->state[s];
        int params = strcmp(state->name, "params") == 0;
        for (int i = 0; i < c->model.tensors; i++) {
            const struct model_tensor *t = &c->model.tensor[i];
            if (!params && !model_trains(&c->model, t))
                continue;
            struct weights_item *it = &w->item[w->count++];
            it->name = mem_new(sizeof t->name + sizeof state->name + 1, 1);
            sprintf(it->name, "%s%s%s", t->name, params ? "" : "/", params ? "" : state->name);
            it->tensor = i;
            it->state = s;
            it->shape = (struct st_tensor){.type = st_type_of(state->type),
                                           .dims = t->dims,
                                           .shape = {t->shape[0], t->shape[1]},
                                           .elems = t->elems};
        }
    }
}

static void list_hf(struct weights *w)
{
    int count = 0;

    for (int f = 0; f < w->hf.files; f++)
        count += w->hf.file[f].count;
    w->item = mem_new((size_t)count, sizeof *w->item);
    for (int f = 0; f < w->hf.files; f++) {
        for (int i = 0; i < w->hf.file[f].count; i++) {
            struct weights_item *it = &w->item[w->count++];
            it->t = &w->hf.file[f].tensor[i];
            it->name = mem_dup(it->t->name);
            it->file = f;
            it->shape = *it->t;
            it->shape.name = NULL;
        }
    }
}

int weights_open(struct weights *w, const char *path, const struct ckpt_limits *limits,
                 struct err *err)
{
    struct weights new = {0};
    struct stat st;

    new.is_ckpt = stat(path, &st) == 0 && S_ISDIR(st.st_mode) && ckpt_is(path);
    if (new.is_ckpt ? ckpt_open_within(&new.ckpt, path, limits, err)
                    : hf_open_within(&new.hf, path, limits, err))
        return -1;
    if (new.is_ckpt)
        list_ckpt(&new);
    else
        list_hf(&new);
    for (int i = 0; i < new.count; i++)
        new.bytes += new.item[i].shape.elems *st_type_bytes(new.item[i].shape.type);
    qsort(new.item, (size_t) new.count, sizeof *new.item, by_name);
    *w = new;
    return 0;
}

int weights_rename(struct weights *w, const struct model *m, struct err *err)
{
    const struct model_tensor *t;
    struct err other; /* what does not fit is for the caller to find */
    int kept = 0;

    if (hf_match(&w->hf, m, &other) == 0 && hf_check_tied(&w->hf, err))
        return -1;

    for (int i = 0; i < w->count; i++) {
        struct weights_item *it = &w->item[i];
        enum hf_role role = hf_role(m, it->name, &t);
        if (role == HF_TIED || role == HF_BUFFER) {
            mem_free(it->name);
            continue;
        }
        if (role == HF_OURS) {
            mem_free(it->name);
            it->name = mem_dup(t->name);
        }
        w->item[kept++] = *it;
    }
    w->count = kept;
    qsort(w->item, (size_t)kept, sizeof *w->item, by_name);
    return 0;
}

void weights_close(struct weights *w)
{
    for (int i = 0; i < w->count; i++)
        mem_free(w->item[i].name);
    mem_free(w->item);
    ckpt_close(&w->ckpt);
    hf_release(&w->hf);
    *w = (struct weights){0};
}

int weights_read(struct weights *w, const struct weights_item *item, int64_t first,
                 int64_t count, void *out, struct err *err)
{
    int64_t size = st_type_bytes(item->shape.type);

    if (!w->is_ckpt)
        return st_read(&w->hf.file[item->file], item->t, first * size, count * size, out, err);
    const struct model_tensor *t = &w->ckpt.model.tensor[item->tensor];
    struct range at = {t->offset + first, t->offset + first + count};
    return ckpt_read_ranges(&w->ckpt, t->unit, item->state, &at, 1,
                            w->ckpt.state[item->state].type, out, err);
}
