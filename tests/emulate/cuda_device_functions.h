/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_DEVICE_FUNCTIONS_H
#define CUDA_DEVICE_FUNCTIONS_H

/* The functions of a GPU's threads; cuda_runtime.h includes this. */
template <class T, class F> static inline T emulate_bits(F from)
{
    T to;

    static_assert(sizeof to == sizeof from, "as many bits");
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x)
{
    return emulate_bits<unsigned>(x);
}
static inline int __float_as_int(float x)
{
    return emulate_bits<int>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return emulate_bits<float>(x);
}
static inline float __int_as_float(int x)
{
    return emulate_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return emulate_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return emulate_bits<double>(x);
}

/* The fast ones of a GPU are less exact than these. */
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline float __frsqrt_rn(float x)
{
    return (float)(1.0 / sqrt((double)x));
}
static inline float __fdividef(float x, float y)
{
    return x / y;
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline float emulate_expf(float x)
{
    return expf(x);
}
static inline float emulate_logf(float x)
{
    return logf(x);
}
#define __expf(x)  emulate_expf(x) /* glibc has these names for itself */
#define __logf(x)  emulate_logf(x)
#define __log2f(x) log2f(x)
static inline float __fmaf_rn(float x, float y, float z)
{
    return fmaf(x, y, z);
}
static inline float __fmul_rn(float x, float y)
{
    return x * y;
}
static inline float __fadd_rn(float x, float y)
{
    return x + y;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline unsigned __umulhi(unsigned x, unsigned y)
{
    return (unsigned)((unsigned long long)x * y >> 32);
}

template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
#define __ldcs(p)    __ldg(p) /* hints to the caches */
#define __ldcg(p)    __ldg(p)
#define __stcs(p, v) ((void)(*(p) = (v)))
#define __stcg(p, v) ((void)(*(p) = (v)))

[[noreturn]] static inline void __trap(void)
{
    emulate_fail("trap");
}
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}
static inline void __syncthreads(void)
{
    emulate_syncthreads();
}

/* Atomic, since a fiber goes on until it waits. */
template <class T> static inline T atomicAdd(T *p, T v)
{
    T old = *p;

    *p = (T)(old + v);
    return old;
}
template <class T> static inline T atomicMax(T *p, T v)
{
    T old = *p;

    *p = old > v ? old : v;
    return old;
}
template <class T> static inline T atomicExch(T *p, T v)
{
    T old = *p;

    *p = v;
    return old;
}

#endif
