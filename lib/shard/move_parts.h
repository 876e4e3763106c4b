/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_MOVE_PARTS_H
#define SHARD_MOVE_PARTS_H

#include <pthread.h>

#include "shard/moves.h"

/* Between moves.c, who does what, and move_piece.c, how a piece is read or written. */

/*
 * The ring has whole ones of so many bytes: elements of any type, at their places in a stream
 * of them, are not cut at its end.
 */
enum { MOVE_UNIT = 64 };

/* All paths of all files of a side, numbered through; the first few stay open. */
struct move_paths {
    const struct move_file *file;
    int64_t *first;            /* [files + 1] the number of a file's first path */
    const struct io_dir *into; /* written in it; NULL: read */
    int kept;
    int *fd; /* [kept], -1: not open */
};

struct mover {
    struct moves *what;
    int holes;
    struct move_paths from, to;
    int64_t *at; /* [froms + 1] of the stream: where each piece of `from` begins */
    char *lost;  /* [froms] nobody had it */
    char *ring;
    int64_t ring_bytes;
    pthread_mutex_t call;  /* what->arg's functions, `healed` and `damage` */
    int64_t damaged_piece; /* the piece of what->damage */
};

/*
 * Those that stay open are opened.  needed: a file whose only path cannot be is an error now;
 * else it is one when a piece of it is asked for.
 */
int move_paths_open(struct move_paths *p, const struct moves_files *side,
                    const struct io_dir *into, int needed, struct err *err);
void move_paths_close(struct move_paths *p);

/* A piece of `from` into the ring, from the first path that has it whole. */
int move_read_piece(struct mover *m, int64_t piece, struct err *err);
/* A piece of `to` out of the ring, to all paths of its file. */
int move_write_piece(struct mover *m, int64_t piece, struct err *err);
int move_sync_path(struct mover *m, int64_t number, struct err *err);

#endif
