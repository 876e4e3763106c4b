/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PIECES_H
#define CKPT_CKPT_PIECES_H

#include "ckpt/ckpt_move.h"
#include "ckpt/ckpt_parts.h"

/*
 * A checkpoint as ckpt_move has it.  The stream is its states one after the other, each unit by
 * unit: as the blocks of an open one are sorted.
 */

/* The shard files of a checkpoint, by rank, each with its copies. */
struct ckpt_paths {
    int files, copies;
    struct move_file *file; /* [files], owned */
    char **path;            /* [files * (1 + copies)], owned */
};
void ckpt_paths_open(struct ckpt_paths *p, const struct ckpt *c);
/* The same in another folder. */
void ckpt_paths_of(struct ckpt_paths *p, const struct ckpt *c, const char *dir);
void ckpt_paths_new(struct ckpt_paths *p, const char *dir, const struct ckpt_shard *shard,
                    int shards);
void ckpt_paths_release(struct ckpt_paths *p);

/* Threads: as many as were asked for, or, of 0, one for each processor, from 4 to 16. */
int ckpt_jobs(int asked);

/*
 * Whether one of the files that are read has holes (as far as its file system tells): then new
 * ones need not have more on the disk than that, and zeros are left out of them.
 */
int ckpt_has_holes(const struct move_file *file, int files);

/* Those of blocks [first, first + count) of an open checkpoint; for mem_free. */
struct move_from *ckpt_pieces_from(const struct ckpt *c, int64_t first, int64_t count);
/*
 * Those of all blocks of new shards, their checksums to be filled in there; for mem_free.  The
 * stream is of the types `is`, [states], which may be others than the shards'.
 */
struct move_to *ckpt_pieces_to(const struct ckpt_shard *shard, int shards,
                               const struct ckpt_state *is, int64_t *count);

#endif
