/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how an open checkpoint is read: any ranges of a unit from whatever blocks they lie in.
 * Each block is read whole and its checksum compared; the last one stays in memory, so that
 * reading on from where one stopped reads nothing twice.
 */
#include "ckpt/ckpt.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"

int ckpt_is(const char *dir)
{
    char *path = io_join(dir, "manifest.json");
    struct stat st;
    int there = stat(path, &st) == 0;

    mem_free(path);
    return there;
}

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

int ckpt_open(struct ckpt *c, const char *dir, struct err *err)
{
    return ckpt_open_within(c, dir, NULL, err);
}

int ckpt_open_within(struct ckpt *c, const char *dir, const struct ckpt_limits *limits,
                     struct err *err)
{
    struct ckpt new = {.dir = mem_dup(dir), .cached = -1};

    for (int i = 0; i < CKPT_OPEN_MAX; i++)
        new.open[i].fd = -1;
    if (!ckpt_is(dir)) {
        err_set(err, ERR_ABSENT, "'%s' has no manifest.json: it is no checkpoint", dir);
        goto fail;
    }
    if (model_read(&new.model, dir, err) ||
        ckpt_manifest_read(&new, limits ? limits : &ckpt_limits_usual, err))
        goto fail;
    for (int64_t b = 0; b < new.blocks; b++)
        if (new.block[b].bytes > new.block_bytes)
            new.block_bytes = new.block[b].bytes;
    *c = new;
    return 0;
fail:
    ckpt_close(&new);
    return -1;
}

void ckpt_close(struct ckpt *c)
{
    for (int i = 0; c->dir && i < CKPT_OPEN_MAX; i++)
        if (c->open[i].fd >= 0)
            close(c->open[i].fd);
    for (int i = 0; i < c->source.count; i++)
        mem_free(c->source.item[i].name);
    mem_free(c->source.item);
    mem_free(c->file);
    mem_free(c->block);
    mem_free(c->first);
    mem_free(c->buffer);
    mem_free(c->dir);
    groups_release(&c->groups);
    model_release(&c->model);
    *c = (struct ckpt){0};
}

int ckpt_open_shard(const struct ckpt *c, int file, int *fd, struct err *err)
{
    char *path = io_join(c->dir, c->file[file].name);
    int new = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    int64_t bytes = 0;

    if (new < 0)
        rc = err_sys(err, "cannot open '%s'", path);
    else if (io_size(new, &bytes, err))
        rc = err_prefix(err, "%s: ", path);
    else if (bytes != c->file[file].bytes)
        rc = err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64, bytes,
                    c->file[file].bytes);
    mem_free(path);
    if (rc == 0)
        *fd = new;
    else if (new >= 0)
        close(new);
    return rc;
}

/* A few shards stay open; another that falls on the same place closes the one before. */
static int shard_fd(struct ckpt *c, int file, int *fd, struct err *err)
{
    int i = file % CKPT_OPEN_MAX, new = -1;

    if (c->open[i].fd >= 0 && c->open[i].file == file) {
        *fd = c->open[i].fd;
        return 0;
    }
    if (ckpt_open_shard(c, file, &new, err))
        return -1;
    if (c->open[i].fd >= 0)
        close(c->open[i].fd);
    c->open[i].fd = *fd = new;
    c->open[i].file = file;
    return 0;
}

int ckpt_check_block(const struct ckpt *c, const struct ckpt_block *b, const char *hash,
                     struct err *err)
{
    const struct model_tensor *t = &c->model.tensor[b->tensor];

    if (strcmp(hash, b->hash) == 0)
        return 0;
    err_at(err, c->file[b->file].name, 0, t->name,
           "%s, elements [%" PRId64 ", %" PRId64 ") are damaged: checksum %s, expected %s",
           c->state[b->state].name, b->lo - t->offset, b->hi - t->offset, hash, b->hash);
    err->code = ERR_MISMATCH;
    return -1;
}

int ckpt_load_block(struct ckpt *c, int64_t number, struct err *err)
{
    const struct ckpt_block *b = &c->block[number];
    char hash[33];
    int fd = -1;

    if (c->cached == number)
        return 0;
    c->cached = -1;
    if (!c->buffer && mem_data(c->block_bytes, "a checkpoint's block", &c->buffer, err))
        return -1;
    if (shard_fd(c, b->file, &fd, err))
        return -1;
    if (io_pread_all(fd, c->buffer, b->bytes, b->offset, err))
        return err_prefix(err, "%s/%s: ", c->dir, c->file[b->file].name);
    ckpt_hash(c->buffer, b->bytes, hash);
    if (ckpt_check_block(c, b, hash, err))
        return -1;
    c->cached = number;
    return 0;
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
    enum dtype from = c->state[state].type;
    char *to = out;

    assert(unit >= 0 && unit < c->model.units && state >= 0 && state < c->states);
    for (int i = 0; i < n; i++) {
        assert(ranges[i].lo >= 0 &&
               ranges[i].hi <= ckpt_state_elems(&c->model, unit, &c->state[state]));
        for (int64_t at = ranges[i].lo, end; at < ranges[i].hi; at = end) {
            int64_t number = block_at(c, unit, state, at);
            const struct ckpt_block *b = &c->block[number];
            if (ckpt_load_block(c, number, err))
                return -1;
            end = b->hi < ranges[i].hi ? b->hi : ranges[i].hi;
            dtype_convert(to, type, (char *)c->buffer + (at - b->lo) * dtype_bytes(from), from,
                          end - at);
            to += (end - at) * dtype_bytes(type);
        }
    }
    return 0;
}
