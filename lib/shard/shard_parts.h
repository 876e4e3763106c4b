/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_PARTS_H
#define SHARD_SHARD_PARTS_H

#include "ckpt/ckpt_write.h"
#include "shard/shard_moves.h"
#include "shard/shard.h"

/* Declares what the verbs of paro-shard share. */

/*
 * ERR_INPUT where the source is inside the target, which may be replaced, or, unless it `may`,
 * the target inside the source or the source itself.
 */
enum { SHARD_BE_INSIDE = 1, SHARD_BE_SOURCE = 2 };
int shard_check_apart(const char *from, const char *to, int may, struct err *err);

/* The checkpoint that split and reshard write; borrowed. */
struct shard_cut {
    const struct ckpt_shape *shape;
    const struct ckpt_state *is;       /* the types of the stream, [shape->states] */
    int converted;                     /* the params are of another type than they were ... */
    enum dtype type;                   /* ... of this: config.json says so */
    const struct ckpt_run *run;        /* NULL: there was none */
    const struct ckpt_sources *source; /* in dir->temp already */
};
/*
 * Writes its shards and their copies into dir->temp from the pieces that m reads (where they go
 * is filled in here), then the manifest.
 */
int shard_cut(const struct io_out *dir, const struct shard_cut *what, struct moves *m,
              struct err *err);
/*
 * Whether source/ keeps this file for merge: where the params are converted, not the headers,
 * nor config.json and the index, which name types and files.
 */
int shard_keeps(enum ckpt_keep keep, const char *name, int converted);

/*
 * The text of a config.json whose weights are of `type` now: its torch_dtype and dtype say so,
 * and all else stays as it was, byte for byte.  For mem_free.
 */
char *hf_config_as(const char *config, enum dtype type);

#endif
