/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_BLOCK8_H
#define EXEC_EXEC_BLOCK8_H

#include <stdint.h>

#include "base/dtype.h"

/*
 * A code of 129 bytes for 128 numbers, for links that are slower than coding: blocks of
 * elements, each an int8 exponent e and an int8 q of each element,
 *
 *     e q0 q1 ... q127  e q0 ... (the last block may be shorter)            x ~ q 2^e
 *
 * With M the largest magnitude of a block, e = floor(log2 M) - 6, so that M 2^-e lies in [64,
 * 128); q is x 2^-e rounded to nearest even, and 127 where that would be 128.
 *
 *   error    |x - q 2^e| <= 2^-7 M.  Rounding to nearest is off by at most 2^e / 2, which is no
 *            more, as M >= 64 2^e; and x = t 2^e with 127.5 <= t < 128 is off by the share (t -
 *            127) / t < 1/128 of itself.  Where M < 2^-120, e is -126 and the error at most
 *            2^-127.
 *   exact    q has 7 bits and 2^e is a normal number: decoded values are exact in bf16 and f32.
 *   stable   coding decoded values gives the same code: the largest q of a block is 64 or more,
 *            or e is the least.  A rounded value can be passed on without a further loss.
 *   visible  an element that is not finite makes its whole block NaN (e = -128).  No finite one
 *            becomes infinite.
 *
 * The sign of a zero is lost.  Types are f32 and bf16.
 */
enum { BLOCK8_ELEMS = 128 };

int64_t block8_bytes(int64_t n); /* length of the code of n elements */

/*
 * Encodes n elements x of `type` into block8_bytes(n) bytes.  residual: [n] f32 or NULL.  If
 * given, x + residual is encoded and residual becomes the new error: exactly the difference, up
 * to the rounding of x + residual.  A block that is not finite leaves residuals of 0.
 */
void block8_encode(void *code, const void *x, enum dtype type, float *residual, int64_t n);
/* to[i] = a[i] + decoded[i], as dtype_reduce adds, or decoded[i] if a is NULL; to may be a. */
void block8_add(void *to, const void *a, enum dtype type, const void *code, int64_t n);

#endif
