/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes moments (kern_moments.h), one block of threads for a block of codes. */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_cuda_sum.h"

#define KERN_MOMENTS_INLINE __host__ __device__ static __forceinline__
extern "C" {
#include "kern/kern_cuda.h"
#include "kern/kern_moments.h"
}

__global__ void moments_bf16_kernel(uint16_t *to, const float *x, int64_t n, kern_dither d)
{
    const int64_t i = (int64_t)blockIdx.x * MOMENTS_BLOCK + threadIdx.x;

    if (i < n)
        to[i] = kern_moments_bf16(x[i], kern_dither_bits(d, (uint32_t)i));
}

/* As integers, magnitudes compare in any order alike, and a NaN is above infinity. */
__device__ static __forceinline__ int largest(int x)
{
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        int other = __shfl_xor_sync(KERN_WARP, x, d);
        x = other > x ? other : x;
    }
    return x;
}

__global__ __launch_bounds__(MOMENTS_BLOCK) void moments_put_kernel(float *scale, uint8_t *code,
                                                                    const float *x, int64_t n,
                                                                    kern_moments_map map)
{
    __shared__ float from[MOMENTS_BLOCK];
    __shared__ int most[MOMENTS_BLOCK / 32];
    const int t = (int)threadIdx.x;
    const int64_t i = (int64_t)blockIdx.x * MOMENTS_BLOCK + t;
    float mine = i < n ? x[i] : 0, s;
    int bits;

    from[t] = map.from[t];
    memcpy(&bits, &mine, 4);
    bits = largest(bits & 0x7fffffff);
    if (t % 32 == 0)
        most[t / 32] = bits;
    __syncthreads();
    bits = largest(t % 32 < MOMENTS_BLOCK / 32 ? most[t % 32] : 0);
    memcpy(&s, &bits, 4);
    s = s < KERN_MOMENTS_LEAST ? 0 : s;
    if (t == 0)
        scale[blockIdx.x] = s;
    if (i < n)
        code[i] = s != 0 ? (uint8_t)kern_moments_code(from, mine / s) : 0;
}

__global__ __launch_bounds__(MOMENTS_BLOCK) void moments_get_kernel(
    float *x, const float *scale, const uint8_t *code, int64_t n, kern_moments_map map)
{
    __shared__ float value[MOMENTS_BLOCK];
    const int t = (int)threadIdx.x;
    const int64_t i = (int64_t)blockIdx.x * MOMENTS_BLOCK + t;

    value[t] = map.value[t];
    __syncthreads();
    if (i < n)
        x[i] = kern_moments_value(value[code[i]], scale[blockIdx.x]);
}

/* int8: `at` begins a block. */
extern "C" void kern_cuda_moment_get(struct kern *k, float *x, const struct kern_moment *m,
                                     int64_t at, int64_t n)
{
    kern_moments_map map;

    if (n <= 0)
        return;
    if (m->type == MOMENTS_BF16) {
        kern_cuda_convert(k, x, DTYPE_F32, (const uint16_t *)m->data + at, DTYPE_BF16, n);
        return;
    }
    kern_moments_fill(&map, m->second);
    KERN_LAUNCH(moments_get_kernel, (unsigned)kern_ceil(n, MOMENTS_BLOCK), MOMENTS_BLOCK, 0,
                kern_cuda_stream(k), x, (const float *)m->data + at / MOMENTS_BLOCK,
                kern_moment_codes(m->data, m->elems) + at, n, map);
    kern_cuda_check(k, "moment_get");
}

extern "C" void kern_cuda_moment_put(struct kern *k, const struct kern_moment *m, int64_t at,
                                     const float *x, int64_t n,
                                     const struct kern_dither *dither)
{
    const unsigned blocks = (unsigned)kern_ceil(n, MOMENTS_BLOCK);
    kern_moments_map map;

    if (n <= 0)
        return;
    if (m->type == MOMENTS_BF16) {
        KERN_LAUNCH(moments_bf16_kernel, blocks, MOMENTS_BLOCK, 0, kern_cuda_stream(k),
                    (uint16_t *)m->data + at, x, n, *dither);
    } else {
        kern_moments_fill(&map, m->second);
        KERN_LAUNCH(moments_put_kernel, blocks, MOMENTS_BLOCK, 0, kern_cuda_stream(k),
                    (float *)m->data + at / MOMENTS_BLOCK,
                    kern_moment_codes(m->data, m->elems) + at, x, n, map);
    }
    kern_cuda_check(k, "moment_put");
}
