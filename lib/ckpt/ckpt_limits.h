/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_LIMITS_H
#define CKPT_CKPT_LIMITS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Limits on the sizes that a file may state.  The error of an exceeded limit names the option
 * that raises it.
 */
struct ckpt_limits {
    int64_t header_bytes;   /* safetensors header, and index: --max-header */
    int64_t tensors;        /* tensors in one header or index: --max-tensors */
    int64_t name_bytes;     /* length of a tensor's name: --max-name */
    int64_t files;          /* files of an index, or other files in the folder: --max-files */
    int64_t manifest_bytes; /* --max-manifest */
    const atomic_int *stop; /* not 0: abort and clean up; NULL: never aborts */
};

/* Far above all real files, and far below a machine's memory. */
extern const struct ckpt_limits ckpt_limits_usual;

/*
 * The largest step, token count and position at which a run may begin: about a ninth of 2^63,
 * so that further counting does not overflow.
 */
#define CKPT_RUN_MAX INT64_C(1000000000000000000)

/* Depth of folders, in a folder of weights and in the part that a checkpoint keeps. */
enum { CKPT_DEPTH_MAX = 16 };

#endif
