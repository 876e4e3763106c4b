/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes norms of rows.  A row is held in the registers of a warp, or of a block if it is
 * long: read once, written once.  kern_cuda_norm_backward.cu has the gradients.
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_cuda_sum.h"
#include "kern/kern_mma.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class T, class W> struct norm_args {
    T *y;
    float *mean, *rstd;
    const T *x;
    const W *w, *b;
    int64_t n, c;
    float plus, eps;
    int again;
};

/*
 * BLOCKS blocks for each processor.  STAGES rows of each warp are being loaded to shared
 * memory: for 768 bf16, 48 KiB on a processor, three times the bytes that keep the memory busy.
 */
enum { WARPS = 8, BLOCKS = 2, STAGES = 2, MOST = 4 };

/*
 * Instructions are the bound here, 4 a cycle on a processor: at the memory's rate it has 18
 * bytes a cycle, so 169 cycles for a row of 768 bf16, read and written.  So elements are
 * converted to floats once, and P is chosen so that only the last of a lane's packs may lie
 * beyond the row's end: `whole` if it does not.
 */
template <int N, int P, class T>
__device__ static __forceinline__ void cuda_norm_fetch(T *held, const T *x, bool whole)
{
#pragma unroll
    for (int p = 0; p < P; p++)
        if (p < P - 1 || whole)
            kern_async_16(held + p * 32 * N, x + p * 32 * N);
}

/* Loads packs `step` elements apart; zeros beyond the end. */
template <int N, int P, class T>
__device__ static __forceinline__ void cuda_norm_row_of(float (&x)[P][N], const T *from,
                                                        int step, bool whole)
{
#pragma unroll
    for (int p = 0; p < P; p++) {
        kern_pack<T, N> h = {};

        if (p < P - 1 || whole)
            h = kern_load<N>(from + p * step);
#pragma unroll
        for (int i = 0; i < N; i++)
            x[p][i] = kern_at(h, i);
    }
}

/* Subtracts `by`, but keeps zeros beyond the end. */
template <int N, int P>
__device__ static __forceinline__ void lower(float (&x)[P][N], float by, bool whole)
{
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
        for (int i = 0; i < N; i++)
            x[p][i] = p < P - 1 || whole ? x[p][i] - by : 0.0f;
}

/* The sum of a thread's elements, or of squares: N separate sums, so that none waits for
   another. */
template <bool SQUARES, int N, int P>
__device__ static __forceinline__ float own_sum(const float (&x)[P][N])
{
    float sum[N];

#pragma unroll
    for (int i = 0; i < N; i++)
        sum[i] = SQUARES ? x[0][i] * x[0][i] : x[0][i];
#pragma unroll
    for (int p = 1; p < P; p++)
#pragma unroll
        for (int i = 0; i < N; i++)
            sum[i] += SQUARES ? x[p][i] * x[p][i] : x[p][i];
#pragma unroll
    for (int d = N / 2; d; d /= 2)
#pragma unroll
        for (int i = 0; i < d; i++)
            sum[i] += sum[i + d];
    return sum[0];
}

/*
 * Packs of w, and of b: kept in registers from row to row if they take at most 24 of a thread's
 * 128, in addition to the row as floats; else loaded again.
 */
template <int N, int P, int LAYER, class W> struct factors {
    static const bool KEPT = (int)sizeof(kern_pack<W, N>) * P * (1 + LAYER) <= 96;
    const W *from[1 + LAYER];
    int step;
    kern_pack<W, N> held[1 + LAYER][KEPT ? P : 1];

    __device__ __forceinline__ void keep(bool whole)
    {
        if (KEPT)
#pragma unroll
            for (int k = 0; k <= LAYER; k++)
#pragma unroll
                for (int p = 0; p < P; p++)
                    if (p < P - 1 || whole)
                        held[k][p] = kern_load<N>(from[k] + p * step);
    }
    __device__ __forceinline__ kern_pack<W, N> at(int k, int p) const
    {
        return KEPT ? held[k][KEPT ? p : 0] : kern_load<N>(from[k] + p * step);
    }
};

/* Finishes a row; x is as cuda_norm_row_of returned it. */
template <int N, int P, int LAYER, class T, class W>
__device__ static __forceinline__ void
cuda_norm_finish(T *y, const float (&x)[P][N], float rstd, const factors<N, P, LAYER, W> &f,
                 float plus, bool whole)
{
#pragma unroll
    for (int p = 0; p < P; p++)
        if (p < P - 1 || whole) {
            kern_pack<W, N> w = f.at(0, p), b = f.at(LAYER, p);
            float r[N];

#pragma unroll
            for (int i = 0; i < N; i++) {
                r[i] = x[p][i] * rstd * (plus + kern_at(w, i));
                if (LAYER)
                    r[i] += kern_at(b, i);
            }
            kern_store<N>(y + p * f.step, kern_round_pack<T, N>(r));
        }
}

/* A warp iterates over rows, P packs of each in a lane; LAYER: with means and b. */
template <int N, int P, int LAYER, class T, class W>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void warp_kernel(norm_args<T, W> a)
{
    KERN_SHARED(T, shared);
    const int at = (int)threadIdx.x * N, c = (int)a.c, stride = (int)gridDim.x * WARPS;
    const bool whole = at + (P - 1) * 32 * N < c;
    const float by = 1.0f / (float)c;
    T *held = shared + (int)threadIdx.y * STAGES * P * 32 * N + at;
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    int left = row < a.n ? (int)((a.n - 1 - row) / stride) + 1 : 0, stage = 0;
    const T *from = a.x + row * c + at;
    T *y = a.y + row * c + at;
    float mean = 0, rstd = 0; /* if given: of the next row */
    factors<N, P, LAYER, W> f = {{a.w + at}, 32 * N, {}};

    for (int i = 0; i < STAGES; i++, from += (int64_t)stride * c) {
        if (i < left)
            cuda_norm_fetch<N, P>(held + i * P * 32 * N, from, whole);
        kern_async_commit();
    }
    if (LAYER)
        f.from[LAYER] = a.b + at;
    f.keep(whole);
    if (a.again && left) {
        mean = LAYER ? a.mean[row] : 0;
        rstd = a.rstd[row];
    }
    for (; left; left--, stage ^= 1) {
        T *mine = held + stage * P * 32 * N;
        float x[P][N], shift = mean, scale = rstd;

        kern_async_wait<STAGES - 1>();
        cuda_norm_row_of<N>(x, mine, 32 * N, whole);
        if (left > STAGES)
            cuda_norm_fetch<N, P>(mine, from, whole);
        kern_async_commit();
        if (a.again && left > 1) {
            mean = LAYER ? a.mean[row + stride] : 0;
            rstd = a.rstd[row + stride];
        }
        if (LAYER && !a.again)
            shift = kern_warp_sum(own_sum<false>(x)) * by;
        if (LAYER)
            lower(x, shift, whole);
        if (!a.again) {
            scale = rsqrtf(kern_warp_sum(own_sum<true>(x)) * by + a.eps);
            if (threadIdx.x == 0) {
                a.rstd[row] = scale;
                if (LAYER)
                    a.mean[row] = shift;
            }
        }
        cuda_norm_finish(y, x, scale, f, a.plus, whole);
        from += (int64_t)stride * c;
        y += (int64_t)stride * c;
        row += stride;
    }
}

/* Longer rows: a block for each, P packs a thread, blockDim.x apart. */
template <int N, int P, int LAYER, class T, class W>
__global__ __launch_bounds__(1024) void block_kernel(norm_args<T, W> a)
{
    __shared__ float space[2][32];
    const int64_t row = blockIdx.x;
    const int at = (int)threadIdx.x * N, step = (int)blockDim.x * N, c = (int)a.c;
    const bool whole = at + (P - 1) * step < c;
    const float by = 1.0f / (float)c;
    factors<N, P, LAYER, W> f = {{a.w + at}, step, {}};
    float x[P][N], mean = 0, rstd = 0;

    cuda_norm_row_of<N>(x, a.x + row * c + at, step, whole);
    if (LAYER)
        f.from[LAYER] = a.b + at;
    f.keep(whole);
    if (a.again) {
        mean = LAYER ? a.mean[row] : 0;
        rstd = a.rstd[row];
    } else if (LAYER) {
        mean = kern_block_sum(own_sum<false>(x), space[0]) * by;
    }
    if (LAYER)
        lower(x, mean, whole);
    if (!a.again) {
        rstd = rsqrtf(kern_block_sum(own_sum<true>(x), space[1]) * by + a.eps);
        if (threadIdx.x == 0) {
            a.rstd[row] = rstd;
            if (LAYER)
                a.mean[row] = mean;
        }
    }
    cuda_norm_finish(a.y + row * c + at, x, rstd, f, a.plus, whole);
}

/* Rows of any length at any address: a block makes three passes over each. */
template <class T, class W>
__global__ __launch_bounds__(256) void norm_any_kernel(norm_args<T, W> a)
{
    __shared__ float space[2][32];
    const int64_t row = blockIdx.x;
    const T *x = a.x + row * a.c;
    T *y = a.y + row * a.c;
    float mean = 0, rstd, sum = 0;

    if (a.again) {
        mean = a.mean ? a.mean[row] : 0;
        rstd = a.rstd[row];
    } else {
        if (a.mean) {
            for (int64_t j = threadIdx.x; j < a.c; j += blockDim.x)
                sum += kern_float(x[j]);
            mean = kern_block_sum(sum, space[0]) / (float)a.c;
            sum = 0;
        }
        for (int64_t j = threadIdx.x; j < a.c; j += blockDim.x)
            sum += (kern_float(x[j]) - mean) * (kern_float(x[j]) - mean);
        rstd = 1.0f / sqrtf(kern_block_sum(sum, space[1]) / (float)a.c + a.eps);
        if (threadIdx.x == 0) {
            a.rstd[row] = rstd;
            if (a.mean)
                a.mean[row] = mean;
        }
    }
    for (int64_t j = threadIdx.x; j < a.c; j += blockDim.x) {
        float r = (kern_float(x[j]) - mean) * rstd * (a.plus + kern_float(a.w[j]));

        y[j] = kern_to<T>::of(a.mean ? r + kern_float(a.b[j]) : r);
    }
}

/* One warp computes a whole row, so the number of blocks, which fills this GPU, changes no
   sum. */
static int64_t blocks_at_once(void)
{
    int device = 0, processors = 0;

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) !=
            cudaSuccess)
        return BLOCKS; /* the launch will report the error */
    return (int64_t)processors * BLOCKS;
}

template <int N, int P, class T, class W>
static void launch_warps(void *stream, norm_args<T, W> a)
{
    auto kernel = a.mean ? warp_kernel<N, P, 1, T, W> : warp_kernel<N, P, 0, T, W>;
    dim3 grid((unsigned)kern_least(kern_ceil(a.n, WARPS), blocks_at_once()));
    int bytes = WARPS * STAGES * P * 32 * 16;

    KERN_SHARED_MOST(kernel, bytes);
    KERN_LAUNCH(kernel, grid, dim3(32, WARPS), bytes, stream, a);
}

template <int N, int P, class T, class W>
static void launch_block(void *stream, norm_args<T, W> a)
{
    auto kernel = a.mean ? block_kernel<N, P, 1, T, W> : block_kernel<N, P, 0, T, W>;
    int64_t threads = kern_ceil(a.c / N, MOST * 32) * 32;

    KERN_LAUNCH(kernel, (unsigned)a.n, (unsigned)threads, 0, stream, a);
}

/* P is the number of packs that a row needs, in a warp, or in as many as leave at most MOST
   packs a thread. */
template <int N, class T, class W> static void launch_packs(void *stream, norm_args<T, W> a)
{
    static void (*const by_packs[2][MOST])(void *, norm_args<T, W>) = {
        {launch_warps<N, 1>, launch_warps<N, 2>, launch_warps<N, 3>, launch_warps<N, 4>},
        {launch_block<N, 1>, launch_block<N, 2>, launch_block<N, 3>, launch_block<N, 4>}};
    int64_t packs = a.c / N, threads = kern_ceil(packs, MOST * 32) * 32;

    by_packs[threads > 32][kern_ceil(packs, threads) - 1](stream, a);
}

template <class T, class W> static void launch(void *stream, norm_args<T, W> a)
{
    const int full = kern_full<T>::n;
    auto any = norm_any_kernel<T, W>;

    if (a.c % full == 0 && a.c <= MOST * 1024 * full && kern_fits(a.x, full) &&
        kern_fits(a.y, full) && kern_fits(a.w, full) && (!a.mean || kern_fits(a.b, full)))
        launch_packs<full>(stream, a);
    else
        KERN_LAUNCH(any, (unsigned)a.n, 256, 0, stream, a);
}

extern "C" void kern_cuda_norm(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                               const void *w, const void *b, float plus, int64_t n, int64_t c,
                               float eps, int again)
{
    if (n <= 0 || c <= 0)
        return;
    KERN_BY_TYPE(
        k->act, T,
        KERN_BY_TYPE(k->weight, W,
                     launch(kern_cuda_stream(k),
                            norm_args<T, W>{(T *)y, mean, rstd, (const T *)x, (const W *)w,
                                            (const W *)b, n, c, plus, eps, again})));
    kern_cuda_check(k, "norm");
}
