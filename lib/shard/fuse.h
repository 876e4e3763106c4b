/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_FUSE_H
#define SHARD_FUSE_H

#include "ckpt/ckpt.h"

/* A checkpoint's matrices with their adapters added; {.ckpt = c} begins it. */
struct fuse {
    struct ckpt *ckpt;            /* borrowed, open */
    const struct model_tensor *t; /* whose adapters are here */
    double *a, *b;                /* (rank, in), (out, rank) */
};

/* Elements [first, first + count) of a matrix with adapters, rounded once to `type`. */
int fuse_part(struct fuse *f, const struct model_tensor *t, int64_t first, int64_t count,
              enum dtype type, void *out, struct err *err);
void fuse_release(struct fuse *f);

#endif
