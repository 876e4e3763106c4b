/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_PRODUCT_H
#define KERN_KERN_PRODUCT_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

/*
 * A matrix product of one shape, prepared once and run many times, by one thread at a time: c
 * (m,n) = op(a) op(b), or from + op(a) op(b) if add is set; op is 'N' or 'T', op(a) is (m,k),
 * op(b) is (k,n), rows ld apart, as in kern_gemm.  a and b have one type, f32 or bf16; sums are
 * f32; c has out_type, which on a CPU is f32.  Equal inputs give equal bits.
 */
struct kern_product_shape {
    char ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
    int add;
    enum dtype type, out_type;
};
struct kern_product;

/* ERR_ABSENT if this CPU has no products of that type. */
int kern_product_new(struct kern_product **out, const struct kern_product_shape *shape,
                     struct err *err);
/* from: read if add is set, c itself or another matrix like it; bias (n) or NULL. */
void kern_product_run(const struct kern_product *p, const void *a, const void *b,
                      const float *from, const float *bias, float *c);
void kern_product_free(struct kern_product *p); /* NULL is fine */

#endif
