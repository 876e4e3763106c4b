/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_LIMITS_H
#define CKPT_CKPT_LIMITS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Bounds the sizes that a file may claim.  The error of an exceeded limit names the option that
 * raises it.
 */
struct ckpt_limits {
    int64_t header_bytes;   /* of a safetensors header, and of an index: --max-header */
    int64_t tensors;        /* in one header, or in an index: --max-tensors */
    int64_t name_bytes;     /* of a tensor: --max-name */
    int64_t files;          /* of an index, or beside the weights: --max-files */
    int64_t manifest_bytes; /* --max-manifest */
    const atomic_int *stop; /* not 0: give up, leaving nothing; NULL: nobody asks */
};

/* Far above all real files, and far below the memory of a machine. */
extern const struct ckpt_limits ckpt_limits_usual;

/*
 * Steps, tokens and positions at which a run may begin: a ninth of what 64 bits hold, so that
 * counting on does not overflow.
 */
#define CKPT_RUN_MAX INT64_C(1000000000000000000)

/* Folders below one another, in a folder of weights and in what a checkpoint keeps of it. */
enum { CKPT_DEPTH_MAX = 16 };

#endif
