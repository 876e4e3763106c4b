/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes cross-entropy of rows of logits and its gradient.  A block has a row, and holds it
 * in shared memory from its load to the gradient's store, so that memory is read once and
 * written once; the part of a row that does not fit is read again, mostly from the second-level
 * cache.
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_cuda_sum.h"
#include "kern/kern_launch.h"
#include "kern/kern_mma.h"

extern "C" {
#include "kern/kern_cuda.h"
}

struct rows {
    int64_t ld, v;
    const int32_t *target;
    float scale;  /* 0: no gradient */
    int kept;     /* packs of a long row that shared memory holds */
    float4 *part; /* [n] maximum, sum, logit of the target; all 0: the row has no loss */
    int64_t n;
};

/* Maximum over a block of whole warps; space as for kern_block_sum. */
__device__ static __forceinline__ float block_max(float x, float *space)
{
    int lane = (int)threadIdx.x % 32, warps = (int)blockDim.x / 32;

    x = kern_warp_max(x);
    if (lane == 0)
        space[threadIdx.x / 32] = x;
    __syncthreads();
    return kern_warp_max(space[lane < warps ? lane : 0]);
}

/* Numbers that the gradient of a logit needs, the same in all threads. */
struct row_facts {
    float max, factor, scale;
    int target;
};

template <class T> __device__ static __forceinline__ T gradient(T x, int j, const row_facts &f)
{
    float g = f.factor * kern_exp<T>(kern_float(x) - f.max);

    return kern_to<T>::of(j == f.target ? g - f.scale : g);
}

/*
 * Few packs contain the target: gradients of other packs need no test per element.  For bf16
 * the exponent is one multiplication and sum: |maximum| in 2^-24 off, for a result of 8 bits.
 */
template <int N, class T>
__device__ static __forceinline__ kern_pack<T, N> gradients(const kern_pack<T, N> &x, int j,
                                                            const row_facts &f)
{
    const float log2_e = 1.44269504f, max2 = f.max * log2_e;
    float g[N];

#pragma unroll
    for (int k = 0; k < N; k++)
        g[k] = f.factor * (sizeof(T) == 4 ? expf(kern_at(x, k) - f.max)
                                          : kern_exp2(kern_at(x, k) * log2_e - max2));
    if ((unsigned)(f.target - j) < (unsigned)N) {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (j + k == f.target)
                g[k] -= f.scale;
    }
    return kern_round_pack<T, N>(g);
}

/* Rows without a target: no loss, and a gradient of zeros.  Returns whether this is one. */
template <class T> __device__ static int is_left_out(T *x, const rows &r, int64_t row)
{
    int target = r.target[row];

    if (target >= r.v)
        __trap();
    if (target >= 0)
        return 0;
    if (r.scale != 0)
        for (int64_t j = threadIdx.x; j < r.v; j += blockDim.x)
            x[j] = kern_to<T>::of(0.0f);
    if (threadIdx.x == 0)
        r.part[row] = make_float4(0, 0, 0, 0);
    return 1;
}

/* Computes them from the maximum and each thread's sum of exponentials; `of_target` is thread
   0's. */
__device__ static __forceinline__ row_facts cuda_loss_finish(float max, float sum,
                                                             float of_target, const rows &r,
                                                             int64_t row, float *space)
{
    row_facts f;

    sum = kern_block_sum(sum, space);
    if (threadIdx.x == 0)
        r.part[row] = make_float4(max, sum, of_target, 0);
    f.max = max;
    f.scale = r.scale;
    f.factor = r.scale / sum;
    f.target = r.target[row];
    return f;
}

/* A maximum and a sum of exponentials relative to it. */
struct so_far {
    float max, sum;

    template <int N, class T> __device__ __forceinline__ void add(const kern_pack<T, N> &h)
    {
        float most = max, x[N];

#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = kern_at(h, i);
            most = fmaxf(most, x[i]);
        }
        if (most > max)
            sum *= kern_exp<T>(max - most);
        max = most;
        if (most > -INFINITY)
#pragma unroll
            for (int i = 0; i < N; i++)
                x[i] = kern_exp<T>(x[i] - most);
        else
#pragma unroll
            for (int i = 0; i < N; i++) /* NaN is no maximum, but must not be lost */
                x[i] = isnan(x[i]) ? NAN : 0;
#pragma unroll
        for (int d = N / 2; d; d /= 2)
#pragma unroll
            for (int i = 0; i < d; i++)
                x[i] += x[i + d];
        sum += x[0];
    }
    /* Sum relative to the row's maximum; NaN if that is -infinity or NaN. */
    template <class T> __device__ __forceinline__ float sum_to(float row_max) const
    {
        if (!(row_max > -INFINITY))
            return NAN;
        return max > -INFINITY ? sum * kern_exp<T>(max - row_max) : sum;
    }
};

/*
 * Thread t has packs t, t + threads, ... and, if N does not divide v, one element of the last
 * columns.  Only thread t reads its own packs in shared memory, so no barrier is needed for
 * them.
 */
enum {
    HELD_THREADS = 512, /* three blocks a processor */
    HELD_TWO = 768,     /* two blocks, for rows of which three do not fit */
    HELD_THREE = (75 << 10) - 512,
    HELD_MOST = (99 << 10) - 512
};

/* Issues loads of packs j, j + step, ... below `end` of a row; without a multiplication for
   each. */
template <int N, class T>
__device__ static __forceinline__ void cuda_loss_exchange(T *held, const T *x, int j, int end,
                                                          int step)
{
    const T *from = x + j;

    held += j;
#pragma unroll 4
    for (; j < end; j += step, from += step, held += step)
        kern_async_16(held, from);
}

template <int N, class T>
__global__ __launch_bounds__(HELD_TWO, 2) void held_kernel(T *logits, rows r)
{
    KERN_SHARED(T, held);
    __shared__ float space_max[32], space_sum[32];
    const int all = (int)(r.v / N) * N, step = (int)blockDim.x * N, at = (int)threadIdx.x * N;
    const int last = all + (int)threadIdx.x, half = all / 2 / step * step;
    T *x = logits + blockIdx.x * r.ld;
    so_far s = {-INFINITY, 0};
    float end = -INFINITY, of_target = 0;
    int j = at;

    if (is_left_out(x, r, blockIdx.x))
        return;
    cuda_loss_exchange<N>(held, x, at, half, step);
    kern_async_commit();
    cuda_loss_exchange<N>(held, x, at + half, all, step);
    kern_async_commit();
    if (last < r.v) {
        end = kern_float(x[last]);
        s.add<1>(kern_load<1>(x + last));
    }
    if (threadIdx.x == 0)
        of_target = kern_float(x[r.target[blockIdx.x]]);
    kern_async_wait<1>(); /* processes one half while the other is loaded */
    for (; j < half; j += step)
        s.add<N>(kern_load<N>(held + j));
    kern_async_wait<0>();
    for (; j < all; j += step)
        s.add<N>(kern_load<N>(held + j));
    float max = block_max(s.max, space_max);
    float sum = s.sum_to<T>(max);
    row_facts f = cuda_loss_finish(max, sum, of_target, r, blockIdx.x, space_sum);
    if (r.scale == 0)
        return;
#pragma unroll 2
    for (j = at; j < all; j += step)
        kern_store<N>(x + j, gradients<N, T>(kern_load<N>(held + j), j, f));
    if (last < r.v)
        x[last] = gradient(kern_to<T>::of(end), last, f);
}

/*
 * Longer rows, over which blocks iterate: one block a processor, so that the second-level cache
 * holds the parts of all rows that are read again (132 of 29 KiB if 227 of 256 are kept).  One
 * pass computes the maximum and, relative to the greatest so far, the sum; a second pass,
 * backwards, begins with the part that is not in shared memory and was read last.  In it each
 * pack that leaves shared memory is replaced by that of the block's next row, so that memory is
 * busy while this row is processed.  LONG_PACKS packs of each thread are loaded at once.
 */
enum { LONG_THREADS = 1024, LONG_PACKS = 4, SPACE = 512 };

template <int N, class T>
__global__ __launch_bounds__(LONG_THREADS, 1) void long_kernel(T *logits, rows r)
{
    KERN_SHARED(T, held);
    __shared__ float space_max[32], space_sum[32];
    const int packs = (int)(r.v / N), threads = (int)blockDim.x, me = (int)threadIdx.x;
    const int step = LONG_PACKS * threads;
    kern_pack<T, N> h[LONG_PACKS];

    cuda_loss_exchange<N>(held, logits + blockIdx.x * r.ld, me * N, r.kept * N, threads * N);
    for (int64_t row = blockIdx.x; row < r.n; row += gridDim.x) {
        T *x = logits + row * r.ld;
        const T *next = row + gridDim.x < r.n ? x + gridDim.x * r.ld : NULL;
        const int out = is_left_out(x, r, row);
        so_far s = {-INFINITY, 0};
        row_facts f = {};

        kern_async_commit();
        kern_async_wait<0>();
        if (!out) {
            float of_target = me == 0 ? kern_float(x[r.target[row]]) : 0;

            for (int from = me; from < packs; from += step) {
#pragma unroll
                for (int k = 0; k < LONG_PACKS; k++)
                    if (from + k * threads < packs)
                        h[k] = from + k * threads < r.kept
                                   ? kern_load<N>(held + (from + k * threads) * N)
                                   : kern_load<N>(x + (int64_t)(from + k * threads) * N);
#pragma unroll
                for (int k = 0; k < LONG_PACKS; k++)
                    if (from + k * threads < packs)
                        s.add<N>(h[k]);
            }
            for (int64_t j = (int64_t)packs * N + me; j < r.v; j += threads)
                s.add<1>(kern_load<1>(x + j));
            float max = block_max(s.max, space_max);
            f = cuda_loss_finish(max, s.sum_to<T>(max), of_target, r, row, space_sum);
        }
        const bool writes = !out && r.scale != 0;
        for (int64_t j = (int64_t)packs * N + me; writes && j < r.v; j += threads)
            x[j] = gradient(x[j], (int)j, f);
        for (int from = (packs - 1) / step * step + me; from >= 0; from -= step) {
#pragma unroll
            for (int k = 0; k < LONG_PACKS; k++) {
                int at = (from + k * threads) * N;

                if (from + k * threads < r.kept)
                    h[k] = kern_load<N>(held + at);
                else if (writes && from + k * threads < packs)
                    h[k] = kern_load<N>(x + at);
                if (next && from + k * threads < r.kept)
                    kern_async_16(held + at, next + at);
            }
#pragma unroll
            for (int k = 0; k < LONG_PACKS; k++)
                if (writes && from + k * threads < packs)
                    kern_store<N>(x + (int64_t)(from + k * threads) * N,
                                  gradients<N, T>(h[k], (from + k * threads) * N, f));
        }
    }
}

/*
 * One block.  With one row at a time, 8192 rows take eight latencies of the second-level cache
 * and 8192 logarithms in double, some 8 us.  So AT_ONCE rows of a thread are loaded at once,
 * and share one logarithm: sums are from 1 to v < 2^31, their product below 2^248.
 */
enum { AT_ONCE = 8 };

__global__ __launch_bounds__(1024) void loss_kernel(double *loss, const float4 *part, int64_t n)
{
    __shared__ double space[32];
    double sum = 0;

    for (int64_t i = threadIdx.x; i < n; i += AT_ONCE * 1024) {
        float4 p[AT_ONCE];
        double product = 1;

#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            p[k] = i + k * 1024 < n ? part[i + k * 1024] : make_float4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            /* a row's sum is at least 1, or NaN; that of a row without a target is 0 */
            if (p[k].y != 0) {
                sum += (double)p[k].x - (double)p[k].z;
                product *= (double)p[k].y;
            }
        sum += log(product);
    }
    sum = kern_block_sum(sum, space);
    if (threadIdx.x == 0)
        *loss = sum;
}

/* 0 if the device is lost: the launch will report the error. */
static int64_t device_has(enum cudaDeviceAttr what)
{
    int device = 0, n = 0;

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&n, what, device) != cudaSuccess)
        return 0;
    return n;
}

template <class T> static void launch(void *stream, T *logits, rows r)
{
    const int full = kern_full<T>::n;
    int64_t packs = r.v / full, bytes = packs * 16;
    int fits = kern_fits(logits, full) && r.ld % full == 0, held = fits && bytes <= HELD_MOST;
    int64_t held_threads = bytes <= HELD_THREE ? HELD_THREADS : HELD_TWO;
    int64_t threads =
        kern_least(kern_ceil(packs + 1, 4 * 32) * 32, held ? held_threads : LONG_THREADS);
    void (*kernel)(T *, rows) = held   ? held_kernel<full, T>
                                : fits ? long_kernel<full, T>
                                       : long_kernel<1, T>;

    /* The most memory that a kernel may have, whatever this row needs; SPACE is for its
       sums. */
    int64_t most = device_has(cudaDevAttrMaxSharedMemoryPerBlockOptin) / 16 * 16 - SPACE;
    int64_t may = held ? HELD_MOST : most > 0 ? most : 0;
    if (!held)
        bytes = fits ? kern_least(bytes, may) : 0;
    r.kept = (int)(bytes / 16);
    KERN_SHARED_MOST(kernel, may);
    int64_t blocks = device_has(cudaDevAttrMultiProcessorCount);
    if (held || blocks < 1 || blocks > r.n)
        blocks = r.n;
    KERN_LAUNCH(kernel, (unsigned)blocks, (unsigned)threads, bytes, stream, logits, r);
}

extern "C" void kern_cuda_cross_entropy(struct kern *k, void *logits, int64_t ld,
                                        const struct kern_tokens *t, int64_t v, float scale,
                                        double *loss)
{
    rows r = {ld, v, t->target, scale, 0, NULL, t->n};
    void *stream = kern_cuda_stream(k);

    r.part = (float4 *)kern_cuda_work(k, t->n * (int64_t)sizeof(float4));
    if (!r.part)
        return;
    if (t->n > 0)
        KERN_BY_TYPE(k->act, T, launch(stream, (T *)logits, r));
    KERN_LAUNCH(loss_kernel, 1, 1024, 0, stream, loss, r.part, t->n);
    kern_cuda_check(k, "cross_entropy");
}
