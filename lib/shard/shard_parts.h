/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_PARTS_H
#define SHARD_SHARD_PARTS_H

#include "ckpt/ckpt_write.h"
#include "shard/moves.h"
#include "shard/shard.h"

/* Between the verbs of paro-shard. */

/* Whether path lies below the folder; both absolute, without links. */
int shard_is_below(const char *path, const char *folder);
/*
 * ERR_INPUT where the source lies in the target, which may be replaced, or, unless `inside`,
 * the target in the source, which would be copied into itself.  Being the same is no fault.
 */
int shard_check_apart(const char *from, const char *to, int inside, struct err *err);

/* A checkpoint to come, as split and reshard make it; borrowed. */
struct shard_cut {
    const struct ckpt_shape *shape;
    const struct ckpt_state *is;       /* the types of the stream, [shape->states] */
    int converted;                     /* the params are of another type than they were ... */
    enum dtype type;                   /* ... of this: config.json says so */
    const struct ckpt_run *run;        /* NULL: there was none */
    const struct ckpt_sources *source; /* in dir->temp already */
};
/*
 * Makes its shards in dir->temp, with their copies, fills them from the pieces of m, whose
 * other side is filled in here, and writes the manifest.
 */
int shard_cut(const struct io_dir *dir, const struct shard_cut *what, struct moves *m,
              struct err *err);
/*
 * Whether what merge needs is worth keeping: headers, and what speaks of a type or of files,
 * are of no use where the params are converted.
 */
int shard_keeps(enum ckpt_keep keep, const char *name, int converted);

/*
 * The text of a config.json whose weights are of `type` now: its torch_dtype and dtype say so,
 * and all else stays as it was, byte for byte.  For mem_free.
 */
void hf_config_as(const char *config, enum dtype type, char **text, int64_t *bytes);

#endif
