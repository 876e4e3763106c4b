/* SPDX-License-Identifier: BSD-3-Clause */
/* Collects a plan of moves and creates its files.  Leaves filling them to shard_move_run.c. */
#include "shard/shard_moves.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

/* --- files --- */

static void moves_add_path(struct moves_files *f, char *path)
{
    f->path = mem_grow(f->path, &f->path_space, (size_t)f->paths + 1, sizeof *f->path);
    f->path[f->paths++] = path;
    f->file[f->files - 1].paths++;
}

int moves_add_file(struct moves_files *f, int64_t bytes, char *path)
{
    f->file = mem_grow(f->file, &f->file_space, (size_t)f->files + 1, sizeof *f->file);
    f->file[f->files++] = (struct move_file){.first = f->paths, .bytes = bytes};
    moves_add_path(f, path);
    return f->files - 1;
}

void moves_add_shard(struct moves_files *f, const char *dir, const struct groups *g, int copies,
                     int rank, int64_t bytes)
{
    moves_add_file(f, bytes, ckpt_shard_path(dir, g, rank, 0));
    for (int k = 1; k <= copies; k++)
        moves_add_path(f, ckpt_shard_path(dir, g, rank, k));
}

void moves_add_ckpt(struct moves *m, struct ckpt *c)
{
    m->ckpt = c;
    m->stop = c->stop;
    for (int f = 0; f < c->files; f++)
        moves_add_shard(&m->in, c->dir, &c->groups, c->copies, f, c->file[f].bytes);
}

/* --- pieces --- */

void moves_add_from(struct moves *m, struct move_from from)
{
    m->from = mem_grow(m->from, &m->from_space, (size_t)m->froms + 1, sizeof *m->from);
    m->from[m->froms++] = from;
    m->at += from.bytes;
}

void moves_add_block(struct moves *m, int64_t block)
{
    const struct ckpt_block *b = &m->ckpt->block[block];

    moves_add_from(m, (struct move_from){b->bytes, b->file, b->offset, b->hash, .id = block});
}

void moves_add_made(struct moves *m, int64_t id, int64_t first, int64_t count, int width)
{
    moves_add_from(
        m, (struct move_from){
               .bytes = count * width, .file = -1, .id = id, .first = first, .width = width});
}

void moves_add_to(struct moves *m, struct move_to to)
{
    m->to = mem_grow(m->to, &m->to_space, (size_t)m->tos + 1, sizeof *m->to);
    m->to[m->tos] = to;
    m->tos += to.bytes > 0;
}

static int by_at(const void *a, const void *b)
{
    return MEM_ORDER((const struct move_to *)a, (const struct move_to *)b, at);
}

/* --- the whole plan --- */

int moves_run(struct moves *m, const struct io_out *dir, struct err *err)
{
    int holes = 0, rc = 0;
    struct stat st;

    /* If an input file has holes, zeros are left out in new files too. */
    for (int f = 0; !holes && f < m->in.files; f++)
        holes = stat(m->in.path[m->in.file[f].first], &st) == 0 &&
                st.st_blocks * INT64_C(512) < st.st_size;
    if (m->tos)
        qsort(m->to, (size_t)m->tos, sizeof *m->to, by_at);
    for (int f = 0; rc == 0 && f < m->out.files; f++) {
        const struct move_file *to = &m->out.file[f];
        char *const *path = m->out.path + to->first, *head = NULL;
        int64_t bytes = 0;
        int fd = -1;
        rc = m->head(m->heads, f, &head, &bytes, err);
        for (int k = 0; rc == 0 && k < to->paths; k++)
            rc = err_any(
                ckpt_stopped(m->stop, err) ||
                ckpt_create_file(dir, path[k], head, bytes, to->bytes, holes, &fd, err) ||
                io_close(fd, path[k], err));
        mem_free(head);
    }
    if (rc == 0)
        rc = move_run(m, dir, holes, err);
    if (rc == 0 && m->ckpt)
        ckpt_repaired_add(&m->ckpt->repaired, m->repaired, 0, &m->damage);
    return rc;
}

static void files_release(struct moves_files *f)
{
    for (int64_t i = 0; i < f->paths; i++)
        mem_free(f->path[i]);
    mem_free(f->path);
    mem_free(f->file);
}

void moves_release(struct moves *m)
{
    files_release(&m->in);
    files_release(&m->out);
    mem_free(m->from);
    mem_free(m->to);
    *m = (struct moves){0};
}
