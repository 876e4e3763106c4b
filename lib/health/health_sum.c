/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows XXH3. */
#include "health/health_sum.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

void health_sum(const void *data, int64_t bytes, char hex[HEALTH_SUM])
{
    XXH128_hash_t h = XXH3_128bits(data, (size_t)bytes);

    snprintf(hex, HEALTH_SUM, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64,
             (uint64_t)h.low64);
}
