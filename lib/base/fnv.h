/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_FNV_H
#define BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

/*
 * FNV-1a, 64 bits (Fowler, Noll, Vo): for small data without adversaries.  Files are hashed
 * with XXH3.
 */
#define FNV_BASIS 0xcbf29ce484222325u

/* Adds a byte to the hash h; or a whole number, if the hash is used only within the program. */
static inline uint64_t fnv_mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x100000001b3u;
}

static inline uint64_t fnv_bytes(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = FNV_BASIS;

    for (size_t i = 0; i < bytes; i++)
        h = fnv_mix(h, p[i]);
    return h;
}

#endif
