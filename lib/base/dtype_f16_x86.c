/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes with F16C: converts eight f16 to floats, and floats to f16 rounded to nearest
   even. */
#include "base/dtype_f16.h"

#include <immintrin.h>

#define F16C __attribute__((target("avx,f16c")))

/* F16C came between AVX and AVX2, whose name every compiler knows. */
static int f16c_is_here(void)
{
    return __builtin_cpu_supports("avx2");
}

F16C static inline __m256 dtype_f16_x86_load(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

F16C static inline void store(uint16_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

F16C static void dtype_f16_x86_sum(uint16_t *to, const uint16_t *a, const uint16_t *b,
                                   int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        store(to + i, _mm256_add_ps(dtype_f16_x86_load(a + i), dtype_f16_x86_load(b + i)));
}

F16C static void scale(uint16_t *p, float ranks, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8)
        store(p + i, _mm256_div_ps(dtype_f16_x86_load(p + i), _mm256_set1_ps(ranks)));
}

int64_t dtype_f16_sum(uint16_t *to, const uint16_t *a, const uint16_t *b, int64_t n)
{
    int64_t whole = f16c_is_here() ? n - n % 8 : 0;

    dtype_f16_x86_sum(to, a, b, whole);
    return whole;
}

int64_t dtype_f16_scale(uint16_t *p, float ranks, int64_t n)
{
    int64_t whole = f16c_is_here() ? n - n % 8 : 0;

    scale(p, ranks, whole);
    return whole;
}
