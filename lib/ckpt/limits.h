/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_LIMITS_H
#define CKPT_LIMITS_H

#include <stdint.h>

/*
 * How much a file may ask for before it is believed.  Who meets a limit names the option that
 * raises it.
 */
struct ckpt_limits {
    int64_t header_bytes;   /* of a safetensors header, and of an index: --max-header */
    int64_t tensors;        /* in one header, or in an index: --max-tensors */
    int64_t name_bytes;     /* of a tensor: --max-name */
    int64_t files;          /* that an index may name: --max-files */
    int64_t manifest_bytes; /* --max-manifest */
};

/* What is far above all real files, and far below what a machine has. */
extern const struct ckpt_limits ckpt_limits_usual;

/*
 * Steps, tokens and places that a run begins with: they count on, and about a ninth of what 64
 * bits hold leaves it room to do so.
 */
#define CKPT_RUN_MAX INT64_C(1000000000000000000)

#endif
