/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_MOVE_H
#define SHARD_MOVE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/io.h"

/*
 * Bytes on their way from one set of files into another in one pass: what split, merge, reshard
 * and repair have in common.  It knows neither checkpoints nor safetensors.
 *
 * What moves is one STREAM of bytes.  The pieces of the `from` side tile it, one after the
 * other; those of the `to` side lie anywhere in it, over each other too (a tied head's second
 * tensor):
 *
 *     from   |    0     |    1     |  2  |   3   |
 *     to     |  0  |    1    |     2     |   3   |
 *
 * Each piece of `from` is read once, whether a byte of it is wanted or not, and checked before
 * any is used; each piece of `to` is written once to every path of its file.
 */

/* Files that are, or will be, the same byte for byte. */
struct move_file {
    const char *const *path; /* [paths], borrowed: read, the next is taken where one is damaged
                                or absent; written, all are */
    int paths;
    int64_t bytes; /* of each */
};

struct move_from {
    int64_t bytes;    /* of the stream */
    int file;         /* -1: what `make` gives */
    int64_t offset;   /* in the file */
    const char *hash; /* XXH3 as ckpt_hash prints it, borrowed; NULL: nobody knows */
};

struct move_to {
    int64_t at, bytes; /* of the stream */
    int file;
    int64_t offset;        /* in the file */
    enum dtype type, want; /* converted where they are not equal: then the piece has
                              bytes / dtype_bytes(type) elements in the stream, and as many
                              of `want` in the file */
    char *hash; /* [33], borrowed, filled in: of what the file gets; NULL: nobody asks */
};

/* All borrowed. */
struct move {
    int from_files, to_files;
    const struct move_file *from_file, *to_file; /* those of `to` are there, of their size, */
    const struct io_dir *into;                   /* in this temporary */
    int holes; /* those of `to` are new, and read as zeros: zeros need not be written */
    int64_t froms, tos;
    const struct move_from *from; /* [froms] */
    const struct move_to *to;     /* [tos] by `at` */
    int64_t buffer;               /* bytes in flight: ERR_INPUT where pieces do not fit */
    int jobs;                     /* threads, the caller's among them */
    const atomic_int *stop;       /* not 0: give up, ERR_SYS; NULL: nobody asks */
    void *arg, *ear;              /* of the functions below; one thread at a time calls any */
    /*
     * Bytes [first, first + bytes) of a piece whose file is -1; inside the piece it is cut only
     * where the stream's byte is a multiple of 64.
     */
    int (*make)(void *arg, int64_t piece, int64_t first, int64_t bytes, void *out,
                struct err *err);
    /* Says in err what is damaged: a piece whose checksum is `hash`, read from `path`. */
    void (*damaged)(void *arg, int64_t piece, const char *path, const char *hash,
                    struct err *err);
    /*
     * No path has the piece whole; err is of the last.  0: the others go on (in its place are
     * zeros, and what depends on it is not to be used), -1: give up.  NULL: give up.
     */
    int (*lost)(void *arg, int64_t piece, struct err *err);
    /* How far it is, now and then: bytes of the stream, read and written; NULL: nobody asks. */
    void (*tell)(void *ear, int64_t done, int64_t all);
};

struct move_result {
    int64_t read_bytes, written_bytes;
    int64_t healed;   /* pieces that a later path gave */
    struct err wound; /* the first of them: what was wrong with the path before */
};

/* Syncs all it wrote.  *out may be NULL; it is filled in when this fails, too. */
int move_run(const struct move *what, struct move_result *out, struct err *err);

#endif
