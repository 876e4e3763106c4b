/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds arrived elements to those in place: base/dtype_reduce.c, on a GPU.  A thread takes 16
 * bytes at a time; where the three places are not aligned alike, one element at a time.
 */
#include "kern/kern_launch.h"

extern "C" {
#include "exec/exec_cuda_land.h"
}

/* Conversions of bits and numbers, as in base/dtype.h. */
static __device__ __forceinline__ float f32_of_bf16(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}

static __device__ __forceinline__ uint16_t bf16_of_f32(float f)
{
    uint32_t u = __float_as_uint(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static __device__ __forceinline__ float f32_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, m = (uint32_t)(h & 0x7fff) << 13;
    uint32_t e = m & 0x0f800000u, u = m + 0x38000000u;

    u = e == 0x0f800000u ? u + 0x38000000u : u;
    if (e == 0)
        u = __float_as_uint(__uint_as_float(m + 0x38800000u) - 6.103515625e-05f); /* 2^-14 */
    return __uint_as_float(u | sign);
}

static __device__ __forceinline__ uint16_t f16_of_f32(float f)
{
    uint32_t u = __float_as_uint(f), sign = u >> 16 & 0x8000;

    u &= 0x7fffffff;
    uint32_t r = (u + 0xfff + (u >> 13 & 1) - 0x38000000u) >> 13;
    if (u < 0x38800000u)
        r = __float_as_uint(__uint_as_float(u) + 0.5f) - 0x3f000000u;
    r = u >= 0x477ff000u ? 0x7c00 : r;
    r = u > 0x7f800000u ? 0x7e00 | (u >> 13 & 0x3ff) : r;
    return (uint16_t)(sign | r);
}

/* A type: its sum, its division, and the key by which it is compared. */
struct of_f32 {
    typedef uint32_t bits;
    typedef int32_t key_type;
    static __device__ bits sum(bits x, bits y)
    {
        return __float_as_uint(__uint_as_float(x) + __uint_as_float(y));
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return __float_as_uint(__uint_as_float(x) / (float)ranks);
    }
    static __device__ key_type key(bits x, int least)
    {
        int32_t s = (int32_t)x, nan = least ? INT32_MIN : INT32_MAX;

        return (s & INT32_MAX) > 0x7f800000 ? nan : s ^ ((s < 0 ? -1 : 0) & INT32_MAX);
    }
};

struct of_f64 {
    typedef uint64_t bits;
    typedef int64_t key_type;
    static __device__ double number(bits x)
    {
        return __longlong_as_double((long long)x);
    }
    static __device__ bits sum(bits x, bits y)
    {
        return (bits)__double_as_longlong(number(x) + number(y));
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return (bits)__double_as_longlong(number(x) / (double)ranks);
    }
    static __device__ key_type key(bits x, int least)
    {
        int64_t s = (int64_t)x, nan = least ? INT64_MIN : INT64_MAX;

        return (s & INT64_MAX) > 0x7ff0000000000000 ? nan : s ^ ((s < 0 ? -1 : 0) & INT64_MAX);
    }
};

template <int INFINITE> struct of_16 {
    typedef uint16_t bits;
    typedef int16_t key_type;
    static __device__ key_type key(bits x, int least)
    {
        int16_t s = (int16_t)x, nan = (int16_t)(least ? INT16_MIN : INT16_MAX);
        int16_t key = (int16_t)(s ^ ((s < 0 ? -1 : 0) & INT16_MAX));

        return (x & INT16_MAX) > INFINITE ? nan : key;
    }
};

struct of_bf16 : of_16<0x7f80> {
    static __device__ bits sum(bits x, bits y)
    {
        return bf16_of_f32(f32_of_bf16(x) + f32_of_bf16(y));
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return bf16_of_f32(f32_of_bf16(x) / (float)ranks);
    }
};

struct of_f16 : of_16<0x7c00> {
    static __device__ bits sum(bits x, bits y)
    {
        return f16_of_f32(f32_of_f16(x) + f32_of_f16(y));
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return f16_of_f32(f32_of_f16(x) / (float)ranks);
    }
};

struct of_i32 {
    typedef uint32_t bits;
    typedef int32_t key_type;
    static __device__ bits sum(bits x, bits y)
    {
        return x + y;
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return (bits)((int32_t)x / ranks); /* truncated toward zero */
    }
    static __device__ key_type key(bits x, int)
    {
        return (int32_t)x;
    }
};

struct of_u8 {
    typedef uint8_t bits;
    typedef uint8_t key_type;
    static __device__ bits sum(bits x, bits y)
    {
        return (bits)(x + y);
    }
    static __device__ bits scale(bits x, int ranks)
    {
        return (bits)(x / ranks);
    }
    static __device__ key_type key(bits x, int)
    {
        return x;
    }
};

template <class KIND, int OP> struct landing {
    typedef KIND kind;
    typedef typename KIND::bits bits;
    static __device__ __forceinline__ bits one(bits base, bits arrived, int ranks)
    {
        if (OP == DTYPE_MAX)
            return KIND::key(base, 0) >= KIND::key(arrived, 0) ? base : arrived;
        if (OP == DTYPE_MIN)
            return KIND::key(base, 1) <= KIND::key(arrived, 1) ? base : arrived;
        bits sum = KIND::sum(base, arrived);
        return ranks ? KIND::scale(sum, ranks) : sum;
    }
};

template <class BITS> struct alignas(16) pack {
    BITS v[16 / sizeof(BITS)];
};

/* Handles elements [head, head + packs x 16 bytes) by packs, the others one by one. */
template <class LAND>
static __global__ void cuda_land(typename LAND::bits *to, const typename LAND::bits *base,
                                 const typename LAND::bits *arrived, int ranks, int64_t head,
                                 int64_t packs, int64_t n)
{
    typedef typename LAND::bits bits;
    const int each = 16 / sizeof(bits);
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    const pack<bits> *base16 = (const pack<bits> *)(base + head);
    const pack<bits> *arrived16 = (const pack<bits> *)(arrived + head);
    pack<bits> *to16 = (pack<bits> *)(to + head);

    for (int64_t i = at; i < packs; i += threads) {
        pack<bits> x = base16[i], y = arrived16[i];
        for (int k = 0; k < each; k++)
            x.v[k] = LAND::one(x.v[k], y.v[k], ranks);
        to16[i] = x;
    }
    for (int64_t i = at; i < n - packs * each; i += threads) {
        int64_t k = i < head ? i : i + packs * each;
        to[k] = LAND::one(base[k], arrived[k], ranks);
    }
}

enum { THREADS = 256, BLOCKS_MOST = 1024 }; /* enough to fill any current GPU */

template <class LAND>
static int cuda_land_launch(void *stream, void *to, const void *base, const void *arrived,
                            int ranks, int64_t n)
{
    typedef typename LAND::bits bits;
    uintptr_t off = (uintptr_t)to % 16;
    int64_t head = off ? (int64_t)((16 - off) / sizeof(bits)) : 0, packs = 0;

    if ((uintptr_t)base % 16 == off && (uintptr_t)arrived % 16 == off && head < n)
        packs = (n - head) / (int64_t)(16 / sizeof(bits));
    head = packs ? head : 0;
    int64_t most = packs > n - packs * (int64_t)(16 / sizeof(bits))
                       ? packs
                       : n - packs * (int64_t)(16 / sizeof(bits));
    int64_t blocks = (most + THREADS - 1) / THREADS;
    blocks = blocks < BLOCKS_MOST ? blocks : (int64_t)BLOCKS_MOST;
    /* Clears an earlier error of the host program or of NCCL, which would be taken for this
       kernel's. */
    (void)cudaGetLastError();
    KERN_LAUNCH(cuda_land<LAND>, dim3((unsigned)blocks), dim3(THREADS), 0, stream, (bits *)to,
                (const bits *)base, (const bits *)arrived, ranks, head, packs, n);
    return (int)cudaGetLastError();
}

template <class KIND>
static int by_op(void *stream, void *to, const void *base, const void *arrived, int op,
                 int ranks, int64_t n)
{
    typedef landing<KIND, DTYPE_MAX> most;
    typedef landing<KIND, DTYPE_MIN> least;
    typedef landing<KIND, DTYPE_SUM> sum;

    if (op == DTYPE_MAX)
        return cuda_land_launch<most>(stream, to, base, arrived, 0, n);
    if (op == DTYPE_MIN)
        return cuda_land_launch<least>(stream, to, base, arrived, 0, n);
    return cuda_land_launch<sum>(stream, to, base, arrived, ranks, n);
}

extern "C" int exec_cuda_land(void *stream, void *to, const void *base, const void *arrived,
                              enum dtype type, enum dtype_op op, int ranks, int64_t n)
{
    switch (type) {
    case DTYPE_F32:
        return by_op<of_f32>(stream, to, base, arrived, op, ranks, n);
    case DTYPE_BF16:
        return by_op<of_bf16>(stream, to, base, arrived, op, ranks, n);
    case DTYPE_F16:
        return by_op<of_f16>(stream, to, base, arrived, op, ranks, n);
    case DTYPE_F64:
        return by_op<of_f64>(stream, to, base, arrived, op, ranks, n);
    case DTYPE_I32:
        return by_op<of_i32>(stream, to, base, arrived, op, ranks, n);
    default:
        return by_op<of_u8>(stream, to, base, arrived, op, ranks, n);
    }
}
