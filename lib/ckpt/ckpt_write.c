/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a checkpoint is written: one shard file per rank, then the manifest.  In a shard
 * file the states of wider types come first, so that every tensor is aligned to its type;
 * within a state, the units in order.  A tensor "UNIT/STATE" is the rank's G shard of the unit,
 * of what trains and then of what is frozen, its ranges one after the other; its blocks lie in
 * the file as the manifest lists them.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/st.h"

struct writer {
    const struct ckpt_shape *shape;
    int rank;
    ckpt_fill fill;
    void *arg;
    int fd;
    int64_t at;           /* where the next block goes */
    void *buffer;         /* one block */
    struct range *ranges; /* room for a G shard's */
    struct jout entry;
};

void ckpt_shard_name(int rank, char name[32])
{
    snprintf(name, 32, "shard-%05d.safetensors", rank);
}

int ckpt_tensor_at(const struct model *m, int unit, int64_t at)
{
    const struct model_unit *u = &m->unit[unit];
    int lo = u->first, hi = u->first + u->count;

    while (hi - lo > 1) { /* the last tensor that begins at or before it */
        int mid = lo + (hi - lo) / 2;
        if (m->tensor[mid].offset <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int64_t ckpt_block_end(const struct model *m, int unit, int64_t lo, int64_t hi)
{
    const struct model_tensor *t = &m->tensor[ckpt_tensor_at(m, unit, lo)];
    int64_t end = t->offset + t->elems;

    if (end - lo > CKPT_BLOCK_ELEMS)
        end = lo + CKPT_BLOCK_ELEMS;
    return end < hi ? end : hi;
}

/* Calls each state in the order of the file: wider types first. */
static int state_in_order(const struct ckpt_shape *shape, int place)
{
    for (int bytes = 8; bytes >= 1; bytes /= 2)
        for (int s = 0; s < shape->states; s++)
            if (dtype_bytes(shape->state[s].type) == bytes && place-- == 0)
                return s;
    return -1;
}

/* Of a unit's state, what the rank writes. */
static int64_t shard_elems(const struct writer *w, int unit, int state)
{
    const struct model *m = w->shape->model;

    return layout_unit_elems(w->shape->layout, LETTER_G, w->rank, m->unit[unit].trained,
                             ckpt_state_elems(m, unit, &w->shape->state[state]));
}

static void shard_header(const struct writer *w, char **text, int64_t *bytes)
{
    const struct ckpt_shape *shape = w->shape;
    int units = shape->model->units, count = 0;
    struct st_tensor *tensor = mem_new((size_t)(units * shape->states), sizeof *tensor);

    for (int place = 0; place < shape->states; place++) {
        int s = state_in_order(shape, place);
        const struct ckpt_state *state = &shape->state[s];
        for (int u = 0; u < units; u++) {
            const struct model_unit *unit = &shape->model->unit[u];
            struct st_tensor *t = &tensor[count++];
            t->name = mem_new(sizeof unit->name + sizeof state->name + 1, 1);
            sprintf(t->name, "%s/%s", unit->name, state->name);
            t->type = st_type_of(state->type);
            t->dims = 1;
            t->shape[0] = shard_elems(w, u, s);
        }
    }
    st_header(tensor, count, text, bytes);
    for (int i = 0; i < count; i++)
        mem_free(tensor[i].name);
    mem_free(tensor);
}

static int write_block(struct writer *w, int unit, int state, struct range at, struct err *err)
{
    int64_t bytes = (at.hi - at.lo) * dtype_bytes(w->shape->state[state].type);
    char hash[33];

    if (w->fill(w->arg, unit, state, at, w->buffer, err) ||
        io_pwrite_all(w->fd, w->buffer, bytes, w->at, err))
        return -1;
    ckpt_hash(w->buffer, bytes, hash);
    w->at += bytes;
    jout_open(&w->entry, NULL, '[');
    jout_int(&w->entry, NULL, at.lo);
    jout_int(&w->entry, NULL, at.hi);
    jout_text(&w->entry, NULL, hash);
    jout_close(&w->entry, ']');
    return 0;
}

static int write_unit(struct writer *w, int unit, int state, struct err *err)
{
    const struct model *m = w->shape->model;
    int n = layout_unit_ranges(w->shape->layout, LETTER_G, w->rank, m->unit[unit].trained,
                               ckpt_state_elems(m, unit, &w->shape->state[state]), w->ranges);

    jout_open(&w->entry, NULL, '{');
    jout_text(&w->entry, "unit", m->unit[unit].name);
    jout_text(&w->entry, "state", w->shape->state[state].name);
    jout_open(&w->entry, "blocks", '[');
    for (int i = 0; i < n; i++) {
        for (int64_t lo = w->ranges[i].lo, hi; lo < w->ranges[i].hi; lo = hi) {
            hi = ckpt_block_end(m, unit, lo, w->ranges[i].hi);
            if (write_block(w, unit, state, (struct range){lo, hi}, err))
                return -1;
        }
    }
    jout_close(&w->entry, ']');
    jout_close(&w->entry, '}');
    return 0;
}

/* The file's bytes and its line of the manifest. */
static int write_file(struct writer *w, const char *name, struct err *err)
{
    char *head = NULL, hash[33];
    int64_t head_bytes = 0, bytes = 0;
    int rc = 0;

    shard_header(w, &head, &head_bytes);
    ckpt_hash(head, head_bytes, hash);
    for (int s = 0; s < w->shape->states; s++)
        for (int u = 0; u < w->shape->model->units; u++)
            bytes += shard_elems(w, u, s) * dtype_bytes(w->shape->state[s].type);
    jout_open(&w->entry, NULL, '{');
    jout_text(&w->entry, "name", name);
    jout_int(&w->entry, "bytes", head_bytes + bytes);
    jout_int(&w->entry, "header_bytes", head_bytes);
    jout_text(&w->entry, "header_xxh3", hash);
    jout_open(&w->entry, "tensors", '[');
    rc = io_pwrite_all(w->fd, head, head_bytes, 0, err);
    mem_free(head);
    w->at = head_bytes;
    for (int place = 0; rc == 0 && place < w->shape->states; place++)
        for (int u = 0; rc == 0 && u < w->shape->model->units; u++)
            rc = write_unit(w, u, state_in_order(w->shape, place), err);
    jout_close(&w->entry, ']');
    jout_close(&w->entry, '}');
    if (rc == 0 && fsync(w->fd))
        rc = err_sys(err, "cannot write");
    return rc;
}

int ckpt_write_shard(const char *dir, int rank, const struct ckpt_shape *shape, ckpt_fill fill,
                     void *arg, char **entry, struct err *err)
{
    struct writer w = {.shape = shape, .rank = rank, .fill = fill, .arg = arg};
    char name[32], *text = NULL;
    size_t used = 0;

    ckpt_shard_name(rank, name);
    char *path = io_join(dir, name);
    w.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int rc = w.fd < 0 ? err_sys(err, "cannot create '%s'", path) : 0;
    if (rc == 0)
        rc = mem_data((int64_t)CKPT_BLOCK_ELEMS * 8, "a checkpoint's block", &w.buffer, err);
    if (rc == 0) {
        w.ranges = mem_new((size_t)layout_ranges_max(shape->layout), sizeof *w.ranges);
        w.entry.file = ckpt_stream(&text, &used);
        rc = write_file(&w, name, err);
        if (rc)
            err_prefix(err, "%s: ", path);
        fclose(w.entry.file);
    }
    if (w.fd >= 0)
        close(w.fd);
    mem_free(w.buffer);
    mem_free(w.ranges);
    mem_free(path);
    if (rc == 0) {
        text[used - 1] = 0; /* the newline behind the document */
        *entry = text;
    } else {
        mem_free(text);
    }
    return rc;
}

int ckpt_write_manifest(const char *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run, struct err *err)
{
    const char *config = shape->model->config;

    if (ckpt_put_file(dir, "config.json", config, (int64_t)strlen(config), err))
        return -1;
    return ckpt_manifest_write(dir, shape, entry, run, NULL, err);
}
