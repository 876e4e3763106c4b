/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_BLOCK8_H
#define EXEC_EXEC_BLOCK8_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * A code of 129 bytes for 128 numbers, for links that are slower than coding: blocks of
 * elements, each an int8 exponent e and an int8 q of each element,
 *
 *     e q0 q1 ... q127  e q0 ... (the last block has what is left)          x ~ q 2^e
 *
 * With M the largest magnitude of a block, e = floor(log2 M) - 6, so that M 2^-e lies in
 * [64, 128); q is x 2^-e rounded to nearest even, and 127 where that would be 128.
 *
 *   error    |x - q 2^e| <= 2^-7 M.  Half of 2^e is no more, as M >= 64 2^e; and x = t 2^e
 *            with 127.5 <= t < 128 is off by the share (t - 127) / t < 1/128 of itself.  Where
 *            M < 2^-120 there e is -126, and the error at most 2^-127.
 *   exact    q has 7 bits and 2^e is a normal number: decoded values are exact in bf16 and f32.
 *   stable   coding decoded values gives the same code: the largest q of a block is 64 or more,
 *            or e is the least.  What was rounded once can be passed on without a further loss.
 *   visible  an element that is not finite makes its whole block NaN (e = -128).  No finite
 *            one becomes infinite.
 *
 * The sign of a zero is lost.  Types are f32 and bf16.
 */
enum { BLOCK8_ELEMS = 128 };

int64_t block8_bytes(int64_t n); /* of the code of n elements */

/*
 * Codes x.  residual, unless NULL, is what coding lost before, in f32: x + residual is coded,
 * and residual becomes what that loses: but for the rounding of x + residual, exactly the
 * difference.  A block that is not finite leaves none.
 */
void block8_encode(void *code, const void *x, enum dtype type, float *residual, int64_t n);
void block8_decode(void *to, enum dtype type, const void *code, int64_t n);
/* to[i] = a[i] + what the code says, as dtype_reduce adds; to may be a. */
void block8_add(void *to, const void *a, enum dtype type, const void *code, int64_t n);
/* x becomes what its code says; residual as in block8_encode. */
void block8_round(void *x, enum dtype type, float *residual, int64_t n);

#endif
