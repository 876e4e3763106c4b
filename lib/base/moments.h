/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_MOMENTS_H
#define BASE_MOMENTS_H

#include <stdint.h>

#include "base/err.h"

/*
 * Storage of AdamW's two moments, exp_avg and exp_avg_sq: f32; bf16, rounded stochastically
 * after each update; or int8, an 8-bit code for each element and an f32 scale for each block of
 * MOMENTS_BLOCK elements (kern/kern_moments.h):
 *
 *     n = 600    | scale of block 0, 1, 2 | 600 codes |
 *
 * Blocks lie on a grid over a unit's trained vector, whatever the tensors and the shards.
 */
enum moments { MOMENTS_F32, MOMENTS_BF16, MOMENTS_INT8 };
enum { MOMENTS_BLOCK = 256 };

const char *moments_name(enum moments type); /* "f32", "bf16", "int8" */
int moments_parse(const char *text, enum moments *out, struct err *err);
/* Returns the bytes of one moment of n elements. */
int64_t moments_bytes(enum moments type, int64_t n);
/* Returns the multiple of elements at which shards may be cut. */
int moments_grain(enum moments type);

#endif
