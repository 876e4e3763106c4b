/* SPDX-License-Identifier: BSD-3-Clause */
/* Implements Philox 4x32-10 as published; the tests compare it with the authors' known
   answers. */
#include "base/rng.h"

#include <string.h>

#include "base/fnv.h"

void rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t w[4];

    rng_block(seed, stream, index, w);
    return (uint64_t)w[1] << 32 | w[0];
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(rng_u64(seed, stream, index) >> 11) * 0x1p-53;
}

double rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    int64_t sum = 0;

    for (uint64_t b = 0; b < 3; b++) {
        uint32_t w[4];
        rng_block(seed, stream, index * 3 + b, w);
        for (int i = 0; i < 4; i++)
            sum += w[i];
    }
    /* Twelve uniforms on 0 .. 2^32-1: mean 6 (2^32 - 1), standard deviation 2^32 (to 2^-64). */
    return (double)(sum - 6 * (int64_t)UINT32_MAX) * 0x1p-32;
}

uint64_t rng_stream(const char *name)
{
    return fnv_bytes(name, strlen(name));
}
