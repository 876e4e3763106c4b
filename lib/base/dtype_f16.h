/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_DTYPE_F16_H
#define BASE_DTYPE_F16_H

#include <stdint.h>

/*
 * Add and scale f16 with the processor's instructions: several times as fast as with integers,
 * with identical results.  Both return the number of leading elements that are done: all whole
 * vectors, or 0 without these instructions.  `to` may equal a or b.
 */
int64_t dtype_f16_sum(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n);
int64_t dtype_f16_scale(uint16_t *p, float ranks, int64_t n); /* p[i] / ranks */

#endif
