/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_PARTS_H
#define SHARD_SHARD_PARTS_H

#include "ckpt/ckpt_write.h"
#include "shard/shard_moves.h"
#include "shard/shard.h"

/* Declares functions that several verbs of paro-shard share. */

/*
 * ERR_INPUT if the source is inside the target, which may be replaced; also if the target is
 * inside the source or is the source itself, unless `may` allows it.
 */
enum { SHARD_BE_INSIDE = 1, SHARD_BE_SOURCE = 2 };
int shard_check_apart(const char *from, const char *to, int may, struct err *err);

/* The checkpoint for split and reshard to write; borrowed. */
struct shard_cut {
    const struct ckpt_shape *shape;
    const struct ckpt_state *is;       /* types in the stream, [shape->states] */
    int converted;                     /* the params change their type ... */
    enum dtype type;                   /* ... to this, which config.json then states */
    const struct ckpt_run *run;        /* NULL: no run */
    const struct ckpt_sources *source; /* already in dir->temp */
};
/*
 * Writes the shards and their copies into dir->temp from the pieces that m reads (adds their
 * destinations to m), then the manifest.
 */
int shard_cut(const struct io_out *dir, const struct shard_cut *what, struct moves *m,
              struct err *err);
/*
 * Whether source/ keeps this file for merge.  If the params change their type, headers,
 * config.json and the index are not kept, since they name types and files.
 */
int shard_keeps(enum ckpt_keep keep, const char *name, int converted);

/*
 * The text of a config.json with torch_dtype and dtype changed to `type`, otherwise unchanged
 * byte for byte; mem_free.
 */
char *hf_config_as(const char *config, enum dtype type);

#endif
