/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the params get into the weights files of a merge_plan.  The stream is the blocks of
 * the tensors that are wanted, in the checkpoint's order, and then what source/rest has: a
 * block lies inside one tensor, so each is one piece, and is written as it is or converted once
 * for each tensor that is it (a tied head is a second one).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_fuse.h"
#include "ckpt/ckpt_pieces.h"
#include "ckpt/merge_plan.h"

enum { REST_BYTES = 4 << 20 }; /* of a piece of source/rest */

struct pieces {
    const struct merge_plan *p;
    int64_t froms, tos;
    struct move_from *from;
    struct move_to *to;
    int64_t *block; /* [froms] the checkpoint's, where there is one */
    size_t from_room, to_room, block_room;
    int64_t at; /* in the stream */
    struct ckpt_fuse fuse;
};

static void add_from(struct pieces *s, struct move_from from, int64_t block)
{
    s->from = mem_grow(s->from, &s->from_room, (size_t)s->froms + 1, sizeof *s->from);
    s->block = mem_grow(s->block, &s->block_room, (size_t)s->froms + 1, sizeof *s->block);
    s->block[s->froms] = block;
    s->from[s->froms++] = from;
}

static void add_to(struct pieces *s, struct move_to to)
{
    s->to = mem_grow(s->to, &s->to_room, (size_t)s->tos + 1, sizeof *s->to);
    s->to[s->tos++] = to;
}

/* A block of a tensor that goes to `to` ... `end`. */
static void add_block(struct pieces *s, int64_t block, const struct merge_tensor *to,
                      const struct merge_tensor *end)
{
    const struct merge_plan *p = s->p;
    const struct ckpt_block *b = &p->c->block[block];
    const struct model_tensor *t = &p->c->model.tensor[b->tensor];
    int64_t elems = b->hi - b->lo;
    int fused = p->fuse && model_adapter(&p->c->model, t, MODEL_LORA_A) != NULL;
    /* What is added is rounded once, to the type that is wanted. */
    enum dtype type = fused ? p->want : p->is;
    struct move_from from = {elems * dtype_bytes(type), fused ? -1 : b->file, b->offset,
                             fused ? NULL : b->hash};

    add_from(s, from, block);
    for (; to < end; to++)
        add_to(s, (struct move_to){.at = s->at,
                                   .bytes = from.bytes,
                                   .file = to->file,
                                   .offset =
                                       to->offset + (b->lo - t->offset) * dtype_bytes(p->want),
                                   .type = type,
                                   .want = p->want});
    s->at += from.bytes;
}

/* A tensor of source/rest, its file the number `file` of what is read. */
static void add_rest(struct pieces *s, const struct merge_tensor *t, int file)
{
    for (int64_t done = 0, n; done < t->bytes; done += n) {
        n = t->bytes - done < REST_BYTES ? t->bytes - done : REST_BYTES;
        add_from(s, (struct move_from){n, file, t->at + done, NULL}, -1);
        add_to(s, (struct move_to){.at = s->at,
                                   .bytes = n,
                                   .file = t->file,
                                   .offset = t->offset + done,
                                   .type = DTYPE_U8,
                                   .want = DTYPE_U8});
        s->at += n;
    }
}

static void add_all(struct pieces *s)
{
    const struct merge_plan *p = s->p;
    const struct ckpt *c = p->c;
    int units = c->model.units;
    int *first = mem_new((size_t)c->model.tensors + 1, sizeof *first);

    for (int i = 0, t = 0; t <= c->model.tensors; t++) {
        while (i < p->tensors && p->tensor[i].tensor >= 0 && p->tensor[i].tensor < t)
            i++;
        first[t] = i;
    }
    for (int64_t b = c->first[p->params * units]; b < c->first[(p->params + 1) * units]; b++) {
        int t = c->block[b].tensor;
        if (first[t] < first[t + 1])
            add_block(s, b, &p->tensor[first[t]], &p->tensor[first[t + 1]]);
    }
    for (int i = first[c->model.tensors]; i < p->tensors; i++)
        add_rest(s, &p->tensor[i], c->files + p->tensor[i].rest);
    mem_free(first);
}

/* --- what the mover asks --- */

/* Any bytes of a fused block: an element may lie over either end. */
static int make(void *arg, int64_t piece, int64_t first, int64_t bytes, void *out,
                struct err *err)
{
    struct pieces *s = arg;
    const struct ckpt_block *b = &s->p->c->block[s->block[piece]];
    const struct model_tensor *t = &s->p->c->model.tensor[b->tensor];
    int64_t width = dtype_bytes(s->p->want), lo = first / width;
    int64_t hi = (first + bytes + width - 1) / width;
    char *whole = mem_new((size_t)(hi - lo), (size_t)width);
    int rc =
        ckpt_fuse_part(&s->fuse, t, b->lo - t->offset + lo, hi - lo, s->p->want, whole, err);

    if (rc == 0)
        memcpy(out, whole + first - lo * width, (size_t)bytes);
    mem_free(whole);
    return rc;
}

static void damaged(void *arg, int64_t piece, const char *path, const char *hash,
                    struct err *err)
{
    const struct pieces *s = arg;

    ckpt_say_damaged(s->p->c, &s->p->c->block[s->block[piece]], path, hash, err);
}

/* --- files --- */

static int create_file(const struct merge_file *f, const struct io_dir *dir, const char *path,
                       int holes, struct err *err)
{
    int fd = -1, rc = io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &fd, err);

    if (rc)
        return -1;
    rc = ckpt_make_room(fd, f->bytes, holes, err) ||
                 io_pwrite_all(fd, f->head, f->head_bytes, 0, err)
             ? -1
             : 0;
    if (rc)
        err_prefix(err, "%s: ", path);
    if (rc)
        close(fd);
    return rc ? rc : io_close(fd, path, err);
}

static int create_all(const struct merge_plan *p, const struct io_dir *dir, char *const *path,
                      int holes, struct err *err)
{
    for (int f = 0; f < p->files; f++)
        if (ckpt_stopped(p->c->stop, err) || create_file(&p->file[f], dir, path[f], holes, err))
            return -1;
    return 0;
}

/* The checkpoint's shards, and behind them the files of source/rest. */
static struct move_file *files_from(const struct merge_plan *p, const struct ckpt_paths *shards)
{
    struct move_file *file = mem_new((size_t)(shards->files + p->rests), sizeof *file);

    memcpy(file, shards->file, (size_t)shards->files * sizeof *file);
    for (int i = 0; i < p->rests; i++)
        file[shards->files + i] =
            (struct move_file){(const char *const *)&p->rest[i].path, 1, p->rest[i].bytes};
    return file;
}

static int move_all(struct pieces *s, const struct io_dir *dir, char *const *path,
                    const struct tool_merging *what, struct err *err)
{
    const struct merge_plan *p = s->p;
    struct ckpt_paths shards;
    struct move_result result;
    struct move_file *to = mem_new((size_t)p->files, sizeof *to);

    ckpt_paths_open(&shards, p->c);
    for (int f = 0; f < p->files; f++)
        to[f] = (struct move_file){(const char *const *)&path[f], 1, p->file[f].bytes};
    struct move_file *from = files_from(p, &shards);
    struct ckpt_move move = {.from_files = shards.files + p->rests,
                             .from_file = from,
                             .to_files = p->files,
                             .to_file = to,
                             .into = dir,
                             .froms = s->froms,
                             .from = s->from,
                             .tos = s->tos,
                             .to = s->to,
                             .buffer = what->means.buffer,
                             .jobs = ckpt_jobs(what->means.jobs),
                             .stop = p->c->stop,
                             .arg = s,
                             .ear = what->means.ear,
                             .tell = what->means.tell,
                             .make = make,
                             .damaged = damaged};

    move.holes = ckpt_has_holes(from, move.from_files);
    int rc =
        create_all(p, dir, path, move.holes, err) || ckpt_move(&move, &result, err) ? -1 : 0;

    if (rc == 0)
        ckpt_healed_add(&p->c->healed, result.healed, &result.wound);
    ckpt_paths_release(&shards);
    mem_free(from);
    mem_free(to);
    return rc;
}

int merge_move(const struct merge_plan *p, const struct io_dir *dir,
               const struct tool_merging *what, struct err *err)
{
    struct pieces s = {.p = p, .fuse = {.ckpt = p->c}};
    char **path = mem_new((size_t)p->files, sizeof *path);

    for (int f = 0; f < p->files; f++)
        path[f] = io_join(dir->temp, p->file[f].name);
    add_all(&s);
    int rc = move_all(&s, dir, path, what, err);
    for (int f = 0; f < p->files; f++)
        mem_free(path[f]);
    mem_free(path);
    mem_free(s.from);
    mem_free(s.to);
    mem_free(s.block);
    ckpt_fuse_release(&s.fuse);
    return rc;
}
