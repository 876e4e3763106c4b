/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Norms of rows.  A row lies in the registers of a warp, or of a block where it is long: read
 * once, written once.  kern_cuda_norm_backward.cu has the gradients.
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
    float eps;
    int again;
};

/*
 * PROCESSORS: an H100's.  STAGES rows of each warp are on their way into shared memory: of
 * 2048 bf16, 128 KiB on a processor, many times what keeps the memory busy.
 */
enum { PROCESSORS = 132, WARPS = 8, BLOCKS = 2, STAGES = 2 };

/* Packs lane, lane + 32, ... of a row. */
template <int N, int P, class T>
__device__ static __forceinline__ void fetch(T *held, const T *x, int64_t row, int64_t n, int c)
{
    const int at = (int)threadIdx.x * N;

    if (row < n)
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * 32 * N < c)
                kern_async_16(held + p * 32 * N, x + row * c + at + p * 32 * N);
    kern_async_commit();
}

/* Of a row that a warp has in registers; columns from c on are nothing. */
template <int N, int P, int LAYER, class T>
__device__ static __forceinline__ void facts_of(float *mean, float *rstd,
                                                const kern_pack<T, N> (&h)[P], int c, float eps)
{
    const int at = (int)threadIdx.x * N;
    float sum = 0;

    *mean = 0;
    if (LAYER) {
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * 32 * N < c)
#pragma unroll
                for (int i = 0; i < N; i++)
                    sum += kern_float(h[p].at[i]);
        *mean = kern_warp_sum(sum) / (float)c;
        sum = 0;
    }
#pragma unroll
    for (int p = 0; p < P; p++)
        if (at + p * 32 * N < c)
#pragma unroll
            for (int i = 0; i < N; i++) {
                float d = kern_float(h[p].at[i]) - *mean;

                sum += d * d;
            }
    *rstd = 1.0f / sqrtf(kern_warp_sum(sum) / (float)c + eps);
}

/* A warp passes over rows, P packs of each a lane's; LAYER: there are means and b. */
template <int N, int P, int LAYER, class T, class W>
__global__ __launch_bounds__(WARPS * 32, BLOCKS) void warp_kernel(norm_args<T, W> a)
{
    KERN_SHARED(T, shared);
    const int lane = (int)threadIdx.x, at = lane * N, c = (int)a.c;
    const int64_t stride = (int64_t)gridDim.x * WARPS;
    T *held = shared + ((int)threadIdx.y * STAGES * P * 32 + lane) * N;
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.y;
    int stage = 0;

    for (int i = 0; i < STAGES; i++)
        fetch<N, P>(held + i * P * 32 * N, a.x, row + i * stride, a.n, c);
    for (; row < a.n; row += stride, stage ^= 1) {
        T *mine = held + stage * P * 32 * N, *y = a.y + row * a.c + at;
        kern_pack<T, N> h[P];
        float mean = 0, rstd = 0;

        if (a.again) {
            mean = LAYER ? a.mean[row] : 0;
            rstd = a.rstd[row];
        }
        kern_async_wait<STAGES - 1>();
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * 32 * N < c)
                h[p] = kern_load<N>(mine + p * 32 * N);
        fetch<N, P>(mine, a.x, row + STAGES * stride, a.n, c);
        if (!a.again) {
            facts_of<N, P, LAYER>(&mean, &rstd, h, c, a.eps);
            if (lane == 0) {
                a.rstd[row] = rstd;
                if (LAYER)
                    a.mean[row] = mean;
            }
        }
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * 32 * N < c) {
                kern_pack<W, N> w = kern_load<N>(a.w + at + p * 32 * N), b;
                float r[N];

                if (LAYER)
                    b = kern_load<N>(a.b + at + p * 32 * N);
#pragma unroll
                for (int i = 0; i < N; i++) {
                    r[i] = (kern_float(h[p].at[i]) - mean) * rstd * kern_float(w.at[i]);
                    if (LAYER)
                        r[i] += kern_float(b.at[i]);
                }
                kern_store<N>(y + p * 32 * N, kern_round_pack<T, N>(r));
            }
    }
}

/*
 * Longer rows: a block has one, P packs a thread, blockDim.x apart.  The variance is summed
 * from differences to the mean.
 */
template <int N, int P, class T, class W>
__global__ __launch_bounds__(1024) void norm_kernel(norm_args<T, W> a)
{
    __shared__ float room[2][32];
    const int64_t row = blockIdx.x;
    const int at = (int)threadIdx.x * N, step = (int)blockDim.x * N, c = (int)a.c;
    const T *x = a.x + row * a.c;
    kern_pack<T, N> h[P];
    float mean = 0, rstd, sum = 0;

#pragma unroll
    for (int p = 0; p < P; p++)
        if (at + p * step < c)
            h[p] = kern_load<N>(x + at + p * step);
    if (a.again) {
        mean = a.mean ? a.mean[row] : 0;
        rstd = a.rstd[row];
    } else {
        if (a.mean) {
#pragma unroll
            for (int p = 0; p < P; p++)
                if (at + p * step < c)
#pragma unroll
                    for (int i = 0; i < N; i++)
                        sum += kern_float(h[p].at[i]);
            mean = kern_block_sum(sum, room[0]) / (float)c;
            sum = 0;
        }
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * step < c)
#pragma unroll
                for (int i = 0; i < N; i++) {
                    float d = kern_float(h[p].at[i]) - mean;

                    sum += d * d;
                }
        rstd = 1.0f / sqrtf(kern_block_sum(sum, room[1]) / (float)c + a.eps);
        if (threadIdx.x == 0) {
            a.rstd[row] = rstd;
            if (a.mean)
                a.mean[row] = mean;
        }
    }
    T *y = a.y + row * a.c;
#pragma unroll
    for (int p = 0; p < P; p++)
        if (at + p * step < c) {
            kern_pack<W, N> w = kern_load<N>(a.w + at + p * step), b;
            float r[N];

            if (a.mean)
                b = kern_load<N>(a.b + at + p * step);
#pragma unroll
            for (int i = 0; i < N; i++) {
                r[i] = (kern_float(h[p].at[i]) - mean) * rstd * kern_float(w.at[i]);
                if (a.mean)
                    r[i] += kern_float(b.at[i]);
            }
            kern_store<N>(y + at + p * step, kern_round_pack<T, N>(r));
        }
}

/* Rows of any length at any address: a block passes over one three times. */
template <class T, class W>
__global__ __launch_bounds__(256) void norm_any_kernel(norm_args<T, W> a)
{
    __shared__ float room[2][32];
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
            mean = kern_block_sum(sum, room[0]) / (float)a.c;
            sum = 0;
        }
        for (int64_t j = threadIdx.x; j < a.c; j += blockDim.x)
            sum += (kern_float(x[j]) - mean) * (kern_float(x[j]) - mean);
        rstd = 1.0f / sqrtf(kern_block_sum(sum, room[1]) / (float)a.c + a.eps);
        if (threadIdx.x == 0) {
            a.rstd[row] = rstd;
            if (a.mean)
                a.mean[row] = mean;
        }
    }
    for (int64_t j = threadIdx.x; j < a.c; j += blockDim.x) {
        float r = (kern_float(x[j]) - mean) * rstd * kern_float(a.w[j]);

        y[j] = kern_to<T>::of(a.mean ? r + kern_float(a.b[j]) : r);
    }
}

template <int N, int P, class T, class W>
static void launch_warps(void *stream, norm_args<T, W> a)
{
    auto kernel = a.mean ? warp_kernel<N, P, 1, T, W> : warp_kernel<N, P, 0, T, W>;
    dim3 grid((unsigned)kern_least(kern_ceil(a.n, WARPS), PROCESSORS * BLOCKS));
    int bytes = WARPS * STAGES * P * 32 * 16;

    KERN_SHARED_MOST(kernel, bytes);
    KERN_LAUNCH(kernel, grid, dim3(32, WARPS), bytes, stream, a);
}

template <int N, class T, class W> static void launch_packs(void *stream, norm_args<T, W> a)
{
    int64_t packs = a.c / N, threads = kern_ceil(packs, 4 * 32) * 32;
    auto kernel = norm_kernel<N, 4, T, W>;

    if (packs > 8 * 32)
        KERN_LAUNCH(kernel, (unsigned)a.n, (unsigned)threads, 0, stream, a);
    else if (packs > 4 * 32)
        launch_warps<N, 8>(stream, a);
    else if (packs > 3 * 32)
        launch_warps<N, 4>(stream, a);
    else if (packs > 2 * 32)
        launch_warps<N, 3>(stream, a);
    else
        packs > 32 ? launch_warps<N, 2>(stream, a) : launch_warps<N, 1>(stream, a);
}

template <class T, class W> static void launch(void *stream, norm_args<T, W> a)
{
    const int full = kern_full<T>::n;
    auto any = norm_any_kernel<T, W>;

    if (a.c % full == 0 && a.c <= 4 * 1024 * full && kern_fits(a.x, full) &&
        kern_fits(a.y, full) && kern_fits(a.w, full) && (!a.mean || kern_fits(a.b, full)))
        launch_packs<full>(stream, a);
    else
        KERN_LAUNCH(any, (unsigned)a.n, 256, 0, stream, a);
}

extern "C" void kern_cuda_norm(void *stream, enum dtype act, enum dtype weight, void *y,
                               float *mean, float *rstd, const void *x, const void *w,
                               const void *b, int64_t n, int64_t c, float eps, int again)
{
    if (n <= 0 || c <= 0)
        return;
    KERN_BY_TYPE(act, T,
                 KERN_BY_TYPE(weight, W,
                              launch(stream, norm_args<T, W>{(T *)y, mean, rstd, (const T *)x,
                                                             (const W *)w, (const W *)b, n, c,
                                                             eps, again})));
}
