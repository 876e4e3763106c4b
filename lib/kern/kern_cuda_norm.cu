/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Norms of rows.  A row lies in the registers of a warp, or of a block where it is long: read
 * once, written once.  kern_cuda_norm_backward.cu has the gradients.
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_cuda_sum.h"
#include "kern/kern_launch.h"

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
 * blockDim.x threads have a row, P packs each, `threads` apart; blockDim.y rows a block, which
 * are 1 where a row is more than a warp's.  The variance is summed from differences to the
 * mean.
 */
template <int N, int P, int MOST, class T, class W>
__global__ __launch_bounds__(MOST) void norm_kernel(norm_args<T, W> a)
{
    __shared__ float room[2][32];
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const int at = (int)threadIdx.x * N, step = (int)blockDim.x * N, c = (int)a.c;
    const T *x = a.x + row * a.c;
    kern_pack<T, N> h[P];
    float mean = 0, rstd, sum = 0;

    if (row >= a.n)
        return;
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

template <int N, class T, class W> static void launch_packs(void *stream, norm_args<T, W> a)
{
    enum { ROWS = 4 };
    int64_t packs = a.c / N;
    void (*kernel)(norm_args<T, W>) = norm_kernel<N, 1, 128, T, W>;
    dim3 block(32, ROWS), grid((unsigned)kern_ceil(a.n, ROWS));

    if (packs > 8 * 32) {
        kernel = norm_kernel<N, 4, 1024, T, W>;
        block = dim3((unsigned)kern_ceil(packs, 4 * 32) * 32, 1);
        grid = dim3((unsigned)a.n);
    } else if (packs > 4 * 32) {
        kernel = norm_kernel<N, 8, 128, T, W>;
    } else if (packs > 2 * 32) {
        kernel = norm_kernel<N, 4, 128, T, W>;
    } else if (packs > 32) {
        kernel = norm_kernel<N, 2, 128, T, W>;
    }
    KERN_LAUNCH(kernel, grid, block, 0, stream, a);
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
