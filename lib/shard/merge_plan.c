/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which tensor goes into which weights file and where: as the headers have it that were
 * kept, or under headers of our own.  How the bytes get there is merge_move.c's.
 */
#include "shard/merge_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "ckpt/hf.h"

static int by_tensor(const void *a, const void *b)
{
    const struct merge_tensor *x = a, *y = b;
    unsigned kx = (unsigned)x->tensor, ky = (unsigned)y->tensor; /* -1 last */

    if (kx != ky)
        return kx < ky ? -1 : 1;
    if (x->file != y->file)
        return x->file - y->file;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void merge_plan_release(struct merge_plan *p)
{
    for (int i = 0; i < p->files; i++) {
        mem_free(p->file[i].name);
        mem_free(p->file[i].head);
    }
    for (int i = 0; i < p->rests; i++)
        mem_free(p->rest[i].path);
    mem_free(p->file);
    mem_free(p->rest);
    mem_free(p->tensor);
    p->files = p->rests = p->tensors = 0;
}

/* --- as it was --- */

/* What was kept of the file's buffers, checked; *rest -1: there were none. */
static int find_rest(struct merge_plan *p, const char *name, int *rest, struct err *err)
{
    const struct ckpt_source *s = p->c->source.item, *end = s + p->c->source.count;
    char *path = NULL;

    *rest = -1;
    while (s < end && (s->keep != CKPT_KEEP_REST || strcmp(s->name, name)))
        s++;
    if (s == end)
        return 0;
    if (ckpt_find_source(p->c, s, &path, err))
        return -1;
    p->rest[p->rests] = (struct merge_rest){path, s->bytes};
    *rest = p->rests++;
    return 0;
}

/* What the kept header lists, where it lists it. */
static int add_listed(struct merge_plan *p, const struct st *st, int rest, struct err *err)
{
    int64_t at = 0;

    for (int i = 0; i < st->count; i++) {
        if (ckpt_stopped(p->c->stop, err))
            return -1;
        const struct st_tensor *to = &st->tensor[i];
        const struct model_tensor *t = NULL;
        int buffer = hf_role(&p->c->model, to->name, &t) == HF_BUFFER && rest >= 0;
        struct merge_tensor *m = &p->tensor[p->tensors];
        *m = (struct merge_tensor){.tensor = -1,
                                   .file = p->files,
                                   .offset = st->data + to->first,
                                   .bytes = to->last - to->first,
                                   .rest = rest,
                                   .at = at};
        if (buffer)
            at += m->bytes;
        if (buffer && at > p->rest[rest].bytes)
            return err_at(err, p->rest[rest].path, 0, to->name, "is missing");
        if (!buffer && (!t || model_whole(t) != to->elems || st_type_of(p->is) != to->type))
            return err_at(err, st->path, 0, to->name,
                          "differs from config.json and the manifest");
        if (!buffer)
            m->tensor = (int)(t - p->c->model.tensor);
        p->tensors++;
    }
    return 0;
}

static int restore_file(struct merge_plan *p, const struct ckpt_source *s, size_t *room,
                        const struct ckpt_limits *limits, struct err *err)
{
    char *path = NULL, *head = NULL, hash[33];
    struct st st = {.fd = -1};
    int64_t bytes = 0;
    int rest = -1;

    if (ckpt_find_source(p->c, s, &path, err))
        return -1;
    int rc = io_read_file(path, limits->header_bytes + 8, "--max-header", &head, &bytes, err);
    if (rc == 0) {
        ckpt_hash(head, bytes, hash);
        if (strcmp(hash, s->hash))
            rc = err_at(err, path, 0, NULL, "is damaged: checksum %s, expected %s", hash,
                        s->hash);
    }
    if (rc == 0)
        rc = st_parse(&st, path, head, bytes, s->whole, limits, err);
    if (rc == 0 && st.data != bytes)
        rc = err_at(err, path, 0, NULL,
                    "has %" PRId64 " bytes, expected %" PRId64 " for its header", bytes,
                    st.data);
    if (rc == 0)
        rc = find_rest(p, s->name, &rest, err);
    if (rc == 0) {
        p->tensor =
            mem_grow(p->tensor, room, (size_t)(p->tensors + st.count), sizeof *p->tensor);
        rc = add_listed(p, &st, rest, err);
    }
    if (rc == 0) {
        p->file[p->files++] = (struct merge_file){mem_dup(s->name), head, bytes, s->whole};
        head = NULL;
    }
    st_release(&st);
    mem_free(head);
    mem_free(path);
    return rc;
}

int merge_plan_restore(struct merge_plan *p, const struct ckpt_limits *limits, struct err *err)
{
    const struct ckpt *c = p->c;
    size_t room = 0;

    p->file = mem_new((size_t)c->source.count, sizeof *p->file);
    p->rest = mem_new((size_t)c->source.count, sizeof *p->rest);
    for (int i = 0; i < c->source.count; i++)
        if (c->source.item[i].keep == CKPT_KEEP_HEADER &&
            restore_file(p, &c->source.item[i], &room, limits, err))
            return -1;
    if (p->tensors)
        qsort(p->tensor, (size_t)p->tensors, sizeof *p->tensor, by_tensor);
    return 0;
}

/* --- anew --- */

/* The file with tensors [first, first + count). */
static void make_file(struct merge_plan *p, int first, int count)
{
    struct st_tensor *tensor = mem_new((size_t)count, sizeof *tensor);
    struct merge_file *f = &p->file[p->files];

    for (int i = 0; i < count; i++)
        tensor[i] =
            hf_tensor(&p->c->model.tensor[p->tensor[first + i].tensor], st_type_of(p->want));
    st_header(tensor, count, &f->head, &f->head_bytes);
    f->bytes = f->head_bytes + tensor[count - 1].last;
    for (int i = 0; i < count; i++) {
        p->tensor[first + i].file = p->files;
        p->tensor[first + i].offset = f->head_bytes + tensor[i].first;
    }
    p->files++;
    mem_free(tensor);
}

/*
 * A larger tensor has a file of its own, while the file begun before it continues after it.
 * Files have numbers in the order in which they are full.
 */
static void deal_out(struct merge_plan *p, int64_t max_shard)
{
    int *number = mem_new((size_t)p->tensors + 1, sizeof *number);
    int64_t filled = 0;
    int open = -1, begun = 0, full = 0;

    for (int i = 0; i < p->tensors; i++) {
        struct merge_tensor *t = &p->tensor[i];
        if (max_shard && t->bytes > max_shard) {
            number[begun] = full++;
            t->file = begun++;
            continue;
        }
        if (open >= 0 && max_shard && filled + t->bytes > max_shard) {
            number[open] = full++;
            open = -1;
        }
        if (open < 0) {
            open = begun++;
            filled = 0;
        }
        t->file = open;
        filled += t->bytes;
    }
    if (open >= 0)
        number[open] = full;
    for (int i = 0; i < p->tensors; i++)
        p->tensor[i].file = number[p->tensor[i].file];
    mem_free(number);
}

static int by_file(const void *a, const void *b)
{
    const struct merge_tensor *x = a, *y = b;

    return x->file != y->file ? x->file - y->file : x->tensor - y->tensor;
}

int merge_plan_make(struct merge_plan *p, int adapters, int64_t max_shard, struct err *err)
{
    const struct model *m = &p->c->model;

    if (adapters && max_shard)
        return err_set(err, ERR_INPUT,
                       "adapters are written as one file, expected --fuse or no --max-shard");
    p->tensor = mem_new((size_t)m->tensors, sizeof *p->tensor);
    p->file = mem_new((size_t)m->tensors, sizeof *p->file);
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].kind != MODEL_MASK && model_is_adapter(&m->tensor[i]) == adapters)
            p->tensor[p->tensors++] = (struct merge_tensor){
                .tensor = i,
                .bytes = model_whole(&m->tensor[i]) * dtype_bytes(p->want),
                .rest = -1};
    deal_out(p, max_shard);
    qsort(p->tensor, (size_t)p->tensors, sizeof *p->tensor, by_file);
    for (int i = 0, n; i < p->tensors; i += n) {
        for (n = 1; i + n < p->tensors && p->tensor[i + n].file == p->tensor[i].file;)
            n++;
        make_file(p, i, n);
    }
    for (int f = 0; f < p->files; f++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", f + 1, p->files);
        p->file[f].name = mem_dup(p->files > 1 ? name
                                  : adapters   ? "adapter_model.safetensors"
                                               : "model.safetensors");
    }
    qsort(p->tensor, (size_t)p->tensors, sizeof *p->tensor, by_tensor);
    return 0;
}

/* --- the index --- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct merge_place *)a)->tensor,
                  ((const struct merge_place *)b)->tensor);
}

char *merge_index(struct merge_place *place, int count, int64_t total)
{
    char *text = NULL;
    size_t used;
    struct jout j = {.file = mem_stream(&text, &used), .pretty = 1};

    qsort(place, (size_t)count, sizeof *place, by_name);
    jout_open(&j, NULL, '{');
    jout_open(&j, "metadata", '{');
    jout_int(&j, "total_size", total);
    jout_close(&j, '}');
    jout_open(&j, "weight_map", '{');
    for (int i = 0; i < count; i++)
        jout_text(&j, place[i].tensor, place[i].file);
    jout_close(&j, '}');
    jout_close(&j, '}');
    fclose(j.file);
    return text;
}

char *merge_plan_index(const struct merge_plan *p)
{
    struct merge_place *place = mem_new((size_t)p->tensors, sizeof *place);
    int64_t total = 0;

    for (int i = 0; i < p->tensors; i++) {
        const struct merge_tensor *t = &p->tensor[i];
        place[i] =
            (struct merge_place){p->c->model.tensor[t->tensor].name, p->file[t->file].name};
        total += t->bytes;
    }
    char *text = merge_index(place, p->tensors, total);
    mem_free(place);
    return text;
}
