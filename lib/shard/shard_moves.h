/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_MOVES_H
#define SHARD_SHARD_MOVES_H

#include "ckpt/ckpt_write.h"
#include "shard/shard.h"

/*
 * Describes a plan of moves, used by init, split, merge, reshard, repair and verify: input
 * files, new files, and a STREAM of bytes between them.  The pieces of `from` tile the stream
 * in order.  The pieces of `to` lie anywhere in it; two of them may cover the same bytes (a
 * tied head's second tensor):
 *
 *     from   |    0     |    1     |  2  |   3   |
 *     to     |  0  |    1    |     2     |   3   |
 *
 * Each piece of `from` is read once, even if unused, and checked; each piece of `to` is written
 * to every path of its file.  A checkpoint's stream is its states one after the other, each
 * unit by unit, in the order of struct ckpt's blocks.
 */

/* A file and its copies: paths to the same bytes. */
struct move_file {
    /* Index of its first path in moves_files, and number of its paths: reading uses the next
       path if one is damaged or absent, writing writes all. */
    int64_t first;
    int paths;
    int64_t bytes; /* size of each path's file */
};

struct moves_files {
    int files;
    struct move_file *file;
    char **path; /* owned; the paths of all files, file by file */
    int64_t paths;
    size_t file_space, path_space;
};

struct move_from {
    int64_t bytes;    /* size in the stream */
    int file;         /* -1: made by `make` */
    int64_t offset;   /* offset in the file */
    const char *hash; /* XXH3 as ckpt_hash prints it, borrowed; NULL: unknown */
    int64_t id;       /* number of a block of `ckpt`, or argument of `make` */
    int64_t first;    /* for `make`: the first element, */
    int width;        /* and bytes of an element */
};

struct move_to {
    /* Range in the stream: bytes / dtype_bytes(type) elements, none of which crosses the end of
       a piece of `from` */
    int64_t at, bytes;
    int file;
    int64_t offset;        /* offset in the file */
    enum dtype type, want; /* converted from type to want if they differ */
    /* [33], borrowed, output: checksum of the bytes in the file; NULL: not wanted */
    char *hash;
};

struct moves {
    const struct shard_options *options; /* borrowed */
    const atomic_int *stop;              /* borrowed; not 0: abort with ERR_SYS */
    struct ckpt *ckpt;                   /* borrowed: source of blocks; NULL: none */
    /*
     * Makes elements [first, first + count) of a piece.  Called by one thread at a time; the
     * calls for one part of a piece are in order and not mixed with other parts.
     */
    int (*make)(void *arg, int64_t id, int64_t first, int64_t count, void *out,
                struct err *err);
    /*
     * Called if no path of the file has an intact piece; err is that of the last path.  Returns
     * 0: continue with the others (the caller must not use results that depend on the piece);
     * -1: abort.  NULL: abort.
     */
    int (*lost)(void *arg, int file, int64_t id, struct err *err);
    void *arg; /* argument of make and lost */
    /* Returns the first *bytes bytes of a new file; *head is freed with mem_free. */
    int (*head)(void *heads, int file, char **head, int64_t *bytes, struct err *err);
    void *heads;
    struct moves_files in, out;
    int64_t froms, tos, at; /* at: bytes of the stream added so far */
    struct move_from *from; /* [froms] */
    struct move_to *to;     /* [tos], sorted by `at` when moving */
    size_t from_space, to_space;
    int64_t repaired;  /* output of moves_run: pieces read from a later path, */
    struct err damage; /* and the error of the first of them */
};

/* Adds a file of one path, of which it takes ownership; returns its number. */
int moves_add_file(struct moves_files *f, int64_t bytes, char *path);
/* Adds a rank's shard in dir, and its copies, as one more file. */
void moves_add_shard(struct moves_files *f, const char *dir, const struct groups *g, int copies,
                     int rank, int64_t bytes);
/* Sets the source of blocks to c; adds its files by rank.  Call it before adding other input
   files. */
void moves_add_ckpt(struct moves *m, struct ckpt *c);

/* Add pieces to the stream, one after the other: bytes of a file, a block, or elements from
   `make`. */
void moves_add_from(struct moves *m, struct move_from from);
void moves_add_block(struct moves *m, int64_t block);
void moves_add_made(struct moves *m, int64_t id, int64_t first, int64_t count, int width);
/* Adds a destination of bytes of the stream. */
void moves_add_to(struct moves *m, struct move_to to);

/*
 * Creates the new files in dir (NULL: there are none), fills and syncs them.  Counts blocks
 * read from copies in m->ckpt->repaired.  ERR_INPUT if a piece does not fit the buffer.
 */
int moves_run(struct moves *m, const struct io_out *dir, struct err *err);
void moves_release(struct moves *m);

/*
 * The second half of moves_run: the files of `out` exist and have their size.  holes: they are
 * new and read as zeros, so zeros need not be written.
 */
int move_run(struct moves *m, const struct io_out *into, int holes, struct err *err);

#endif
