/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how the blocks and shards of checkpoints look to ckpt_move. */
#include "ckpt/ckpt_pieces.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/*
 * At least: one waits for what it reads, one for what it flushes, and two are left to sum and
 * to copy, whatever the processors.  Past the most, threads wait for one disk and one memory.
 */
enum { JOBS_LEAST = 4, JOBS_MOST = 16 };

/*
 * [states * units + 1] where each unit of each state begins in the stream, and where all ends;
 * for mem_free.
 */
static int64_t *places_of(const struct model *m, int states, const struct ckpt_state *state)
{
    int64_t *place = mem_new((size_t)states * (size_t)m->units + 1, sizeof *place), *p = place;

    for (int s = 0; s < states; s++)
        for (int u = 0; u < m->units; u++, p++)
            p[1] = p[0] + ckpt_state_elems(m, u, &state[s]) * dtype_bytes(state[s].type);
    return place;
}

int ckpt_jobs(int asked)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    if (asked)
        return asked;
    return n < JOBS_LEAST ? JOBS_LEAST : n > JOBS_MOST ? JOBS_MOST : (int)n;
}

int ckpt_has_holes(const struct move_file *file, int files)
{
    struct stat st;

    for (int f = 0; f < files; f++)
        if (stat(file[f].path[0], &st) == 0 && st.st_blocks * INT64_C(512) < st.st_size)
            return 1;
    return 0;
}

static void paths_init(struct ckpt_paths *p, int files, int copies)
{
    *p = (struct ckpt_paths){.files = files, .copies = copies};
    p->file = mem_new((size_t)files, sizeof *p->file);
    p->path = mem_new((size_t)files * (size_t)(1 + copies), sizeof *p->path);
}

/* The shard and its copies. */
static void add_paths(struct ckpt_paths *p, int file, const char *dir, const struct groups *g,
                      int64_t bytes)
{
    char **path = &p->path[(int64_t)file * (1 + p->copies)];

    ckpt_shard_paths(dir, g, p->copies, file, path);
    p->file[file] = (struct move_file){(const char *const *)path, 1 + p->copies, bytes};
}

void ckpt_paths_of(struct ckpt_paths *p, const struct ckpt *c, const char *dir)
{
    paths_init(p, c->files, c->copies);
    for (int f = 0; f < c->files; f++)
        add_paths(p, f, dir, &c->groups, c->file[f].bytes);
}

void ckpt_paths_open(struct ckpt_paths *p, const struct ckpt *c)
{
    ckpt_paths_of(p, c, c->dir);
}

void ckpt_paths_new(struct ckpt_paths *p, const char *dir, const struct ckpt_shard *shard,
                    int shards)
{
    paths_init(p, shards, shard->shape->copies);
    for (int f = 0; f < shards; f++)
        add_paths(p, f, dir, &shard->shape->layout->groups, shard[f].file.bytes);
}

void ckpt_paths_release(struct ckpt_paths *p)
{
    for (int64_t i = 0; i < (int64_t)p->files * (1 + p->copies); i++)
        mem_free(p->path[i]);
    mem_free(p->path);
    mem_free(p->file);
    *p = (struct ckpt_paths){0};
}

struct move_from *ckpt_pieces_from(const struct ckpt *c, int64_t first, int64_t count)
{
    struct move_from *from = mem_new((size_t)count, sizeof *from);

    for (int64_t i = 0; i < count; i++) {
        const struct ckpt_block *b = &c->block[first + i];
        from[i] = (struct move_from){b->bytes, b->file, b->offset, b->hash};
    }
    return from;
}

static int by_at(const void *a, const void *b)
{
    int64_t x = ((const struct move_to *)a)->at, y = ((const struct move_to *)b)->at;

    return (x > y) - (x < y);
}

struct move_to *ckpt_pieces_to(const struct ckpt_shard *shard, int shards,
                               const struct ckpt_state *is, int64_t *count)
{
    const struct ckpt_shape *shape = shard->shape;
    int64_t *place = places_of(shape->model, shape->states, is), n = 0;
    struct move_to *to;

    *count = 0;
    for (int f = 0; f < shards; f++)
        *count += shard[f].blocks;
    to = mem_new((size_t)*count, sizeof *to);
    for (int f = 0; f < shards; f++) {
        for (int64_t i = 0; i < shard[f].blocks; i++) {
            struct ckpt_block *b = &shard[f].block[i];
            enum dtype type = is[b->state].type;
            int64_t at = place[b->state * shape->model->units + b->unit];
            to[n++] = (struct move_to){.at = at + b->lo * dtype_bytes(type),
                                       .bytes = (b->hi - b->lo) * dtype_bytes(type),
                                       .file = f,
                                       .offset = b->offset,
                                       .type = type,
                                       .want = shape->state[b->state].type,
                                       .hash = b->hash};
        }
    }
    if (n)
        qsort(to, (size_t)n, sizeof *to, by_at);
    mem_free(place);
    return to;
}
