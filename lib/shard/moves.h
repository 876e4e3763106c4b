/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_MOVES_H
#define SHARD_MOVES_H

#include "ckpt/ckpt_write.h"
#include "shard/move.h"
#include "shard/shard.h"

/*
 * The one plan of moves that init, split, merge, reshard, repair and verify make: files that are
 * read and files that are new, and the pieces of the stream between them (shard/move.h).  A
 * checkpoint's stream is its states one after the other, each unit by unit, as the blocks of an
 * open one are sorted.
 */
struct moves_files {
    int files;
    struct move_file *file;
    char **path; /* of all files, one file after the other; owned */
    int64_t paths;
    size_t file_room, path_room;
};

struct moves_piece {
    int64_t id;    /* the block of `ckpt`, or what `make` knows it by */
    int64_t first; /* of what is made: its first element, */
    int width;     /* and an element's bytes */
};

struct moves {
    const struct shard_means *means; /* borrowed */
    const atomic_int *stop;          /* borrowed */
    struct ckpt *ckpt;               /* borrowed: whose blocks are read; NULL: none */
    /* Elements [first, first + count) of a piece that is made. */
    int (*make)(void *arg, int64_t id, int64_t first, int64_t count, void *out,
                struct err *err);
    /* As struct move has it, with the block; NULL: what no path has is an error. */
    int (*lost)(void *arg, int file, int64_t block, struct err *err);
    void *arg; /* of both */
    /* What a new file begins with, [*bytes]; *head is freed with mem_free. */
    int (*head)(void *heads, int file, char **head, int64_t *bytes, struct err *err);
    void *heads;
    struct moves_files in, out;
    int64_t froms, tos, at; /* at: bytes of the stream so far */
    struct move_from *from;
    struct moves_piece *piece; /* [froms] */
    struct move_to *to;
    size_t from_room, piece_room, to_room;
};

/* Each returns the number of the file; its paths follow. */
int moves_add_in(struct moves *m, int64_t bytes);
int moves_add_out(struct moves *m, int64_t bytes);
void moves_add_path(struct moves_files *f, char *path); /* takes it */
/* A rank's shard in dir and its copies, as one more file of those. */
void moves_add_shard(struct moves_files *f, const char *dir, const struct groups *g, int copies,
                     int rank, int64_t bytes);
/* Blocks of c are read: its files, by rank, before any other. */
void moves_add_ckpt(struct moves *m, struct ckpt *c);

/* Pieces of the stream, one after the other: bytes of a file, a block, or what `make` gives. */
void moves_add_from(struct moves *m, struct move_from from, struct moves_piece piece);
void moves_add_block(struct moves *m, int64_t block);
void moves_add_made(struct moves *m, int64_t id, int64_t first, int64_t count, int width);
/* Where one of them goes. */
void moves_add_to(struct moves *m, struct move_to to);

/*
 * Creates the new files in dir (NULL: there are none), fills and syncs them.  What copies gave is
 * counted in m->ckpt->healed.
 */
int moves_run(struct moves *m, const struct io_dir *dir, struct err *err);
void moves_release(struct moves *m);

#endif
