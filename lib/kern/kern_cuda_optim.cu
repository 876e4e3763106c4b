/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the optimizer's step, and the sum of squares that bounds its gradient. */
#include <assert.h>
#include <math.h>

#include "kern/kern_cuda_map.h"
#include "kern/kern_cuda_sum.h"

extern "C" {
#include "kern/kern_cuda.h"
}

/* kern_cpu.c's factors, so that both steps differ only by rounding. */
struct adamw_factors {
    float scale, keep, beta1, rest1, beta2, rest2, rate, root, eps;
};

template <class G> struct adamw_op {
    float *w, *m, *v;
    const G *g;
    adamw_factors f;
    template <int N> struct held {
        kern_pack<float, N> w, m, v;
        kern_pack<G, N> g;
    };
    int fits(int n) const
    {
        return kern_fits(w, n) && kern_fits(m, n) && kern_fits(v, n) && kern_fits(g, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->g = kern_load<N>(g + i);
        h->m = kern_load<N>(m + i);
        h->v = kern_load<N>(v + i);
        h->w = kern_load<N>(w + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        held<N> r;

#pragma unroll
        for (int k = 0; k < N; k++) {
            float d = f.scale * kern_at(h.g, k);

            r.m.at[k] = f.beta1 * h.m.at[k] + f.rest1 * d;
            r.v.at[k] = f.beta2 * h.v.at[k] + f.rest2 * d * d;
            r.w.at[k] =
                f.keep * h.w.at[k] - f.rate * r.m.at[k] / (sqrtf(r.v.at[k]) * f.root + f.eps);
        }
        kern_store<N>(m + i, r.m);
        kern_store<N>(v + i, r.v);
        kern_store<N>(w + i, r.w);
    }
};

extern "C" void kern_cuda_adamw(struct kern *k, float *w, float *m, float *v, const void *g,
                                enum dtype type, int64_t n, const struct kern_optim *o)
{
    adamw_factors f;

    assert(o->step >= 1);
    f.scale = (float)o->scale;
    f.keep = (float)(1 - o->lr * o->decay);
    f.beta1 = (float)o->beta1;
    f.rest1 = (float)(1 - o->beta1);
    f.beta2 = (float)o->beta2;
    f.rest2 = (float)(1 - o->beta2);
    f.rate = (float)(o->lr / (1 - pow(o->beta1, (double)o->step)));
    f.root = (float)(1 / sqrt(1 - pow(o->beta2, (double)o->step)));
    f.eps = (float)o->eps;
    KERN_BY_FLOAT(
        type, G, kern_map<4, 1>(kern_cuda_stream(k), adamw_op<G>{w, m, v, (const G *)g, f}, n));
    kern_cuda_check(k, "adamw");
}

struct outer_op {
    float *w, *b;
    const float *sum;
    float share, lr, momentum;
    template <int N> struct held {
        kern_pack<float, N> w, b, sum;
    };
    int fits(int n) const
    {
        return kern_fits(w, n) && kern_fits(b, n) && kern_fits(sum, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->sum = kern_load<N>(sum + i);
        h->b = kern_load<N>(b + i);
        h->w = kern_load<N>(w + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        held<N> r;

#pragma unroll
        for (int k = 0; k < N; k++) {
            float d = h.w.at[k] - share * h.sum.at[k];

            r.b.at[k] = momentum * h.b.at[k] + d;
            r.w.at[k] = h.w.at[k] - lr * (d + momentum * r.b.at[k]);
        }
        kern_store<N>(b + i, r.b);
        kern_store<N>(w + i, r.w);
    }
};

/* Sums are f64 on the CPU alone. */
extern "C" void kern_cuda_outer(struct kern *k, float *w, float *b, const void *sum,
                                enum dtype type, int64_t n, const struct kern_outer *o)
{
    assert(type == DTYPE_F32);
    (void)type;
    kern_map<4, 1>(kern_cuda_stream(k),
                   outer_op{w, b, (const float *)sum, (float)o->share, (float)o->lr,
                            (float)o->momentum},
                   n);
    kern_cuda_check(k, "outer");
}

/* Four blocks for each processor of an H100: a fixed number, so that no other GPU sums in
   another order. */
enum { SUM_THREADS = 256, SUM_BLOCKS = 528, SUM_PACKS = 4 };

template <int N, class T> __device__ static __forceinline__ double squares(kern_pack<T, N> x)
{
    double sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++) {
        double v = (double)kern_at(x, k);

        sum += v * v;
    }
    return sum;
}

template <int N, class T>
__global__ __launch_bounds__(SUM_THREADS) void sumsq_kernel(double *part, const T *x, int64_t n)
{
    __shared__ double space[32];
    const int64_t step = (int64_t)gridDim.x * SUM_THREADS * N;
    int64_t i = ((int64_t)blockIdx.x * SUM_THREADS + threadIdx.x) * N;
    double sum = 0;

    for (; i + (SUM_PACKS - 1) * step + N <= n; i += SUM_PACKS * step) {
        kern_pack<T, N> h[SUM_PACKS];

#pragma unroll
        for (int k = 0; k < SUM_PACKS; k++)
            h[k] = kern_load<N>(x + i + k * step);
#pragma unroll
        for (int k = 0; k < SUM_PACKS; k++)
            sum += squares(h[k]);
    }
    for (; i < n; i += step)
        if (i + N <= n)
            sum += squares(kern_load<N>(x + i));
        else
            for (int64_t j = i; j < n; j++)
                sum += squares(kern_load<1>(x + j));
    sum = kern_block_sum(sum, space);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

__global__ void sumsq_add_kernel(double *total, const double *part, int blocks)
{
    __shared__ double space[32];
    double sum = 0;

    for (int i = (int)threadIdx.x; i < blocks; i += SUM_THREADS)
        sum += part[i];
    sum = kern_block_sum(sum, space);
    if (threadIdx.x == 0)
        *total += sum;
}

template <int N, class T>
static void cuda_optim_sumsq(void *stream, double *total, const T *x, int64_t n, double *part)
{
    int64_t blocks = kern_ceil(n, (int64_t)SUM_THREADS * SUM_PACKS * N);
    auto kernel = sumsq_kernel<N, T>;

    blocks = kern_least(blocks, SUM_BLOCKS);
    KERN_LAUNCH(kernel, (unsigned)blocks, SUM_THREADS, 0, stream, part, x, n);
    KERN_LAUNCH(sumsq_add_kernel, 1, SUM_THREADS, 0, stream, total, part, (int)blocks);
}

template <class T>
static void sumsq_of(void *stream, double *total, const void *x, int64_t n, double *part)
{
    const int full = kern_full<T>::n;

    if (kern_fits((const T *)x, full))
        cuda_optim_sumsq<full>(stream, total, (const T *)x, n, part);
    else
        cuda_optim_sumsq<1>(stream, total, (const T *)x, n, part);
}

extern "C" void kern_cuda_sumsq(struct kern *k, double *sum, const void *x, enum dtype type,
                                int64_t n)
{
    if (n <= 0)
        return;
    double *part = (double *)kern_cuda_work(k, SUM_BLOCKS * (int64_t)sizeof(double));
    if (!part)
        return;
    KERN_BY_FLOAT(type, T, sumsq_of<T>(kern_cuda_stream(k), sum, x, n, part));
    kern_cuda_check(k, "sumsq");
}
