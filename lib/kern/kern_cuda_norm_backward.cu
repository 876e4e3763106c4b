/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients of norms of rows, kern_cpu.c and kern_cpu_layernorm.c have the formulas.  A block
 * passes over every gridDim.x-th row and keeps its sums for dw and db in registers; it leaves
 * them in `work`, which a second launch adds up:
 *
 *     work (blocks, 2, c)    [0][0] dw of rows 0, blocks, ...    [0][1] db of the same    ...
 */
#include "kern/kern_cuda_columns.h"
#include "kern/kern_cuda_sum.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class T, class W> struct back_args {
    T *dx;
    const T *dy, *x;
    const float *mean, *rstd;
    const W *w;
    float *part; /* NULL: neither dw nor db */
    int64_t n, c;
};

/* PROCESSORS: an H100's; a number of its own, so that no other GPU sums in another order. */
enum { PROCESSORS = 132, THREADS = 256 };

/* What a thread has of a row. */
template <int N, int P, class T> struct row_packs {
    kern_pack<T, N> x[P], dy[P], dx[P];

    template <class ARGS>
    __device__ __forceinline__ void load(const ARGS &a, int64_t row, int at, int step)
    {
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * step < a.c) {
                int64_t j = row * a.c + at + p * step;

                x[p] = kern_load<N>(a.x + j);
                dy[p] = kern_load<N>(a.dy + j);
                dx[p] = kern_load<N>(a.dx + j);
            }
    }
};

/* The next row is on its way while one is summed: rows are disjoint, dx of it does not change.
 */
template <int N, int P, int LEAST, class T, class W>
__global__ __launch_bounds__(THREADS, LEAST) void back_kernel(back_args<T, W> a)
{
    __shared__ float room[2][2][32];
    const int at = (int)threadIdx.x * N, step = (int)blockDim.x * N;
    row_packs<N, P, T> now, next;
    kern_pack<W, N> w[P];
    float dw[P][N] = {}, db[P][N] = {};
    int turn = 0;

#pragma unroll
    for (int p = 0; p < P; p++)
        if (at + p * step < a.c)
            w[p] = kern_load<N>(a.w + at + p * step);
    now.load(a, blockIdx.x, at, step);
    for (int64_t row = blockIdx.x; row < a.n; row += gridDim.x, turn ^= 1) {
        float mean = a.mean ? a.mean[row] : 0, rstd = a.rstd[row], g = 0, gx = 0;

        if (row + gridDim.x < a.n)
            next.load(a, row + gridDim.x, at, step);
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * step < a.c)
#pragma unroll
                for (int i = 0; i < N; i++) {
                    float d = kern_float(now.dy[p].at[i]);
                    float xhat = (kern_float(now.x[p].at[i]) - mean) * rstd;

                    g += d * kern_float(w[p].at[i]);
                    gx += d * kern_float(w[p].at[i]) * xhat;
                    dw[p][i] += d * xhat;
                    db[p][i] += d;
                }
        /* Two rooms in turn: a barrier lies between what is read here and written again. */
        gx = kern_block_sum(gx, room[turn][0]) / (float)a.c;
        g = a.mean ? kern_block_sum(g, room[turn][1]) / (float)a.c : 0;
#pragma unroll
        for (int p = 0; p < P; p++)
            if (at + p * step < a.c) {
                float r[N];

#pragma unroll
                for (int i = 0; i < N; i++) {
                    float d = kern_float(now.dy[p].at[i]) * kern_float(w[p].at[i]);
                    float xhat = (kern_float(now.x[p].at[i]) - mean) * rstd;

                    r[i] = kern_float(now.dx[p].at[i]) + rstd * (d - g - xhat * gx);
                }
                kern_store<N>(a.dx + row * a.c + at + p * step, kern_round_pack<T, N>(r));
            }
        now = next;
    }
    if (!a.part)
        return;
    float *part = a.part + (int64_t)blockIdx.x * 2 * a.c + at;
#pragma unroll
    for (int p = 0; p < P; p++)
        if (at + p * step < a.c)
#pragma unroll
            for (int i = 0; i < N; i++) {
                part[p * step + i] = dw[p][i];
                part[a.c + p * step + i] = db[p][i];
            }
}

/* Rows of any length at any address; the sums for dw and db lie in `part` all the time. */
template <class T, class W>
__global__ __launch_bounds__(THREADS) void back_any_kernel(back_args<T, W> a)
{
    __shared__ float room[2][32];
    float *dw = a.part ? a.part + (int64_t)blockIdx.x * 2 * a.c : NULL;

    for (int64_t row = blockIdx.x; row < a.n; row += gridDim.x) {
        const T *x = a.x + row * a.c, *dy = a.dy + row * a.c;
        T *dx = a.dx + row * a.c;
        float mean = a.mean ? a.mean[row] : 0, rstd = a.rstd[row], g = 0, gx = 0;

        for (int64_t j = threadIdx.x; j < a.c; j += THREADS) {
            float d = kern_float(dy[j]) * kern_float(a.w[j]);

            g += d;
            gx += d * ((kern_float(x[j]) - mean) * rstd);
        }
        __syncthreads(); /* the rooms may still be read for the row before */
        gx = kern_block_sum(gx, room[0]) / (float)a.c;
        g = a.mean ? kern_block_sum(g, room[1]) / (float)a.c : 0;
        for (int64_t j = threadIdx.x; j < a.c; j += THREADS) {
            float d = kern_float(dy[j]), xhat = (kern_float(x[j]) - mean) * rstd;

            dx[j] = kern_to<T>::of(kern_float(dx[j]) +
                                   rstd * (d * kern_float(a.w[j]) - g - xhat * gx));
            if (dw) {
                int first = row == blockIdx.x;

                dw[j] = (first ? 0 : dw[j]) + d * xhat;
                dw[a.c + j] = (first ? 0 : dw[a.c + j]) + d;
            }
        }
    }
}

/* Packs of a thread, and blocks that fit on the processors together. */
static int64_t packs_each(enum dtype act, int64_t c)
{
    int64_t each = kern_ceil(kern_ceil(c, act == DTYPE_BF16 ? 8 : 4), THREADS);

    return each <= 2 ? each : 4;
}

static int64_t blocks_of(enum dtype act, int64_t n, int64_t c)
{
    int64_t packs = kern_ceil(c, act == DTYPE_BF16 ? 8 : 4), each = packs_each(act, c);
    int64_t threads = kern_least(kern_ceil(kern_ceil(packs, each), 32) * 32, THREADS);
    int64_t most = each == 1 ? 3 * THREADS / threads : each == 2 ? 2 : 1;

    return kern_least(n, PROCESSORS * kern_least(most, 12));
}

template <int N, class T, class W>
static void launch_packs(void *stream, enum dtype act, back_args<T, W> a)
{
    int64_t each = packs_each(act, a.c);
    unsigned threads = (unsigned)kern_ceil(kern_ceil(a.c / N, each), 32) * 32;
    void (*kernel)(back_args<T, W>) = each == 1   ? back_kernel<N, 1, 3, T, W>
                                      : each == 2 ? back_kernel<N, 2, 2, T, W>
                                                  : back_kernel<N, 4, 1, T, W>;

    KERN_LAUNCH(kernel, (unsigned)blocks_of(act, a.n, a.c), threads, 0, stream, a);
}

template <class T, class W> static void launch(void *stream, enum dtype act, back_args<T, W> a)
{
    const int full = kern_full<T>::n;
    auto any = back_any_kernel<T, W>;

    if (a.c % full == 0 && a.c <= 4 * THREADS * full && kern_fits(a.x, full) &&
        kern_fits(a.dy, full) && kern_fits(a.dx, full) && kern_fits(a.w, full))
        launch_packs<full>(stream, act, a);
    else
        KERN_LAUNCH(any, (unsigned)blocks_of(act, a.n, a.c), THREADS, 0, stream, a);
}

extern "C" int64_t kern_cuda_norm_backward_bytes(enum dtype act, int64_t n, int64_t c)
{
    return n > 0 ? blocks_of(act, n, c) * 2 * c * (int64_t)sizeof(float) : 0;
}

extern "C" void kern_cuda_norm_backward(void *stream, enum dtype act, enum dtype weight,
                                        void *dx, float *dw, float *db, const void *dy,
                                        const float *mean, const float *rstd, const void *x,
                                        const void *w, int64_t n, int64_t c, void *work)
{
    float *part = dw || db ? (float *)work : NULL;

    if (n <= 0 || c <= 0)
        return;
    KERN_BY_TYPE(act, T,
                 KERN_BY_TYPE(weight, W,
                              launch(stream, act,
                                     back_args<T, W>{(T *)dx, (const T *)dy, (const T *)x, mean,
                                                     rstd, (const W *)w, part, n, c})));
    if (part)
        kern_columns(stream, dw, db, part, blocks_of(act, n, c), 2 * c, c);
}
