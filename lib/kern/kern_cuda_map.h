/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDA_MAP_H
#define KERN_KERN_CUDA_MAP_H

/*
 * Applies, in .cu files, an op to every element.  An op is a struct with its pointers and
 *
 *     template <int N> struct held;                    registers for N elements
 *     template <int N> void load(int64_t i, held<N> *h) const;   elements i .. i + N - 1
 *     template <int N> void store(int64_t i, const held<N> &h) const;
 *     int fits(int n) const;    on the host: whether packs of n elements may be used
 *
 * A thread loads ITEMS packs, a block's width apart, before it stores the first, so that all
 * these accesses overlap, even if the compiler cannot exclude aliasing.
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_launch.h"

enum { KERN_MAP_THREADS = 256 };

template <int N, int ITEMS, class OP>
__global__ __launch_bounds__(KERN_MAP_THREADS) void kern_map_kernel(OP op, int64_t n)
{
    const int64_t step = KERN_MAP_THREADS * N;
    int64_t i = (int64_t)blockIdx.x * ITEMS * step + (int64_t)threadIdx.x * N;
    typename OP::template held<N> h[ITEMS];

    if (((int64_t)blockIdx.x + 1) * ITEMS * step <= n) {
#pragma unroll
        for (int k = 0; k < ITEMS; k++)
            op.template load<N>(i + k * step, &h[k]);
#pragma unroll
        for (int k = 0; k < ITEMS; k++)
            op.template store<N>(i + k * step, h[k]);
        return;
    }
    /* the last block: packs, then single elements */
    for (int k = 0; k < ITEMS; k++, i += step) {
        if (i + N <= n) {
            op.template load<N>(i, &h[0]);
            op.template store<N>(i, h[0]);
            continue;
        }
        for (int64_t j = i; N > 1 && j < n; j++) {
            typename OP::template held<1> one;

            op.template load<1>(j, &one);
            op.template store<1>(j, one);
        }
    }
}

/* Uses packs of N if op's pointers are aligned for them, else single elements. */
template <int N, int ITEMS, class OP> static void kern_map(void *stream, OP op, int64_t n)
{
    auto packs = kern_map_kernel<N, ITEMS, OP>;
    auto singles = kern_map_kernel<1, 4, OP>;

    if (n <= 0)
        return;
    if (op.fits(N))
        KERN_LAUNCH(packs, (unsigned)kern_ceil(n, (int64_t)N * ITEMS * KERN_MAP_THREADS),
                    KERN_MAP_THREADS, 0, stream, op, n);
    else
        KERN_LAUNCH(singles, (unsigned)kern_ceil(n, 4 * KERN_MAP_THREADS), KERN_MAP_THREADS, 0,
                    stream, op, n);
}

/* The op to[i] = one(from[i]), computed in float and rounded once; to may be from. */
template <class T, class F, class ONE> struct kern_each {
    T *to;
    const F *from;
    ONE one; /* float operator()(float) const */
    template <int N> struct held {
        kern_pack<F, N> x;
    };
    int fits(int n) const
    {
        return kern_fits(to, n) && kern_fits(from, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->x = kern_load<N>(from + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float y[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            y[k] = one(kern_at(h.x, k));
        kern_store<N>(to + i, kern_round_pack<T, N>(y));
    }
};

/* Row of element i of a matrix of c columns; divides in 32 bits if they suffice. */
__device__ static __forceinline__ int64_t kern_row_of(int64_t i, int64_t c)
{
    return i >> 32 || c >> 32 ? i / c : (int64_t)((uint32_t)i / (uint32_t)c);
}

/* Offset of element i of a contiguous matrix of c columns if rows are ld apart. */
__device__ static __forceinline__ int64_t kern_in_rows(int64_t i, int64_t c, int64_t ld)
{
    return c == ld ? i : i + kern_row_of(i, c) * (ld - c);
}

#endif
