/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_MOVES_H
#define SHARD_SHARD_MOVES_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/*
 * Describes the one plan of moves that init, split, merge, reshard, repair and verify make:
 * files that are read, files that are new, and pieces of a STREAM of bytes between them.  The
 * pieces of the `from` side tile it, one after the other; those of the `to` side lie anywhere
 * in it, of two that overlap each in the same bytes (a tied head's second tensor):
 *
 *     from   |    0     |    1     |  2  |   3   |
 *     to     |  0  |    1    |     2     |   3   |
 *
 * Each piece of `from` is read once, whether a byte of it is wanted or not, and checked; each
 * piece of `to` is written to every path of its file.  A checkpoint's stream is its states one
 * after the other, each unit by unit, as the blocks of an open one are sorted.
 */

/* A file and its copies: paths to the same bytes. */
struct move_file {
    int64_t
        first; /* its paths in moves_files: reading takes the next where one is damaged or */
    int paths; /* absent; writing writes all */
    int64_t bytes; /* of each */
};

struct moves_files {
    int files;
    struct move_file *file;
    char **path; /* of all files, one file after the other; owned */
    int64_t paths;
    size_t file_space, path_space;
};

struct move_from {
    int64_t bytes;    /* of the stream */
    int file;         /* -1: `make` makes it */
    int64_t offset;   /* in the file */
    const char *hash; /* XXH3 as ckpt_hash prints it, borrowed; NULL: not known */
    int64_t id;       /* the block of `ckpt`, or the argument of `make` */
    int64_t first;    /* of a piece that is made: its first element, */
    int width;        /* and bytes of an element */
};

struct move_to {
    int64_t at, bytes; /* of the stream: bytes / dtype_bytes(type) elements, none of which lies
                          over the end of a piece of `from` */
    int file;
    int64_t offset;        /* in the file */
    enum dtype type, want; /* converted where they are not equal */
    char *hash; /* [33], borrowed, filled in: of the bytes in the file; NULL: not wanted */
};

struct moves {
    const struct shard_options *options; /* borrowed */
    const atomic_int *stop;              /* borrowed; not 0: give up, ERR_SYS */
    struct ckpt *ckpt;                   /* borrowed: whose blocks are read; NULL: none */
    /*
     * Makes elements [first, first + count) of a piece; called by one thread at a time, in
     * order for a part of a piece before another one.
     */
    int (*make)(void *arg, int64_t id, int64_t first, int64_t count, void *out,
                struct err *err);
    /*
     * No path of the file has the piece whole; err is of the last.  0: the others continue
     * (what depends on it is not to be used), -1: give up.  NULL: give up.
     */
    int (*lost)(void *arg, int file, int64_t id, struct err *err);
    void *arg; /* of both */
    /* The first *bytes of a new file; *head is freed with mem_free. */
    int (*head)(void *heads, int file, char **head, int64_t *bytes, struct err *err);
    void *heads;
    struct moves_files in, out;
    int64_t froms, tos, at; /* at: bytes of the stream so far */
    struct move_from *from; /* [froms] */
    struct move_to *to;     /* [tos], by `at` when they are moved */
    size_t from_space, to_space;
    int64_t repaired;  /* by moves_run: pieces that a later path gave, */
    struct err damage; /* and what was wrong with the path before, of the first */
};

/* A file of one path, which it takes; its number. */
int moves_add_file(struct moves_files *f, int64_t bytes, char *path);
/* A rank's shard in dir and its copies, as one more file of those. */
void moves_add_shard(struct moves_files *f, const char *dir, const struct groups *g, int copies,
                     int rank, int64_t bytes);
/* Blocks of c are read: its files, by rank, before any other. */
void moves_add_ckpt(struct moves *m, struct ckpt *c);

/* Pieces of the stream, one after the other: bytes of a file, a block, or what `make` gives. */
void moves_add_from(struct moves *m, struct move_from from);
void moves_add_block(struct moves *m, int64_t block);
void moves_add_made(struct moves *m, int64_t id, int64_t first, int64_t count, int width);
/* Where bytes of the stream go. */
void moves_add_to(struct moves *m, struct move_to to);

/*
 * Creates the new files in dir (NULL: there are none), fills and syncs them.  Blocks read from
 * copies are counted in m->ckpt->healed.  ERR_INPUT where the pieces do not fit the buffer.
 */
int moves_run(struct moves *m, const struct io_out *dir, struct err *err);
void moves_release(struct moves *m);

/*
 * Its second part: those of `out` are there, of their size.  holes: they are new,
 * and read as zeros: zeros need not be written.
 */
int move_run(struct moves *m, const struct io_out *into, int holes, struct err *err);

#endif
