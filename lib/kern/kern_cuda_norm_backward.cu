/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes gradients of norms of rows; kern_cpu.c and kern_cpu_layernorm.c have the formulas. A
 * block has `across` rows at a time, each of blockDim.x threads:
 *
 *     blockIdx.x   0 .. blocks - 1
 *     threadIdx.y  rows (blockIdx.x + i blocks) across + threadIdx.y,  i = 0, 1, ...
 *     threadIdx.x  packs threadIdx.x + p blockDim.x,  p < P
 *
 * Its sums for dw and db stay in registers until the end; then it adds up its own and stores
 * them in `work`, which a second launch adds up:
 *
 *     work (blocks, 2, c)    [0][0] dw of block 0    [0][1] db of the same    ...
 */
#include "kern/kern_cuda_columns.h"
#include "kern/kern_cuda_sum.h"
#include "kern/kern_mma.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class T, class W> struct back_args {
    T *dx;
    const T *dy, *x;
    const float *mean, *rstd;
    const W *w;
    float plus;  /* added to w */
    float *part; /* NULL: neither dw nor db */
    int64_t n, c;
};

/*
 * PROCESSORS: an H100's; a fixed number, so that no other GPU sums in another order.  STAGES
 * rows are being loaded to shared memory while one is processed: 2 blocks of 256 threads of 4
 * packs of 3 arrays have 96 KiB in flight on a processor, four times the bytes that keep its
 * share of the memory busy (4.8 TB/s / 132 x 0.7 us), and use 192 KiB of its 227.
 */
enum { PROCESSORS = 132, THREADS = 256, BLOCKS = 2, STAGES = 2, PACKS = 4, FEW = 2 };

/* A thread's packs in shared memory, which no other thread reads. */
template <int N, int P, class T> struct row_packs {
    T *held;
    int step; /* distance of packs: the elements of a pack of each thread */

    __device__ __forceinline__ T *at(int stage, int array, int p) const
    {
        return held + ((stage * 3 + array) * P + p) * step;
    }
    /* Fetches a row from its element `j` on, packs `by` apart; whole: the last pack exists. */
    template <class ARGS>
    __device__ __forceinline__ void fetch(const ARGS &a, int64_t j, int stage, int by,
                                          bool whole) const
    {
#pragma unroll
        for (int p = 0; p < P; p++)
            if (p < P - 1 || whole) {
                kern_async_16(at(stage, 0, p), a.x + j + p * by);
                kern_async_16(at(stage, 1, p), a.dy + j + p * by);
                kern_async_16(at(stage, 2, p), a.dx + j + p * by);
            }
    }
};

/* Sums over a row's threads, returned to all of them; space: for the block's warps. */
template <int SUMS>
__device__ static __forceinline__ void row_sums(float (&sum)[SUMS],
                                                float (*space)[THREADS / 32])
{
    const int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;
    const int first = (int)threadIdx.y * warps;

#pragma unroll
    for (int d = 16; d; d >>= 1)
#pragma unroll
        for (int k = 0; k < SUMS; k++)
            sum[k] += __shfl_xor_sync(KERN_WARP, sum[k], d);
    if (warps == 1)
        return;
    if (lane < SUMS)
        space[lane][first + (int)threadIdx.x / 32] = lane ? sum[SUMS - 1] : sum[0];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SUMS; k++)
        sum[k] = lane % 8 < warps ? space[k][first + lane % 8] : 0;
#pragma unroll
    for (int d = 4; d; d >>= 1)
#pragma unroll
        for (int k = 0; k < SUMS; k++)
            sum[k] += __shfl_xor_sync(KERN_WARP, sum[k], d);
}

/*
 * The values of an element: d = dy (plus + w), hat = (x - mean) rstd; shift = mean rstd, unused
 * if SUMS is 1.  Then hat is x rstd, and sum[0] lacks the factor rstd.
 */
template <int N, int P, int SUMS, class T, class W> struct back_row {
    row_packs<N, P, T> packs;
    float plus;
    kern_pack<W, N> w[P];
    float dw[P][N], db[SUMS == 2 ? P : 1][N];

    __device__ __forceinline__ void add(float (&sum)[SUMS], int stage, int p, float rstd,
                                        float shift)
    {
        kern_pack<T, N> x = kern_load<N>(packs.at(stage, 0, p));
        kern_pack<T, N> dy = kern_load<N>(packs.at(stage, 1, p));

#pragma unroll
        for (int i = 0; i < N; i++) {
            float g = kern_at(dy, i), at = kern_at(x, i);

            if (SUMS == 1) {
                float gx = g * at;

                sum[0] += gx * (plus + kern_at(w[p], i));
                dw[p][i] += gx * rstd;
            } else {
                float hat = at * rstd - shift, d = g * (plus + kern_at(w[p], i));

                sum[0] += d * hat;
                sum[SUMS - 1] += d;
                dw[p][i] += g * hat;
                db[p][i] += g;
            }
        }
    }
    /* dx + d rstd + x by + rest */
    __device__ __forceinline__ void store(T *dx, int stage, int p, float rstd, float by,
                                          float rest) const
    {
        kern_pack<T, N> x = kern_load<N>(packs.at(stage, 0, p));
        kern_pack<T, N> dy = kern_load<N>(packs.at(stage, 1, p));
        kern_pack<T, N> old = kern_load<N>(packs.at(stage, 2, p));
        float r[N];

#pragma unroll
        for (int i = 0; i < N; i++) {
            float d = kern_at(dy, i) * (plus + kern_at(w[p], i)), from = kern_at(old, i);

            if (SUMS == 2)
                from += rest;
            r[i] = from + kern_at(x, i) * by + d * rstd;
        }
        kern_store<N>(dx, kern_round_pack<T, N>(r));
    }
};

/*
 * Stores the block's sums for dw and db (SUMS, c) to `to`: through shared memory, four floats
 * to a place, those of a row's threads next to each other, so that no two in a quarter of a
 * warp share a bank:
 *
 *     all (blockDim.y, SUMS, P, N / 4, blockDim.x)
 *
 * In the order of `to`, with 8 consecutive columns of a thread, each store took 8 rounds: with
 * 48 of a thread 3 us of the 24 that 16384 rows of 768 may take.
 */
template <int N, int P, int SUMS, class R>
__device__ static void leave_sums(const R &r, float4 *all, float *to, int c, bool whole)
{
    const int across = (int)blockDim.x, me = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    const int places = SUMS * P * (N / 4) * across;

    kern_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int p = 0; p < P; p++)
        if (p < P - 1 || whole)
#pragma unroll
            for (int i = 0; i < SUMS * N; i += 4) {
                const float *sum = i < N ? &r.dw[p][i] : &r.db[SUMS == 2 ? p : 0][i % N];
                int at = (i / N * P + p) * (N / 4) + i % N / 4;

                all[(int)threadIdx.y * places + at * across + (int)threadIdx.x] =
                    make_float4(sum[0], sum[1], sum[2], sum[3]);
            }
    __syncthreads();
    for (int i = me; i < places; i += across * (int)blockDim.y) {
        int x = i % across, at = i / across, p = at / (N / 4) % P;
        int column = (p * across + x) * N + at % (N / 4) * 4;
        kern_pack<float, 4> sum = {};

        if (column >= c)
            continue;
        for (int y = 0; y < (int)blockDim.y; y++) {
            float4 more = all[y * places + i];

            sum.at[0] += more.x, sum.at[1] += more.y;
            sum.at[2] += more.z, sum.at[3] += more.w;
        }
        kern_store<4>(to + at / (N / 4 * P) * c + column, sum);
    }
}

/* SUMS 1: RMS without db.  Rows are disjoint, so dx of later rows can be loaded ahead. */
template <int N, int P, int SUMS, class T, class W>
__global__ __launch_bounds__(THREADS, BLOCKS) void back_kernel(back_args<T, W> a)
{
    KERN_SHARED(T, held);
    __shared__ float space[2][SUMS][THREADS / 32];
    const int at = (int)threadIdx.x * N, step = (int)blockDim.x * N, c = (int)a.c;
    const bool whole = at + (P - 1) * step < c; /* all packs but a row's last exist anyway */
    const int threads = (int)(blockDim.x * blockDim.y);
    const int stride = (int)(gridDim.x * blockDim.y);
    const float mean_of = 1.0f / (float)c;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    back_row<N, P, SUMS, T, W> r = {
        {held + (int)(threadIdx.y * blockDim.x + threadIdx.x) * N, threads * N},
        a.plus,
        {},
        {},
        {}};
    float rstd = row < a.n ? a.rstd[row] : 0, mean = a.mean && row < a.n ? a.mean[row] : 0;
    int stage = 0;

#pragma unroll
    for (int p = 0; p < P; p++)
        if (p < P - 1 || whole)
            r.w[p] = kern_load<N>(a.w + at + p * step);
    for (int i = 0; i < STAGES; i++) {
        if (row + i * stride < a.n)
            r.packs.fetch(a, (row + i * stride) * c + at, i, step, whole);
        kern_async_commit();
    }
    /* All threads of a block iterate together; those without a row do nothing. */
    for (; row - threadIdx.y < a.n; row += stride, stage ^= 1) {
        const float shift = SUMS == 2 ? mean * rstd : 0, scale = rstd;
        float sum[SUMS] = {};

        rstd = row + stride < a.n ? a.rstd[row + stride] : 0;
        if (SUMS == 2)
            mean = a.mean && row + stride < a.n ? a.mean[row + stride] : 0;
        kern_async_wait<STAGES - 1>();
        if (row < a.n)
#pragma unroll
            for (int p = 0; p < P; p++)
                if (p < P - 1 || whole)
                    r.add(sum, stage, p, scale, shift);
        /* Two buffers in turn: a barrier lies between reading one and writing it again. */
        row_sums<SUMS>(sum, space[stage]);
        const float all = sum[0] * (SUMS == 1 ? scale : 1) * scale * mean_of;
        const float other = SUMS == 2 && a.mean ? sum[SUMS - 1] * scale * mean_of : 0;
        if (row < a.n)
#pragma unroll
            for (int p = 0; p < P; p++)
                if (p < P - 1 || whole)
                    r.store(a.dx + row * c + at + p * step, stage, p, scale, -all * scale,
                            all * shift - other);
        if (row + STAGES * stride < a.n)
            r.packs.fetch(a, (row + STAGES * stride) * c + at, stage, step, whole);
        kern_async_commit();
    }
    if (a.part)
        leave_sums<N, P, SUMS>(r, (float4 *)held, a.part + (int64_t)blockIdx.x * 2 * c, c,
                               whole);
}

/* Rows of any length at any address; the sums for dw and db are kept in `part`. */
template <class T, class W>
__global__ __launch_bounds__(THREADS) void back_any_kernel(back_args<T, W> a)
{
    __shared__ float space[2][32];
    float *dw = a.part ? a.part + (int64_t)blockIdx.x * 2 * a.c : NULL;

    for (int64_t row = blockIdx.x; row < a.n; row += gridDim.x) {
        const T *x = a.x + row * a.c, *dy = a.dy + row * a.c;
        T *dx = a.dx + row * a.c;
        float mean = a.mean ? a.mean[row] : 0, rstd = a.rstd[row], g = 0, gx = 0;

        for (int64_t j = threadIdx.x; j < a.c; j += THREADS) {
            float d = kern_float(dy[j]) * (a.plus + kern_float(a.w[j]));

            g += d;
            gx += d * ((kern_float(x[j]) - mean) * rstd);
        }
        __syncthreads(); /* the buffers may still be read for the previous row */
        gx = kern_block_sum(gx, space[0]) / (float)a.c;
        g = a.mean ? kern_block_sum(g, space[1]) / (float)a.c : 0;
        for (int64_t j = threadIdx.x; j < a.c; j += THREADS) {
            float d = kern_float(dy[j]), xhat = (kern_float(x[j]) - mean) * rstd;

            dx[j] = kern_to<T>::of(kern_float(dx[j]) +
                                   rstd * (d * (a.plus + kern_float(a.w[j])) - g - xhat * gx));
            if (dw) {
                int first = row == blockIdx.x;

                dw[j] = (first ? 0 : dw[j]) + d * xhat;
                dw[a.c + j] = (first ? 0 : dw[a.c + j]) + d;
            }
        }
    }
}

/*
 * Packs of a thread, threads of a row, rows of a block.  FEW packs if these suffice: with four,
 * w and the sums fill a thread's registers.
 */
struct shape {
    int64_t each, threads, across;
};

static shape cuda_norm_backward_shape_of(enum dtype act, int64_t c)
{
    int64_t packs = kern_ceil(c, act == DTYPE_BF16 ? 8 : 4);
    int64_t most = packs <= FEW * THREADS ? FEW : PACKS;
    shape s = {kern_least(kern_ceil(packs, 32), most), 0, 1};

    s.threads = kern_ceil(kern_ceil(packs, s.each), 32) * 32;
    s.each = kern_ceil(packs, s.threads); /* so that only a thread's last pack may be missing */
    if (s.threads < THREADS)
        s.across = THREADS / s.threads;
    return s;
}

static int64_t blocks_of(enum dtype act, int64_t n, int64_t c)
{
    return kern_least(kern_ceil(n, cuda_norm_backward_shape_of(act, c).across),
                      PROCESSORS * BLOCKS);
}

template <int N, int SUMS, class T, class W>
static void launch_packs(void *stream, enum dtype act, back_args<T, W> a)
{
    shape s = cuda_norm_backward_shape_of(act, a.c);
    void (*kernel)(back_args<T, W>) = s.each == 1   ? back_kernel<N, 1, SUMS, T, W>
                                      : s.each == 2 ? back_kernel<N, 2, SUMS, T, W>
                                      : s.each == 3 ? back_kernel<N, 3, SUMS, T, W>
                                                    : back_kernel<N, PACKS, SUMS, T, W>;
    int64_t bytes = STAGES * 3 * s.each * s.threads * s.across * 16;
    dim3 block((unsigned)s.threads, (unsigned)s.across);

    KERN_SHARED_MOST(kernel, STAGES * 3 * s.each * THREADS * 16);
    KERN_LAUNCH(kernel, (unsigned)blocks_of(act, a.n, a.c), block, bytes, stream, a);
}

template <class T, class W>
static void cuda_norm_backward_launch(void *stream, enum dtype act, back_args<T, W> a, int db)
{
    const int full = kern_full<T>::n;
    auto any = back_any_kernel<T, W>;

    if (a.c % full == 0 && a.c <= PACKS * THREADS * full && kern_fits(a.x, full) &&
        kern_fits(a.dy, full) && kern_fits(a.dx, full) && kern_fits(a.w, full))
        db || a.mean ? launch_packs<full, 2>(stream, act, a)
                     : launch_packs<full, 1>(stream, act, a);
    else
        KERN_LAUNCH(any, (unsigned)blocks_of(act, a.n, a.c), THREADS, 0, stream, a);
}

extern "C" void kern_cuda_norm_backward(struct kern *k, void *dx, float *dw, float *db,
                                        const void *dy, const float *mean, const float *rstd,
                                        const void *x, const void *w, float plus, int64_t n,
                                        int64_t c)
{
    if (n <= 0 || c <= 0)
        return;
    const int64_t blocks = blocks_of(k->act, n, c);
    float *work = (float *)kern_cuda_work(k, blocks * 2 * c * (int64_t)sizeof(float)),
          *part = dw || db ? work : NULL;
    void *stream = kern_cuda_stream(k);
    if (!work)
        return;
    KERN_BY_TYPE(k->act, T,
                 KERN_BY_TYPE(k->weight, W,
                              cuda_norm_backward_launch(
                                  stream, k->act,
                                  back_args<T, W>{(T *)dx, (const T *)dy, (const T *)x, mean,
                                                  rstd, (const W *)w, plus, part, n, c},
                                  db != NULL)));
    if (part)
        kern_columns(stream, dw, db, part, blocks, 2 * c, c);
    kern_cuda_check(k, "norm_backward");
}
