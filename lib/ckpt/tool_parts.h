/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_TOOL_PARTS_H
#define CKPT_TOOL_PARTS_H

#include "ckpt/ckpt_move.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/tool.h"

/* Between the verbs of paro-shard. */

/*
 * ERR_INPUT where one lies inside the other: it would be copied into itself, or removed with
 * what it replaces.  Being the same is no fault.
 */
int tool_check_apart(const char *from, const char *to, struct err *err);
/* The source does not lie in what may be replaced; the target may lie in the source. */
int tool_check_kept(const char *from, const char *to, struct err *err);

/* A checkpoint to come, as split and reshard make it; borrowed. */
struct tool_cut {
    const struct ckpt_shape *shape;
    const struct ckpt_state *is;       /* the types of the stream, [shape->states] */
    int converted;                     /* the params are of another type than they were ... */
    enum dtype type;                   /* ... of this: config.json says so */
    const struct ckpt_run *run;        /* NULL: there was none */
    const struct ckpt_sources *source; /* in dir->temp already */
};
/*
 * Makes its shards in dir->temp, with their copies, fills them from move's stream (its `to`
 * side is filled in here), and writes the manifest.
 */
int tool_cut(const struct io_dir *dir, const struct tool_cut *what, struct ckpt_move *move,
             struct move_result *result, struct err *err);
/*
 * Whether what merge needs is worth keeping: headers, and what speaks of a type or of files,
 * are of no use where the params are converted.
 */
int tool_keeps(enum ckpt_keep keep, const char *name, int converted);

#endif
