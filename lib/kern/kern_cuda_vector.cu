/* SPDX-License-Identifier: BSD-3-Clause */
/* Elementwise operations on vectors: sums, scales and conversions of types. */
#include "kern/kern_cuda_map.h"

extern "C" {
#include "kern/kern_cuda.h"
}

template <class A, class X> struct accumulate_op {
    A *acc;
    const X *x;
    template <int N> struct held {
        kern_pack<A, N> acc;
        kern_pack<X, N> x;
    };
    int fits(int n) const
    {
        return kern_fits(acc, n) && kern_fits(x, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->acc = kern_load<N>(acc + i);
        h->x = kern_load<N>(x + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        float sum[N];

#pragma unroll
        for (int k = 0; k < N; k++)
            sum[k] = kern_at(h.acc, k) + kern_at(h.x, k);
        kern_store<N>(acc + i, kern_round_pack<A, N>(sum));
    }
};

template <class A, class X>
static void cuda_vector_accumulate(void *stream, void *acc, const void *x, int64_t n)
{
    const int wide = sizeof(A) > sizeof(X) ? sizeof(A) : sizeof(X);

    kern_map<16 / wide, 2>(stream, accumulate_op<A, X>{(A *)acc, (const X *)x}, n);
}

extern "C" void kern_cuda_accumulate(struct kern *k, void *acc, enum dtype acc_type,
                                     const void *x, enum dtype type, int64_t n)
{
    KERN_BY_FLOAT(
        acc_type, A,
        KERN_BY_FLOAT(type, X, cuda_vector_accumulate<A, X>(kern_cuda_stream(k), acc, x, n)));
    kern_cuda_check(k, "accumulate");
}

extern "C" void kern_cuda_add(struct kern *k, void *y, const void *x, int64_t n)
{
    KERN_BY_TYPE(k->act, T, cuda_vector_accumulate<T, T>(kern_cuda_stream(k), y, x, n));
    kern_cuda_check(k, "add");
}

struct scaled {
    float by;
    __device__ __forceinline__ float operator()(float x) const
    {
        return by * x;
    }
};

struct absolute {
    __device__ __forceinline__ float operator()(float x) const
    {
        return fabsf(x);
    }
};

extern "C" void kern_cuda_scale(struct kern *k, void *x, float by, int64_t n)
{
    KERN_BY_TYPE(
        k->act, T,
        kern_map<kern_full<T>::n, 4>(kern_cuda_stream(k),
                                     kern_each<T, T, scaled>{(T *)x, (const T *)x, {by}}, n));
    kern_cuda_check(k, "scale");
}

extern "C" void kern_cuda_abs(struct kern *k, float *x, int64_t n)
{
    kern_map<4, 4>(kern_cuda_stream(k), kern_each<float, float, absolute>{x, x, {}}, n);
    kern_cuda_check(k, "abs");
}

/*
 * Converts F to T, rounded once; a double is converted to 16 bits through a float rounded to
 * odd, as in base/dtype.c: no new ties can appear.
 */
template <class T, class F> struct converter {
    __device__ static __forceinline__ T of(F x)
    {
        return kern_to<T>::of(kern_float(x));
    }
};
template <class T> struct converter<T, T> {
    __device__ static __forceinline__ T of(T x)
    {
        return x;
    }
};
template <class F> struct converter<double, F> {
    __device__ static __forceinline__ double of(F x)
    {
        return (double)kern_float(x);
    }
};
template <> struct converter<double, double> {
    __device__ static __forceinline__ double of(double x)
    {
        return x;
    }
};
template <> struct converter<float, double> {
    __device__ static __forceinline__ float of(double x)
    {
        return (float)x;
    }
};
template <class T> struct converter<T, double> {
    __device__ static __forceinline__ T of(double x)
    {
        float f = (float)x;
        unsigned u = __float_as_uint(f);

        if ((double)f != x && (u & 0x7f800000u) != 0x7f800000u && !(u & 1))
            f = __uint_as_float(fabs((double)f) < fabs(x) ? u + 1 : u - 1);
        return kern_to<T>::of(f);
    }
};

template <class T, class F> struct convert_op {
    T *to;
    const F *from;
    template <int N> struct held {
        kern_pack<F, N> x;
    };
    int fits(int n) const
    {
        return kern_fits(to, n) && kern_fits(from, n);
    }
    template <int N> __device__ __forceinline__ void load(int64_t i, held<N> *h) const
    {
        h->x = kern_load<N>(from + i);
    }
    template <int N> __device__ __forceinline__ void store(int64_t i, const held<N> &h) const
    {
        kern_pack<T, N> y;

#pragma unroll
        for (int k = 0; k < N; k++)
            y.at[k] = converter<T, F>::of(h.x.at[k]);
        kern_store<N>(to + i, y);
    }
};

template <class F>
static void convert_from(void *stream, void *to, enum dtype to_type, const void *from,
                         int64_t n)
{
    const F *f = (const F *)from;

    if (to_type == DTYPE_F64)
        kern_map<4, 2>(stream, convert_op<double, F>{(double *)to, f}, n);
    else
        KERN_BY_FLOAT(to_type, T, kern_map<4, 4>(stream, convert_op<T, F>{(T *)to, f}, n));
}

extern "C" void kern_cuda_convert(struct kern *k, void *to, enum dtype to_type,
                                  const void *from, enum dtype from_type, int64_t n)
{
    void *stream = kern_cuda_stream(k);

    if (from_type == DTYPE_F64)
        convert_from<double>(stream, to, to_type, from, n);
    else
        KERN_BY_FLOAT(from_type, F, convert_from<F>(stream, to, to_type, from, n));
    kern_cuda_check(k, "convert");
}

template <class S> struct rounded_to {
    __device__ __forceinline__ float operator()(float x) const
    {
        return kern_float(kern_to<S>::of(x));
    }
};

extern "C" void kern_cuda_round(struct kern *k, void *to, enum dtype type, const float *x,
                                enum dtype seen, int64_t n)
{
    KERN_BY_FLOAT(
        type, T,
        KERN_BY_FLOAT(seen, S,
                      kern_map<4, 4>(kern_cuda_stream(k),
                                     kern_each<T, float, rounded_to<S>>{(T *)to, x, {}}, n)));
    kern_cuda_check(k, "round");
}
