/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a checkpoint, a folder or a file, and reads their tensors through one interface. */
#include "ckpt/ckpt_weights.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_pieces.h"

static int weights_by_name(const void *a, const void *b)
{
    return strcmp(((const struct weights_item *)a)->name,
                  ((const struct weights_item *)b)->name);
}

/* Lists a state, or what group `group` has of it. */
static void list_state(struct weights *w, int s, int group)
{
    const struct ckpt *c = &w->ckpt;
    const struct ckpt_state *state = &c->state[s];
    int params = strcmp(state->name, "params") == 0;
    char suffix[sizeof state->name + 16] = "";

    if (!params)
        snprintf(suffix, sizeof suffix, state->groups > 1 ? "/%s.%d" : "/%s", state->name,
                 group);
    for (int i = 0; i < c->model.tensors; i++) {
        const struct model_tensor *t = &c->model.tensor[i];
        if (params || model_trains(&c->model, t)) {
            struct weights_item *it = &w->item[w->count++];
            it->name = mem_new(sizeof t->name + sizeof suffix, 1);
            sprintf(it->name, "%s%s", t->name, suffix);
            it->tensor = i;
            it->state = s;
            it->before = group * c->model.unit[t->unit].trained;
            it->shape = hf_tensor(t, st_type_of(state->type));
            it->shape.name = NULL;
            if (t->block && t->kind != MODEL_MASK) { /* the vector of its active values */
                it->shape.dims = 1;
                it->shape.shape[0] = it->shape.elems = t->elems;
            }
        }
    }
}

static void list_ckpt(struct weights *w)
{
    const struct ckpt *c = &w->ckpt;
    size_t most = 0;

    for (int s = 0; s < c->states; s++)
        most += c->state[s].groups > 1 ? (size_t)c->state[s].groups : 1;
    w->item = mem_new(most * (size_t)c->model.tensors, sizeof *w->item);
    for (int s = 0; s < c->states; s++)
        for (int k = 0; k == 0 || k < c->state[s].groups; k++)
            list_state(w, s, k);
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

    int is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    new.is_ckpt = is_dir &&ckpt_is(path);
    if (is_dir && !new.is_ckpt && !hf_is(path) && !io_has(path, "adapter_config.json"))
        return err_set(err, ERR_ABSENT,
                       "'%s' has none of manifest.json, model.safetensors, " HF_INDEX_NAME
                       ", .metadata, zero and shard-*.safetensors, expected a checkpoint or a "
                       "Hugging Face folder",
                       path);
    if (new.is_ckpt ? ckpt_open(&new.ckpt, path, limits, err)
                    : hf_open(&new.hf, path, limits, err))
        return -1;
    if (new.is_ckpt)
        list_ckpt(&new);
    else
        list_hf(&new);
    for (int i = 0; i < new.count; i++)
        new.bytes += new.item[i].shape.elems *st_type_bytes(new.item[i].shape.type);
    qsort(new.item, (size_t) new.count, sizeof *new.item, weights_by_name);
    *w = new;
    return 0;
}

int weights_rename(struct weights *w, const struct model *m, struct err *err)
{
    const struct model_tensor *t;
    struct err other;        /* ignored: the caller finds mismatches */
    int kept = 0, twice = 0; /* twice: a tied head is a second copy */

    if (hf_match(&w->hf, m, &other) == 0 && hf_check_tied(&w->hf, err))
        return -1;
    for (int f = 0; f < w->hf.files; f++)
        twice |= hf_has_embedding(m, &w->hf.file[f]);
    for (int i = 0; i < w->count; i++) {
        struct weights_item *it = &w->item[i];
        char *state = w->hf.file[it->file].pieces ? pieces_state(it->name) : NULL;
        if (state)
            *state = 0;
        enum hf_role role = hf_role(m, it->name, &t);
        if ((role == HF_TIED && twice) || role == HF_BUFFER) {
            mem_free(it->name);
            continue;
        }
        if (role == HF_OURS || role == HF_TIED) {
            char *name = mem_new(strlen(it->name) + sizeof t->name + 16, 1);
            sprintf(name, "%s%s%s", t->name, state ? "/" : "", state ? state + 1 : "");
            mem_free(it->name);
            it->name = name;
        } else if (state) {
            *state = '/';
        }
        w->item[kept++] = *it;
    }
    w->count = kept;
    qsort(w->item, (size_t)kept, sizeof *w->item, weights_by_name);
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
    int64_t lo = item->before + t->offset + first;
    struct range at = {lo, lo + count};
    return ckpt_read_range(&w->ckpt, t->unit, item->state, at, w->ckpt.state[item->state].type,
                           out, err);
}

enum dtype weights_type(const struct weights *w)
{
    int params = w->is_ckpt ? ckpt_find_state(&w->ckpt, "params") : -1;

    return params >= 0 ? w->ckpt.state[params].type : w->hf.type;
}

static int hash_item(const struct weights *w, const struct weights_item *it, void *sum,
                     struct err *err)
{
    enum { PART = 4096 };
    char part[PART];
    const int64_t bytes = it->t->last - it->t->first, n = bytes < PART ? bytes : PART;
    const struct st *st = &w->hf.file[it->file];

    ckpt_hash_more(sum, it->name, (int64_t)strlen(it->name) + 1);
    ckpt_hash_more(sum, &it->shape.type, sizeof it->shape.type);
    ckpt_hash_more(sum, it->shape.shape, (int64_t)sizeof *it->shape.shape * it->shape.dims);
    for (int end = 0; end < 2; end++) {
        if (st_read(st, it->t, end ? bytes - n : 0, n, part, err))
            return -1;
        ckpt_hash_more(sum, part, n);
    }
    return 0;
}

int weights_identity(const struct weights *w, char hash[33], struct err *err)
{
    int rc = 0;

    if (w->is_ckpt) {
        ckpt_identity(&w->ckpt, hash);
        return 0;
    }
    void *sum = ckpt_hash_begin();
    for (int i = 0; rc == 0 && i < w->count; i++)
        rc = hash_item(w, &w->item[i], sum, err);
    ckpt_hash_end(sum, hash);
    return rc;
}
