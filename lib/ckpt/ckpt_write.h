/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_WRITE_H
#define CKPT_CKPT_WRITE_H

#include "base/io.h"
#include "ckpt/ckpt.h"

/* What all ranks that write one checkpoint agree on; all borrowed. */
struct ckpt_shape {
    const struct model *model; /* with units and its config */
    const struct layout *layout;
    const char *strategy; /* "IIG": for people; it places nothing */
    int states;
    struct ckpt_state state[CKPT_STATES_MAX];
    int copies; /* of each file, beside it: ckpt_check_copies was content */
};

/* Puts elements [at.lo, at.hi) of a unit's state, in the state's type, into out. */
typedef int (*ckpt_fill)(void *arg, int unit, int state, struct range at, void *out,
                         struct err *err);

/*
 * Writes rank's file into the temporary, synced.  Asks fill
 * for at most CKPT_BLOCK_ELEMS elements at a time, always inside the rank's G shard.  *entry is
 * the file's part of the manifest, a line of JSON, owned by the caller (mem_free).
 */
int ckpt_write_shard(const struct io_dir *dir, int rank, const struct ckpt_shape *shape,
                     ckpt_fill fill, void *arg, char **entry, struct err *err);
/*
 * Writes config.json and manifest.json from the entries of all ranks, in rank order.  run is
 * NULL where there was none (split); source lies in the folder already.  Last, before the
 * folder is committed.
 */
int ckpt_write_manifest(const struct io_dir *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run,
                        const struct ckpt_sources *source, struct err *err);

#endif
