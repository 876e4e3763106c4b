/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lays out a shard file before writing it, then fills it.  States of wider types come first, so
 * that every tensor is aligned to its type; within a state, units are in order.  A tensor
 * "UNIT/STATE" is the rank's shard of the unit, first of trained then of frozen parameters,
 * its ranges one after the other.  Its blocks lie in the file as the manifest lists them.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_safetensors.h"

void ckpt_shard_name(int rank, char name[CKPT_FILE_NAME])
{
    snprintf(name, CKPT_FILE_NAME, "shard-%05d.safetensors", rank);
}

int ckpt_tensor_at(const struct model *m, int unit, int64_t at)
{
    const struct model_unit *u = &m->unit[unit];
    int lo = u->first, hi = u->first + u->count;

    while (hi - lo > 1) { /* the last tensor that begins at or before `at` */
        int mid = lo + (hi - lo) / 2;
        if (m->tensor[mid].offset <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int64_t ckpt_block_end(const struct model *m, int unit, const struct ckpt_state *state,
                       int64_t lo, int64_t hi)
{
    int64_t at = ckpt_element(m, unit, state, lo);
    const struct model_tensor *t = &m->tensor[ckpt_tensor_at(m, unit, at)];
    int64_t end = lo - at + t->offset + t->elems;

    if (end - lo > CKPT_BLOCK_ELEMS)
        end = lo + CKPT_BLOCK_ELEMS;
    return end < hi ? end : hi;
}

/*
 * Writes the ranges of a rank's shard of a unit's state to out (shard_ranges_new), and returns
 * their number.  Of what each group has of its own: its I shard; if there were other groups,
 * its G shard of each.
 */
static int shard_ranges(const struct ckpt_shape *shape, int rank, int unit, int state,
                        struct range *out)
{
    const struct ckpt_state *s = &shape->state[state];
    const struct layout *l = shape->layout;
    int64_t trained = shape->model->unit[unit].trained;
    int n = 0, same = s->groups == l->groups.count;

    if (s->groups <= 1)
        return layout_unit_ranges(l, LETTER_G, rank, trained,
                                  ckpt_state_elems(shape->model, unit, s), out);
    for (int k = 0; k < s->groups; k++) {
        int own = l->groups.group_of[rank] == k, first = n;
        if (!same || own)
            n += layout_ranges(l, same ? LETTER_I : LETTER_G, rank, trained, out + n);
        for (int i = first; i < n; i++)
            out[i] = (struct range){out[i].lo + k * trained, out[i].hi + k * trained};
    }
    return n;
}

static struct range *shard_ranges_new(const struct ckpt_shape *shape)
{
    size_t most = 1;

    for (int s = 0; s < shape->states; s++)
        most = shape->state[s].groups > (int)most ? (size_t)shape->state[s].groups : most;
    return mem_new(most * (size_t)layout_ranges_max(shape->layout), sizeof(struct range));
}

/* Returns the state at a position in the file: wider types first. */
static int state_in_order(const struct ckpt_shape *shape, int place)
{
    for (int bytes = 8; bytes >= 1; bytes /= 2)
        for (int s = 0; s < shape->states; s++)
            if (dtype_bytes(shape->state[s].type) == bytes && place-- == 0)
                return s;
    return -1;
}

void ckpt_shard_header(const struct ckpt_shard *s, char **text, int64_t *bytes)
{
    const struct ckpt_shape *shape = s->shape;
    int units = shape->model->units, count = 0;
    struct st_tensor *tensor = mem_new((size_t)(units * shape->states), sizeof *tensor);
    struct range *ranges = shard_ranges_new(shape);

    for (int place = 0; place < shape->states; place++) {
        int number = state_in_order(shape, place);
        const struct ckpt_state *state = &shape->state[number];
        for (int u = 0; u < units; u++) {
            const struct model_unit *unit = &shape->model->unit[u];
            struct st_tensor *t = &tensor[count++];
            t->name = mem_new(sizeof unit->name + sizeof state->name + 1, 1);
            sprintf(t->name, "%s/%s", unit->name, state->name);
            t->type = st_type_of(state->type);
            t->dims = 1;
            for (int i = shard_ranges(shape, s->rank, u, number, ranges); i-- > 0;)
                t->shape[0] += ranges[i].hi - ranges[i].lo;
        }
    }
    mem_free(ranges);
    st_header(tensor, count, text, bytes);
    for (int i = 0; i < count; i++)
        mem_free(tensor[i].name);
    mem_free(tensor);
}

/* Appends the blocks of one tensor of the file. */
static void add_blocks(struct ckpt_shard *s, size_t *space, int unit, int state,
                       struct range *ranges)
{
    const struct model *m = s->shape->model;
    int width = dtype_bytes(s->shape->state[state].type);
    const struct ckpt_state *is = &s->shape->state[state];
    int n = shard_ranges(s->shape, s->rank, unit, state, ranges);

    for (int i = 0; i < n; i++) {
        for (int64_t lo = ranges[i].lo, hi; lo < ranges[i].hi; lo = hi) {
            int tensor = ckpt_tensor_at(m, unit, ckpt_element(m, unit, is, lo));
            hi = ckpt_block_end(m, unit, is, lo, ranges[i].hi);
            s->block = mem_grow(s->block, space, (size_t)s->blocks + 1, sizeof *s->block);
            s->block[s->blocks++] = (struct ckpt_block){.unit = unit,
                                                        .state = state,
                                                        .file = s->rank,
                                                        .tensor = tensor,
                                                        .lo = lo,
                                                        .hi = hi,
                                                        .offset = s->file.bytes,
                                                        .bytes = (hi - lo) * width};
            s->file.bytes += (hi - lo) * width;
        }
    }
}

void ckpt_shard_init(struct ckpt_shard *s, const struct ckpt_shape *shape, int rank)
{
    struct range *ranges = shard_ranges_new(shape);
    size_t space = 0;
    char *head = NULL;

    *s = (struct ckpt_shard){.shape = shape, .rank = rank};
    ckpt_shard_name(rank, s->file.name);
    ckpt_shard_header(s, &head, &s->file.header_bytes);
    ckpt_hash(head, s->file.header_bytes, s->file.header_hash);
    s->file.bytes = s->file.header_bytes;
    for (int place = 0; place < shape->states; place++)
        for (int u = 0; u < shape->model->units; u++)
            add_blocks(s, &space, u, state_in_order(shape, place), ranges);
    mem_free(head);
    mem_free(ranges);
}

void ckpt_shard_release(struct ckpt_shard *s)
{
    mem_free(s->block);
    *s = (struct ckpt_shard){0};
}

static void shard_put_tensor(struct jout *j, const struct ckpt_shard *s, int unit, int state,
                             int64_t *at)
{
    jout_open(j, NULL, '{');
    jout_text(j, "unit", s->shape->model->unit[unit].name);
    jout_text(j, "state", s->shape->state[state].name);
    jout_open(j, "blocks", '[');
    for (; *at < s->blocks; ++*at) {
        const struct ckpt_block *b = &s->block[*at];
        if (b->unit != unit || b->state != state)
            break;
        jout_open(j, NULL, '[');
        jout_int(j, NULL, b->lo);
        jout_int(j, NULL, b->hi);
        jout_text(j, NULL, b->hash);
        jout_close(j, ']');
    }
    jout_close(j, ']');
    jout_close(j, '}');
}

char *ckpt_shard_entry(const struct ckpt_shard *s)
{
    char *text = NULL;
    size_t used = 0;
    int64_t at = 0;
    struct jout j = {.file = mem_stream(&text, &used)};

    jout_open(&j, NULL, '{');
    record_put(&j, ckpt_file_record, &s->file);
    jout_open(&j, "tensors", '[');
    for (int place = 0; place < s->shape->states; place++)
        for (int u = 0; u < s->shape->model->units; u++)
            shard_put_tensor(&j, s, u, state_in_order(s->shape, place), &at);
    jout_end(&j);
    fclose(j.file);
    text[used - 1] = 0; /* the newline after the document */
    return text;
}

/* --- writing in a run: each rank writes its own shard --- */

static int write_blocks(struct ckpt_shard *s, int fd, ckpt_fill fill, void *arg,
                        struct err *err)
{
    void *buffer = NULL;
    /* Small shards have small blocks: unused parts of the buffer must cost no time. */
    int rc = mem_buffer((int64_t)CKPT_BLOCK_ELEMS * 8, "a checkpoint's block", &buffer, err);

    for (int64_t i = 0; rc == 0 && i < s->blocks; i++) {
        struct ckpt_block *b = &s->block[i];
        rc = fill(arg, b->unit, b->state, (struct range){b->lo, b->hi}, buffer, err) ||
                     io_pwrite_all(fd, buffer, b->bytes, b->offset, err)
                 ? -1
                 : 0;
        if (rc)
            break;
        /* A host's own copy is often deleted before it reaches the disk */
        if (!s->shape->apart)
            ckpt_flush(fd, b->offset, b->bytes);
        ckpt_hash(buffer, b->bytes, b->hash);
    }
    if (rc == 0 && !s->shape->apart && fsync(fd))
        rc = err_sys(err, "cannot write");
    mem_free(buffer);
    return rc;
}

int ckpt_write_shard(const struct io_out *dir, int rank, int k, const struct ckpt_shape *shape,
                     ckpt_fill fill, void *arg, char **entry, struct err *err)
{
    struct ckpt_shard s;
    char *head = NULL;
    int64_t head_bytes = 0;
    int fd = -1;

    ckpt_shard_init(&s, shape, rank);
    ckpt_shard_header(&s, &head, &head_bytes);
    char *path = ckpt_shard_path(dir->temp, &shape->layout->groups, rank, k);
    int rc = ckpt_create_file(dir, path, head, head_bytes, s.file.bytes, 0, &fd, err);
    if (rc == 0) {
        rc = write_blocks(&s, fd, fill, arg, err);
        if (rc)
            err_prefix(err, "%s: ", path);
        if (close(fd) && rc == 0) /* close reports delayed write errors */
            rc = err_sys(err, "%s: cannot write", path);
    }
    if (rc == 0 && entry)
        *entry = ckpt_shard_entry(&s);
    ckpt_shard_release(&s);
    mem_free(head);
    mem_free(path);
    return rc;
}
