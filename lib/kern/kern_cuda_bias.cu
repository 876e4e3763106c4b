/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds biases to rows, and computes the sums over rows that are their gradients. */
#include "kern/kern_cuda_columns.h"
#include "kern/kern_cuda_map.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class T, class W> struct bias_op {
    T *y;
    const W *b;
    int64_t c, ld;
    template <int N> struct held {
        kern_pack<T, N> y;
        kern_pack<W, N> b;
    };
    int fits(int n) const
    {
        return kern_fits(y, n) && kern_fits(b, n) && c % n == 0 && ld % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->y = kern_load<N>(y + kern_in_rows(i, c, ld));
        h->b = kern_load<N>(b + (i - kern_row_of(i, c) * c));
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float r[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            r[k] = kern_at(h.y, k) + kern_at(h.b, k);
        kern_store<N>(y + kern_in_rows(i, c, ld), kern_round_pack<T, N>(r));
    }
};

extern "C" void kern_cuda_bias(struct kern *k, void *y, int64_t ld, const void *b, int64_t n,
                               int64_t c)
{
    KERN_BY_TYPE(k->act, T,
                 KERN_BY_TYPE(k->weight, W,
                              kern_map<kern_full<T>::n, 2>(
                                  kern_cuda_stream(k),
                                  bias_op<T, W>{(T *)y, (const W *)b, c, ld}, n * c)));
    kern_cuda_check(k, "bias");
}

/*
 * Partial sums: a block has 32 N columns and a piece of the rows, which are distributed over
 * its warps.  The number of pieces, of at least 32 rows, lets all blocks of bf16 run at once on
 * an H100, five on each of 132 processors: while blocks add up their warps' sums no loads are
 * in flight, which would be a quarter of the time with pieces of only 128 rows.
 */
enum { WARPS = 8, AT_ONCE = 5 * 132, PIECES = 128, PIECE_ROWS = 32, ROWS = 4 };

template <int N, class T>
__global__ __launch_bounds__(WARPS * 32) void bias_sum_kernel(float *part, const T *dy,
                                                              int64_t ld, int64_t n, int64_t c,
                                                              int64_t piece)
{
    __shared__ float space[WARPS][32 * N];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t column = ((int64_t)blockIdx.x * 32 + lane) * N;
    int64_t i = blockIdx.y * piece + warp, end = min((blockIdx.y + 1) * piece, n);
    float sum[N] = {};

    dy += column;
    if (column < c)
        for (; i < end; i += ROWS * WARPS) {
            kern_pack<T, N> h[ROWS];

#pragma unroll
            for (int k = 0; k < ROWS; k++)
                if (i + k * WARPS < end)
                    h[k] = kern_load<N>(dy + (i + k * WARPS) * ld);
#pragma unroll
            for (int k = 0; k < ROWS; k++)
                if (i + k * WARPS < end)
#pragma unroll
                    for (int j = 0; j < N; j++)
                        sum[j] += kern_at(h[k], j);
        }
#pragma unroll
    for (int j = 0; j < N; j++)
        space[warp][lane * N + j] = sum[j];
    __syncthreads();
    for (int j = (int)threadIdx.x; j < 32 * N; j += WARPS * 32) {
        int64_t to = (int64_t)blockIdx.x * 32 * N + j;
        float all = 0;

        for (int w = 0; w < WARPS; w++)
            all += space[w][j];
        if (to < c)
            part[blockIdx.y * c + to] = all;
    }
}

static int64_t pieces(int64_t n, int64_t c)
{
    int64_t beside = kern_ceil(c, 32 * kern_full<__nv_bfloat16>::n);
    int64_t most = beside < AT_ONCE ? kern_least(AT_ONCE / beside, PIECES) : 1;

    return kern_least(kern_ceil(n, PIECE_ROWS), most);
}

template <int N, class T>
static void bias_sum(void *stream, float *part, const T *dy, int64_t ld, int64_t n, int64_t c)
{
    dim3 grid((unsigned)kern_ceil(c, 32 * N), (unsigned)pieces(n, c));
    auto kernel = bias_sum_kernel<N, T>;

    KERN_LAUNCH(kernel, grid, WARPS * 32, 0, stream, part, dy, ld, n, c,
                kern_ceil(n, pieces(n, c)));
}

template <class T>
static void bias_sum_of(void *stream, float *part, const void *dy, int64_t ld, int64_t n,
                        int64_t c)
{
    const int full = kern_full<T>::n;
    const T *d = (const T *)dy;

    if (kern_fits(d, full) && c % full == 0 && ld % full == 0)
        bias_sum<full>(stream, part, d, ld, n, c);
    else
        bias_sum<1>(stream, part, d, ld, n, c);
}

extern "C" void kern_cuda_bias_backward(struct kern *k, float *db, const void *dy, int64_t ld,
                                        int64_t n, int64_t c)
{
    if (n <= 0 || c <= 0)
        return;
    float *part = (float *)kern_cuda_work(k, pieces(n, c) * c * (int64_t)sizeof(float));
    void *stream = kern_cuda_stream(k);
    if (!part)
        return;
    KERN_BY_TYPE(k->act, T, bias_sum_of<T>(stream, part, dy, ld, n, c));
    kern_columns(stream, db, NULL, part, pieces(n, c), c, c);
    kern_cuda_check(k, "bias_backward");
}
