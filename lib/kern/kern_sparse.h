/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_SPARSE_H
#define KERN_KERN_SPARSE_H

#include <stdint.h>

/*
 * Computes products with a sparse matrix W (out, in), on a CPU, in f32.  It lists, for every
 * `block` outputs, the inputs whose values are not all 0, with these values.  Place p has the
 * `block` values at value[p * block], for input column[p] and outputs from o * block on, where
 * start[o] <= p < start[o + 1].  block is 1 or 4; outputs past the last one have values of 0.
 *
 * Rows are processed KERN_SPARSE_TILE at a time, transposed, so that a value is multiplied with
 * a vector of them: space is kern_sparse_space floats.  Equal inputs give equal bits.
 */
enum { KERN_SPARSE_TILE = 32 };

struct kern_sparse {
    int64_t out, in;
    int block;
    const int32_t *start, *column; /* [out / block + 1, rounded up], [places] */
    const float *value;
};

/* The most places of a matrix with `entries` entries for which all three products are faster
   than dense ones: with 10 % of the entries they take 0.5 to 0.7 of the dense time in blocks
   and 0.9 one by one, with 20 % all of it (AVX-512, 256 to 2048 inputs and outputs). */
int64_t kern_sparse_most(int block, int64_t entries);
int64_t kern_sparse_space(int64_t rows, int64_t in, int64_t out);
/* y (rows,out) = x W^T, or from + x W^T, + bias (out); NULL: none.  from: rows as y's. */
void kern_sparse_y(const struct kern_sparse *w, const float *x, int64_t ldx, int64_t rows,
                   const float *from, const float *bias, float *y, int64_t ldy, float *space);
/* dx (rows,in) = dy W, or += if add. */
void kern_sparse_dx(const struct kern_sparse *w, const float *dy, int64_t ldy, int64_t rows,
                    int add, float *dx, int64_t ldx, float *space);
/* dvalue [places * block] += dy^T x at the places. */
void kern_sparse_dw(const struct kern_sparse *w, const float *dy, int64_t ldy, const float *x,
                    int64_t ldx, int64_t rows, float *dvalue, float *space);

#endif
