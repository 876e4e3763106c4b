/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathers rows of a table by token, adds learned positions, and computes their gradients. */
#include "kern/kern_cuda_map.h"
#include "kern/kern_cuda_sum.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class T, class W> struct embed_op {
    T *y;
    const W *table;
    const int32_t *token;
    int64_t vocab, c;
    template <int N> struct held {
        kern_pack<W, N> w;
    };
    int fits(int n) const
    {
        return kern_fits(y, n) && kern_fits(table, n) && c % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        int64_t row = kern_row_of(i, c), id = token[row];

        if (id < 0 || id >= vocab)
            __trap();
        h->w = kern_load<N>(table + id * c + (i - row * c));
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float r[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            r[k] = kern_at(h.w, k);
        kern_store<N>(y + i, kern_round_pack<T, N>(r));
    }
};

template <class T, class W>
static void cuda_embed(void *stream, void *y, const void *table, const int32_t *token,
                       int64_t n, int64_t vocab, int64_t c)
{
    kern_map<kern_full<T>::n, 2>(
        stream, embed_op<T, W>{(T *)y, (const W *)table, token, vocab, c}, n * c);
}

extern "C" void kern_cuda_embed(struct kern *k, void *y, const void *table,
                                const struct kern_tokens *t, int64_t vocab, int64_t c)
{
    KERN_BY_TYPE(
        k->act, T,
        KERN_BY_TYPE(k->weight, W,
                     cuda_embed<T, W>(kern_cuda_stream(k), y, table, t->id, t->n, vocab, c)));
    kern_cuda_check(k, "embed");
}

/*
 * A run is the rows of dy that have one token.  A block has RUNS runs, a piece of 32 N columns
 * of them, and RUNS warps: a short run belongs to one warp; the rows of a long one are
 * distributed over all warps, whose sums are added in the order of the warps.
 *
 *     runs of block b       b   b + blocks   b + 2 blocks ...
 *     rows of a long run    0 1 2 3 4 5 6 7 8 9 ...
 *     warp                  0 1 2 3 4 5 6 7 0 1
 *
 * Frequent tokens have small numbers in most vocabularies: so spread, no block has many of
 * their runs; and all pieces of the first runs come first in the grid, for they take the
 * longest. SHORT_ROWS or LONG_ROWS rows are loaded at once.
 */
enum { RUNS = 8, LONG = 32, BLOCKS = 4, SHORT_ROWS = 4, LONG_ROWS = 8 };

template <int N, int ROWS, class T>
__device__ static __forceinline__ void sum_rows(float (&sum)[N], const T *dy,
                                                const int32_t *row, int from, int to, int step,
                                                int64_t c)
{
    for (int i = from; i < to; i += ROWS * step) {
        kern_pack<T, N> h[ROWS];
        int32_t at[ROWS];

#pragma unroll
        for (int k = 0; k < ROWS; k++)
            at[k] = i + k * step < to ? row[i + k * step] : -1;
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (at[k] >= 0)
                h[k] = kern_load<N>(dy + at[k] * c);
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (at[k] >= 0)
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum[j] += kern_at(h[k], j);
    }
}

template <int N>
__device__ static __forceinline__ void store_sum(float *to, kern_pack<float, N> before,
                                                 const float (&sum)[N])
{
#pragma unroll
    for (int j = 0; j < N; j++)
        before.at[j] += sum[j];
    kern_store<N>(to, before);
}

template <int N, class T>
__global__ __launch_bounds__(RUNS * 32, BLOCKS) void embed_backward_kernel(
    float *dtable, const T *dy, const int32_t *token, const int32_t *row, const int32_t *run,
    int64_t runs, int64_t c, unsigned pieces)
{
    __shared__ float part[RUNS][32 * N];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t column = ((int64_t)blockIdx.x % pieces * 32 + lane) * N;
    const int64_t mine = (int64_t)lane * (gridDim.x / pieces) + blockIdx.x / pieces;
    int first = 0, end = 0;

    /* each warp knows the bounds of all of the block's runs */
    if (lane < RUNS && mine < runs) {
        first = run[mine];
        end = run[mine + 1];
    }
    unsigned longs = __ballot_sync(KERN_WARP, end - first >= LONG);
    int from = __shfl_sync(KERN_WARP, first, warp), to = __shfl_sync(KERN_WARP, end, warp);

    if (from < to && to - from < LONG && column < c) {
        float sum[N] = {}, *at = dtable + (int64_t)token[row[from]] * c + column;
        kern_pack<float, N> before = kern_load<N>(at);

        sum_rows<N, SHORT_ROWS>(sum, dy + column, row, from, to, 1, c);
        store_sum<N>(at, before, sum);
    }
    for (; longs; longs &= longs - 1) {
        float sum[N] = {};

        from = __shfl_sync(KERN_WARP, first, __ffs((int)longs) - 1);
        to = __shfl_sync(KERN_WARP, end, __ffs((int)longs) - 1);
        if (column < c)
            sum_rows<N, LONG_ROWS>(sum, dy + column, row, from + warp, to, RUNS, c);
        __syncthreads(); /* the previous run may still be read */
        for (int j = 0; j < N; j++)
            part[warp][lane * N + j] = sum[j];
        __syncthreads();
        if (warp == 0 && column < c) {
            float *at = dtable + (int64_t)token[row[from]] * c + column;

            for (int w = 1; w < RUNS; w++)
                for (int j = 0; j < N; j++)
                    sum[j] += part[w][lane * N + j];
            store_sum<N>(at, kern_load<N>(at), sum);
        }
    }
}

template <int N, class T>
static void cuda_embed_backward(void *stream, float *dtable, const T *dy, const int32_t *token,
                                const int32_t *row, const int32_t *run, int64_t runs, int64_t c)
{
    auto kernel = embed_backward_kernel<N, T>;
    unsigned pieces = (unsigned)kern_ceil(c, 32 * N);

    KERN_LAUNCH(kernel, (unsigned)kern_ceil(runs, RUNS) * pieces, RUNS * 32, 0, stream, dtable,
                dy, token, row, run, runs, c, pieces);
}

template <class T>
static void embed_backward_of(void *stream, float *dtable, const void *dy, const int32_t *token,
                              const int32_t *row, const int32_t *run, int64_t runs, int64_t c)
{
    const int full = kern_full<T>::n;
    const T *d = (const T *)dy;

    if (kern_fits(dtable, full) && kern_fits(d, full) && c % full == 0)
        cuda_embed_backward<full>(stream, dtable, d, token, row, run, runs, c);
    else
        cuda_embed_backward<1>(stream, dtable, d, token, row, run, runs, c);
}

extern "C" void kern_cuda_embed_backward(struct kern *k, float *dtable, const void *dy,
                                         const struct kern_tokens *t, int64_t c)
{
    if (t->runs <= 0 || c <= 0)
        return;
    KERN_BY_TYPE(k->act, T,
                 embed_backward_of<T>(kern_cuda_stream(k), dtable, dy, t->id, t->row, t->run,
                                      t->runs, c));
    kern_cuda_check(k, "embed_backward");
}

/* y (batch, table's elements) += table */
template <class T, class W> struct positions_op {
    T *y;
    const W *table;
    int64_t each;
    template <int N> struct held {
        kern_pack<T, N> y;
        kern_pack<W, N> w;
    };
    int fits(int n) const
    {
        return kern_fits(y, n) && kern_fits(table, n) && each % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->y = kern_load<N>(y + i);
        h->w = kern_load<N>(table + (i - kern_row_of(i, each) * each));
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float r[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            r[k] = kern_at(h.y, k) + kern_at(h.w, k);
        kern_store<N>(y + i, kern_round_pack<T, N>(r));
    }
};

extern "C" void kern_cuda_positions(struct kern *k, void *y, const void *table, int64_t batch,
                                    int64_t seq, int64_t c)
{
    KERN_BY_TYPE(k->act, T,
                 KERN_BY_TYPE(k->weight, W,
                              kern_map<kern_full<T>::n, 2>(
                                  kern_cuda_stream(k),
                                  positions_op<T, W>{(T *)y, (const W *)table, seq * c},
                                  batch * seq * c)));
    kern_cuda_check(k, "positions");
}

template <class T> struct positions_backward_op {
    float *dtable;
    const T *dy;
    int64_t batch, each;
    template <int N> struct held {
        kern_pack<float, N> sum;
    };
    int fits(int n) const
    {
        return kern_fits(dtable, n) && kern_fits(dy, n) && each % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->sum = kern_load<N>(dtable + i);
#pragma unroll 8
        for (int64_t b = 0; b < batch; b++) {
            kern_pack<T, N> d = kern_load<N>(dy + b * each + i);

#pragma unroll
            for (int k = 0; k < N; k++)
                h->sum.at[k] += kern_at(d, k);
        }
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        kern_store<N>(dtable + i, h.sum);
    }
};

extern "C" void kern_cuda_positions_backward(struct kern *k, float *dtable, const void *dy,
                                             int64_t batch, int64_t seq, int64_t c)
{
    KERN_BY_TYPE(k->act, T,
                 kern_map<kern_full<T>::n, 1>(
                     kern_cuda_stream(k),
                     positions_backward_op<T>{dtable, (const T *)dy, batch, seq * c}, seq * c));
    kern_cuda_check(k, "positions_backward");
}
