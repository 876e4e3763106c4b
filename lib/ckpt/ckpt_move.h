/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_MOVE_H
#define CKPT_CKPT_MOVE_H

#include <stdatomic.h>

#include "ckpt/ckpt_parts.h"

/* The states of an open checkpoint, into the shard files of another shape; all borrowed. */
struct ckpt_move {
    const struct ckpt *from;
    const char *dir; /* where the new files go */
    struct ckpt_shard *shard;
    int shards;             /* of the same model and states; the checksums are filled in */
    int64_t buffer;         /* bytes in flight: ERR_INPUT when a block does not fit */
    int jobs;               /* threads, the caller's among them */
    const atomic_int *stop; /* not 0: give up, ERR_SYS; NULL: nobody asks */
};

/*
 * Reads each block once, checks it before any of its bytes is used, and writes each new block
 * once; the new files are made and synced.
 */
int ckpt_move(const struct ckpt_move *what, struct err *err);

#endif
