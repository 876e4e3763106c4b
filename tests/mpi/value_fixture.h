/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_FIXTURE_H
#define VALUE_FIXTURE_H

/* Reads element i of a buffer of any type as a double, for programs that check collectives. */
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

static inline void put(void *p, enum dtype type, int64_t i, double v)
{
    char *at = (char *)p + i * dtype_bytes(type);

    if (type == DTYPE_I32)
        memcpy(at, &(int32_t){(int32_t)v}, 4);
    else if (type == DTYPE_U8)
        *at = (char)(uint8_t)v;
    else
        dtype_convert(at, type, &v, DTYPE_F64, 1);
}

static inline double get(const void *p, enum dtype type, int64_t i)
{
    const char *at = (const char *)p + i * dtype_bytes(type);
    int32_t whole;
    double v;

    if (type == DTYPE_U8)
        return (uint8_t)*at;
    if (type == DTYPE_I32) {
        memcpy(&whole, at, 4);
        return whole;
    }
    dtype_convert(&v, DTYPE_F64, at, type, 1);
    return v;
}

#endif
