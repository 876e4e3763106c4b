/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how an open checkpoint is read: any ranges of a unit from whatever blocks they lie in.
 * Each block is read whole and its checksum compared, and where one is damaged another copy of
 * it is taken; the last one stays in memory, so that reading on from where one stopped reads
 * nothing twice.
 */
#include "ckpt/ckpt.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

int ckpt_find_state(const struct ckpt *c, const char *name)
{
    for (int s = 0; s < c->states; s++)
        if (strcmp(c->state[s].name, name) == 0)
            return s;
    return -1;
}

int64_t ckpt_state_elems(const struct model *m, int unit, const struct ckpt_state *state)
{
    return strcmp(state->name, "params") ? m->unit[unit].trained : m->unit[unit].elems;
}

/* A few shards stay open; another that falls on the same place closes the one before. */
static int shard_fd(struct ckpt *c, int file, int k, int *fd, struct err *err)
{
    int number = file * (1 + c->copies) + k, i = number % CKPT_OPEN_MAX;
    int64_t bytes = 0;

    if (c->open[i].fd >= 0 && c->open[i].number == number) {
        *fd = c->open[i].fd;
        return 0;
    }
    char *path = ckpt_shard_path(c->dir, &c->groups, file, k);
    int new = -1, rc = io_open(path, &new, &bytes, err);
    if (rc == 0 && bytes != c->file[file].bytes)
        rc = err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64, bytes,
                    c->file[file].bytes);
    mem_free(path);
    if (rc) {
        if (new >= 0)
            close(new);
        return -1;
    }
    if (c->open[i].fd >= 0)
        close(c->open[i].fd);
    c->open[i].fd = *fd = new;
    c->open[i].number = number;
    return 0;
}

int ckpt_say_damaged(const struct ckpt *c, const struct ckpt_block *b, const char *path,
                     const char *hash, struct err *err)
{
    const struct model_tensor *t = &c->model.tensor[b->tensor];

    err_at(err, path, 0, t->name,
           "%s, elements [%" PRId64 ", %" PRId64 ") are damaged: checksum %s, expected %s",
           c->state[b->state].name, b->lo - t->offset, b->hi - t->offset, hash, b->hash);
    err->code = ERR_MISMATCH;
    return -1;
}

int ckpt_load_copy(struct ckpt *c, int64_t number, int k, struct err *err)
{
    const struct ckpt_block *b = &c->block[number];
    char hash[33];
    int fd = -1;

    c->cached = -1;
    if (!c->buffer && mem_data(c->block_bytes, "a checkpoint's block", &c->buffer, err))
        return -1;
    if (shard_fd(c, b->file, k, &fd, err))
        return -1;
    char *path = ckpt_shard_path(c->dir, &c->groups, b->file, k);
    int rc = io_pread_all(fd, c->buffer, b->bytes, b->offset, err);
    if (rc) {
        err_prefix(err, "%s: ", path);
    } else {
        ckpt_hash(c->buffer, b->bytes, hash);
        if (strcmp(hash, b->hash))
            rc = ckpt_say_damaged(c, b, path, hash, err);
    }
    mem_free(path);
    if (rc == 0)
        c->cached = number;
    return rc;
}

/* Damage of the copy that is read first is reported where another one is good. */
static int load_block(struct ckpt *c, int64_t number, struct err *err)
{
    struct err damage = {0};

    if (c->cached == number)
        return 0;
    for (int i = 0; i <= c->copies; i++) {
        if (ckpt_load_copy(c, number, (c->turn + i) % (1 + c->copies), err) == 0) {
            if (i > 0)
                ckpt_healed_add(&c->healed, 1, 0, &damage);
            return 0;
        }
        if (err->scarce) /* which says nothing of the copy */
            break;
        if (i == 0)
            damage = *err;
    }
    return ckpt_blame(c, err);
}

/* The block of (state, unit) in which element `at` lies; there is one. */
static int64_t block_at(const struct ckpt *c, int unit, int state, int64_t at)
{
    const int64_t *first = &c->first[state * c->model.units + unit];
    int64_t lo = first[0], hi = first[1];

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (c->block[mid].lo <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int ckpt_read_ranges(struct ckpt *c, int unit, int state, const struct range *ranges, int n,
                     enum dtype type, void *out, struct err *err)
{
    char *to = out;

    assert(unit >= 0 && unit < c->model.units && state >= 0 && state < c->states);
    enum dtype from = c->state[state].type;
    for (int i = 0; i < n; i++) {
        assert(ranges[i].lo >= 0 &&
               ranges[i].hi <= ckpt_state_elems(&c->model, unit, &c->state[state]));
        for (int64_t at = ranges[i].lo, end; at < ranges[i].hi; at = end) {
            int64_t number = block_at(c, unit, state, at);
            const struct ckpt_block *b = &c->block[number];
            if (load_block(c, number, err))
                return -1;
            end = b->hi < ranges[i].hi ? b->hi : ranges[i].hi;
            dtype_convert(to, type, (char *)c->buffer + (at - b->lo) * dtype_bytes(from), from,
                          end - at);
            to += (end - at) * dtype_bytes(type);
        }
    }
    return 0;
}

int64_t ckpt_end_at(const struct ckpt *c, int unit, int state, int64_t at)
{
    return c->block[block_at(c, unit, state, at)].hi;
}

void ckpt_identity(const struct ckpt *c, char hash[33])
{
    void *sum = ckpt_hash_begin();

    for (int64_t i = 0; i < c->blocks; i++) {
        const struct ckpt_block *b = &c->block[i];
        const int64_t is[] = {b->unit, b->state, b->lo, b->hi};
        ckpt_hash_more(sum, is, sizeof is);
        ckpt_hash_more(sum, b->hash, sizeof b->hash);
    }
    ckpt_hash_end(sum, hash);
}
