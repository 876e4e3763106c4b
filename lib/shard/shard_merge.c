/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a checkpoint as a folder: the folder that was split, byte for byte; or from a run's
 * checkpoint a folder for transformers, or for PEFT if adapters train.  Assigns tensors to
 * files and offsets, from the kept headers or for new headers.  Leaves moving the bytes to
 * shard_merge_move.c.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "ckpt/ckpt_hf.h"
#include "shard/shard_carry.h"
#include "shard/shard_merge_plan.h"
#include "shard/shard_parts.h"
#include "shard/shard_peft.h"

/* --- the plan --- */

static int by_tensor(const void *a, const void *b)
{
    const struct merge_tensor *x = a, *y = b;
    unsigned kx = (unsigned)x->tensor, ky = (unsigned)y->tensor; /* -1 sorts last */

    if (kx != ky)
        return kx < ky ? -1 : 1;
    int c = MEM_ORDER(x, y, file);
    return c ? c : MEM_ORDER(x, y, offset);
}

static void merge_plan_release(struct merge_plan *p)
{
    for (int i = 0; i < p->files; i++) {
        mem_free(p->file[i].name);
        mem_free(p->file[i].head);
    }
    for (int i = 0; i < p->rests; i++)
        mem_free(p->rest[i].path);
    MEM_FREE(p->file, p->rest, p->tensor);
    p->files = p->rests = p->tensors = 0;
}

/* --- restoring the original files --- */

/* Finds and checks the kept buffers of the file; *rest -1: there are none. */
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

/* Adds the tensors that the kept header lists, at their offsets. */
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

static int restore_file(struct merge_plan *p, const struct ckpt_source *s, size_t *space,
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
            mem_grow(p->tensor, space, (size_t)(p->tensors + st.count), sizeof *p->tensor);
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

/* Plans the original files from the headers kept in source/, which are checked. */
static int merge_plan_restore(struct merge_plan *p, const struct ckpt_limits *limits,
                              struct err *err)
{
    const struct ckpt *c = p->c;
    size_t space = 0;

    p->file = mem_new((size_t)c->source.count, sizeof *p->file);
    p->rest = mem_new((size_t)c->source.count, sizeof *p->rest);
    for (int i = 0; i < c->source.count; i++)
        if (c->source.item[i].keep == CKPT_KEEP_HEADER &&
            restore_file(p, &c->source.item[i], &space, limits, err))
            return -1;
    if (p->tensors)
        qsort(p->tensor, (size_t)p->tensors, sizeof *p->tensor, by_tensor);
    return 0;
}

/* --- new files --- */

/*
 * Assigns tensors to files.  A tensor larger than max_shard gets a file of its own; the file
 * begun before it continues after it.  Files are numbered in the order in which they fill up.
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

/*
 * Plans new files with the model's tensors, or only its adapters.  max_shard (0: no limit)
 * splits like transformers: in the order of the tensors, a tensor that would exceed it goes to
 * the next file, and a larger tensor gets a file of its own.
 */
static int merge_plan_make(struct merge_plan *p, int adapters, int64_t max_shard,
                           struct err *err)
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
        struct st_tensor *tensor = mem_new((size_t)n, sizeof *tensor);
        struct merge_file *file = &p->file[p->files];
        for (int k = 0; k < n; k++)
            tensor[k] = hf_tensor(&m->tensor[p->tensor[i + k].tensor], st_type_of(p->want));
        st_header(tensor, n, &file->head, &file->head_bytes);
        file->bytes = file->head_bytes + tensor[n - 1].last;
        for (int k = 0; k < n; k++) {
            p->tensor[i + k].file = p->files;
            p->tensor[i + k].offset = file->head_bytes + tensor[k].first;
        }
        p->files++;
        mem_free(tensor);
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

static int merge_by_name(const void *a, const void *b)
{
    return strcmp(((const struct merge_place *)a)->tensor,
                  ((const struct merge_place *)b)->tensor);
}

char *merge_index(struct merge_place *place, int count, int64_t total)
{
    char *text = NULL;
    size_t used;
    struct jout j = {.file = mem_stream(&text, &used), .pretty = 1};

    qsort(place, (size_t)count, sizeof *place, merge_by_name);
    jout_open(&j, NULL, '{');
    jout_open(&j, "metadata", '{');
    jout_int(&j, "total_size", total);
    jout_close(&j, '}');
    jout_open(&j, "weight_map", '{');
    for (int i = 0; i < count; i++)
        jout_text(&j, place[i].tensor, place[i].file);
    jout_end(&j);
    fclose(j.file);
    return text;
}

static char *merge_plan_index(const struct merge_plan *p)
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

/* --- the whole folder --- */

/* Writes the other files next to new weights. */
static int put_beside(const struct merge_plan *p, int adapters, const struct io_out *to,
                      struct err *err)
{
    const struct model *m = &p->c->model;
    enum dtype said = DTYPE_F32;

    if (adapters) {
        /* The settings of adapters name the model that they adapt, if the checkpoint has its
           name. */
        struct ckpt *c = p->c;
        char *path = NULL, *base = NULL;
        int64_t bytes = 0;
        int rc = 0, i = ckpt_source_number(&c->source, CARRY_BASE);

        if (i < c->source.count)
            rc = err_any(ckpt_find_source(c, &c->source.item[i], &path, err) ||
                         io_read_file(path, PATH_MAX, NULL, &base, &bytes, err));
        if (rc == 0)
            rc = io_dir_take_text(to, "adapter_config.json", peft_config(&c->model, base), err);
        mem_free(path);
        mem_free(base);
        return rc;
    }
    if (p->files > 1 && io_dir_take_text(to, HF_INDEX_NAME, merge_plan_index(p), err))
        return -1;
    if (dtype_parse(m->dtype, &said, err))
        return -1;
    return io_dir_take_text(
        to, "config.json",
        said == p->want ? mem_dup(m->config) : hf_config_as(m->config, p->want), err);
}

/* Fills the folder, without renaming it; the weights take longest and come last. */
static int merge_fill_folder(struct merge_plan *p, const struct shard_merging *what,
                             const struct io_out *to, struct err *err)
{
    const struct ckpt_limits *limits =
        what->options.limits ? what->options.limits : &ckpt_limits_usual;
    struct ckpt *c = p->c;
    int adapters = c->model.lora.rank && !p->fuse;
    int headers = 0;

    for (int i = 0; i < c->source.count; i++)
        headers |= c->source.item[i].keep == CKPT_KEEP_HEADER;
    /* Without headers the original weights files cannot be restored. */
    int rewrite = !headers || what->max_shard || p->want != p->is;
    int rc = rewrite ? merge_plan_make(p, adapters, what->max_shard, err)
                     : merge_plan_restore(p, limits, err);

    for (int i = 0; rc == 0 && i < c->source.count; i++) {
        const struct ckpt_source *s = &c->source.item[i];
        int other = s->keep == CKPT_KEEP_FILE && !carry_is_inner(s->name);
        /* New weights need another index and config. */
        if (other &&
            (!rewrite || (strcmp(s->name, HF_INDEX_NAME) && strcmp(s->name, "config.json"))))
            rc = ckpt_take_source(c, s, to, to->temp, err);
    }
    if (rc == 0 && rewrite)
        rc = put_beside(p, adapters, to, err);
    if (rc == 0)
        rc = merge_move(p, to, &what->options, err);
    merge_plan_release(p);
    return rc;
}

int merge_plan_init(struct merge_plan *p, struct ckpt *c, const struct shard_merging *what,
                    struct err *err)
{
    *p =
        (struct merge_plan){.c = c, .params = ckpt_find_state(c, "params"), .fuse = what->fuse};
    if (p->params < 0)
        return err_set(err, ERR_INPUT, "'%s' has no state 'params' to merge", c->dir);
    if (p->fuse && !c->model.lora.rank)
        return err_set(err, ERR_INPUT, "'%s' has no adapters to fuse", c->dir);
    p->is = c->state[p->params].type;
    p->want = what->type ? *what->type : p->is;
    return 0;
}

int shard_merge(const char *from, const struct shard_merging *what, struct shard_target to,
                struct err *err)
{
    struct ckpt c;
    struct merge_plan plan;
    struct io_out dir;

    if (ckpt_open(&c, from, what->options.limits, err))
        return -1;
    int rc = err_any(shard_check_apart(from, to.dir, SHARD_BE_INSIDE | SHARD_BE_SOURCE, err) ||
                     merge_plan_init(&plan, &c, what, err) ||
                     io_dir_create(&dir, to.dir, to.force, err));
    if (rc == 0) {
        int bad = merge_fill_folder(&plan, what, &dir, err);
        rc = io_end(&dir, bad ? ckpt_blame(&c, err) : 0, err);
    }
    if (what->options.repaired)
        *what->options.repaired = c.repaired;
    ckpt_close(&c);
    return rc;
}
