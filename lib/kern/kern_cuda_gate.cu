/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the activations of the feed-forward layers; kern_cpu.c and kern_cpu_gelu.c have the
 * formulas.
 */
#include "kern/kern_cuda_map.h"

extern "C" {
#include "kern/kern_cuda.h"
}

#define A 1.5957691216f    /* 2 sqrt(2 / pi) */
#define B 0.0713548162726f /* 0.044715 A */

/* Computes y / x and dy / dx for one x. */
template <class T, bool TANH>
__device__ static __forceinline__ void gelu_parts(float x, float *part, float *slope)
{
    if (TANH) {
        float sigma = kern_over<T>(1.0f, 1.0f + kern_exp<T>(-x * (A + B * x * x)));

        *part = sigma;
        *slope = sigma * (1.0f + x * (1.0f - sigma) * (A + 3.0f * B * x * x));
        return;
    }
    float e = kern_exp<T>(-0.5f * x * x), z = fabsf(x) * 0.707106781f;
    float t = kern_over<T>(1.0f, 1.0f + 0.3275911f * z);
    float tail =
        0.5f * e * t *
        (0.254829592f +
         t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));

    *part = x < 0 ? tail : 1.0f - tail;
    *slope = *part + x * e * 0.398942280f;
}

/* As gelu_parts, for silu. */
template <class T>
__device__ static __forceinline__ void silu_parts(float x, float *part, float *slope)
{
    float sigma = kern_over<T>(1.0f, 1.0f + kern_exp<T>(-x));

    *part = sigma;
    *slope = sigma * (1.0f + x * (1.0f - sigma));
}

template <class T, bool GELU>
__device__ static __forceinline__ void gate_parts(float x, float *part, float *slope)
{
    if (GELU)
        gelu_parts<T, true>(x, part, slope);
    else
        silu_parts<T>(x, part, slope);
}

template <class T, bool GELU> struct gated_op {
    T *y;
    const T *gate, *up;
    int64_t c, ld;
    template <int N> struct held {
        kern_pack<T, N> gate, up;
    };
    int fits(int n) const
    {
        return kern_fits(y, n) && kern_fits(gate, n) && kern_fits(up, n) && c % n == 0 &&
               ld % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        int64_t at = kern_in_rows(i, c, ld);

        h->gate = kern_load<N>(gate + at);
        h->up = kern_load<N>(up + at);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float r[N];

#pragma unroll
        for (int k = 0; k < N; k++) {
            float x = kern_at(h.gate, k), part, slope;

            gate_parts<T, GELU>(x, &part, &slope);
            r[k] = x * part * kern_at(h.up, k);
        }
        kern_store<N>(y + i, kern_round_pack<T, N>(r));
    }
};

template <class T, bool GELU> struct gated_backward_op {
    T *dy, *gate, *up;
    int64_t c, ld;
    template <int N> struct held {
        kern_pack<T, N> dy, gate, up;
    };
    int fits(int n) const
    {
        return kern_fits(dy, n) && kern_fits(gate, n) && kern_fits(up, n) && c % n == 0 &&
               ld % n == 0;
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        int64_t at = kern_in_rows(i, c, ld);

        h->dy = kern_load<N>(dy + i);
        h->gate = kern_load<N>(gate + at);
        h->up = kern_load<N>(up + at);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        int64_t at = kern_in_rows(i, c, ld);
        float y[N], dgate[N], dup[N];

#pragma unroll
        for (int k = 0; k < N; k++) {
            float x = kern_at(h.gate, k), u = kern_at(h.up, k);
            float d = kern_at(h.dy, k), part, slope;

            gate_parts<T, GELU>(x, &part, &slope);
            dgate[k] = d * u * slope;
            dup[k] = d * x * part;
            y[k] = x * part * u;
        }
        kern_store<N>(gate + at, kern_round_pack<T, N>(dgate));
        kern_store<N>(up + at, kern_round_pack<T, N>(dup));
        kern_store<N>(dy + i, kern_round_pack<T, N>(y));
    }
};

template <bool GELU>
static void cuda_gate_gated(void *stream, enum dtype act, void *y, const void *gate,
                            const void *up, int64_t n, int64_t c, int64_t ld)
{
    KERN_BY_TYPE(
        act, T,
        kern_map<kern_full<T>::n, 2>(
            stream, gated_op<T, GELU>{(T *)y, (const T *)gate, (const T *)up, c, ld}, n * c));
}

template <bool GELU>
static void cuda_gate_gated_backward(void *stream, enum dtype act, void *dy, void *gate,
                                     void *up, int64_t n, int64_t c, int64_t ld)
{
    KERN_BY_TYPE(
        act, T,
        kern_map<kern_full<T>::n, 1>(
            stream, gated_backward_op<T, GELU>{(T *)dy, (T *)gate, (T *)up, c, ld}, n * c));
}

extern "C" void kern_cuda_gated(struct kern *k, void *y, const void *gate, const void *up,
                                int64_t n, int64_t c, int64_t ld, int by_gelu)
{
    (by_gelu ? cuda_gate_gated<true> : cuda_gate_gated<false>)(kern_cuda_stream(k), k->act, y,
                                                               gate, up, n, c, ld);
    kern_cuda_check(k, "gated");
}

extern "C" void kern_cuda_gated_backward(struct kern *k, void *dy, void *gate, void *up,
                                         int64_t n, int64_t c, int64_t ld, int by_gelu)
{
    (by_gelu ? cuda_gate_gated_backward<true>
             : cuda_gate_gated_backward<false>)(kern_cuda_stream(k), k->act, dy, gate, up, n, c,
                                                ld);
    kern_cuda_check(k, "gated_backward");
}

template <class T, bool TANH> struct gelu_of {
    __device__ __forceinline__ float operator()(float x) const
    {
        float part, slope;

        gelu_parts<T, TANH>(x, &part, &slope);
        return x * part;
    }
};

template <class T, bool TANH> struct gelu_backward_op {
    T *dy, *x;
    template <int N> struct held {
        kern_pack<T, N> dy, x;
    };
    int fits(int n) const
    {
        return kern_fits(dy, n) && kern_fits(x, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->dy = kern_load<N>(dy + i);
        h->x = kern_load<N>(x + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float y[N], dx[N];

#pragma unroll
        for (int k = 0; k < N; k++) {
            float v = kern_at(h.x, k), part, slope;

            gelu_parts<T, TANH>(v, &part, &slope);
            dx[k] = kern_at(h.dy, k) * slope;
            y[k] = v * part;
        }
        kern_store<N>(x + i, kern_round_pack<T, N>(dx));
        kern_store<N>(dy + i, kern_round_pack<T, N>(y));
    }
};

template <bool TANH>
static void cuda_gate_gelu(void *stream, enum dtype act, void *y, const void *x, int64_t n)
{
    KERN_BY_TYPE(act, T,
                 kern_map<kern_full<T>::n, 2>(
                     stream, kern_each<T, T, gelu_of<T, TANH>>{(T *)y, (const T *)x, {}}, n));
}

template <bool TANH>
static void cuda_gate_gelu_backward(void *stream, enum dtype act, void *dy, void *x, int64_t n)
{
    KERN_BY_TYPE(
        act, T,
        kern_map<kern_full<T>::n, 2>(stream, gelu_backward_op<T, TANH>{(T *)dy, (T *)x}, n));
}

extern "C" void kern_cuda_gelu(struct kern *k, void *y, const void *x, int64_t n, int by_tanh)
{
    if (by_tanh)
        cuda_gate_gelu<true>(kern_cuda_stream(k), k->act, y, x, n);
    else
        cuda_gate_gelu<false>(kern_cuda_stream(k), k->act, y, x, n);
    kern_cuda_check(k, "gelu");
}

extern "C" void kern_cuda_gelu_backward(struct kern *k, void *dy, void *x, int64_t n,
                                        int by_tanh)
{
    if (by_tanh)
        cuda_gate_gelu_backward<true>(kern_cuda_stream(k), k->act, dy, x, n);
    else
        cuda_gate_gelu_backward<false>(kern_cuda_stream(k), k->act, dy, x, n);
    kern_cuda_check(k, "gelu_backward");
}
