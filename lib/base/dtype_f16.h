/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_DTYPE_F16_H
#define BASE_DTYPE_F16_H

#include <stdint.h>

/*
 * Adds and scales halves by the processor's instructions, several times as fast as with
 * integers and bit for bit the same.  Both return how many of the first elements are done: all
 * whole vectors, or none where the instructions are absent.  to may be a or b.
 */
int64_t dtype_f16_sum(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n);
int64_t dtype_f16_scale(uint16_t *p, float ranks, int64_t n); /* p[i] / ranks */

#endif
