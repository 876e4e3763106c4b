/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows data whose collective is known beforehand, bit for bit.
 *
 * Sums must be exact in any order: values are whole numbers whose sum over all ranks stays
 * within the integers that the type has without gaps (2^8 in bf16).  With more ranks than that
 * (n > 256 in bf16) one rank in so many gives a 1 and the others give 0.
 */
#include <assert.h>
#include <string.h>

#include "bench/bench_parts.h"

/* Of a gather: a prime under 2^8, so that no power of two is a period. */
enum { GATHER_VALUES = 251, SUM_VALUES_MOST = 16 };

static double exact_limit(enum dtype type)
{
    switch (type) {
    case DTYPE_BF16:
        return 0x1p8;
    case DTYPE_F16:
        return 0x1p11;
    case DTYPE_F32:
        return 0x1p24;
    default:
        return 0x1p31;
    }
}

static uint64_t code_of(enum dtype type, int value)
{
    uint64_t bits = 0;
    double v = value;

    if (type == DTYPE_I32) {
        int32_t i = value;
        memcpy(&bits, &i, sizeof i);
    } else {
        dtype_convert(&bits, type, &v, DTYPE_F64, 1);
    }
    return bits;
}

/* What rank r gives where the hash is h: 0 .. values - 1, or 0 and 1 with too many ranks. */
static int value(const struct bench_data *d, int apart, int h, int r)
{
    if (apart > 1)
        return (h + r) % apart == 0;
    return (h + r) % d->values;
}

void bench_data_init(struct bench_data *d, int sum, enum dtype type, int rank, int ranks)
{
    int limit = exact_limit(type) / ranks > SUM_VALUES_MOST ? SUM_VALUES_MOST
                                                            : (int)(exact_limit(type) / ranks);
    int apart = limit >= 1 ? 1 : (int)(ranks / exact_limit(type)) + 1;

    *d = (struct bench_data){.type = type, .rank = rank, .ranks = ranks, .sum = sum};
    d->values = !sum ? GATHER_VALUES : limit >= 1 ? limit + 1 : SUM_VALUES_MOST;
    d->values = sum && d->values > SUM_VALUES_MOST ? SUM_VALUES_MOST : d->values;
    for (int h = 0; h < d->values; h++) {
        int total = 0;
        for (int r = 0; sum && r < ranks; r++)
            total += value(d, apart, h, r);
        d->mine[h] = code_of(type, sum ? value(d, apart, h, rank) : h);
        d->want[h] = code_of(type, sum ? total : h);
    }
}

/* Fibonacci hashing: neighbours, and elements a power of two apart, differ. */
static int hash(const struct bench_data *d, int64_t x)
{
    return (int)(((uint64_t)x * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (uint64_t)d->values);
}

void bench_data_fill(const struct bench_data *d, void *p, int64_t lo, int64_t hi)
{
    switch (dtype_bytes(d->type)) {
    case 2:
        for (int64_t x = lo; x < hi; x++)
            ((uint16_t *)p)[x - lo] = (uint16_t)d->mine[hash(d, x)];
        return;
    case 4:
        for (int64_t x = lo; x < hi; x++)
            ((uint32_t *)p)[x - lo] = (uint32_t)d->mine[hash(d, x)];
        return;
    default:
        assert(dtype_bytes(d->type) == 8);
        for (int64_t x = lo; x < hi; x++)
            ((uint64_t *)p)[x - lo] = d->mine[hash(d, x)];
    }
}

int64_t bench_data_wrong(const struct bench_data *d, const void *p, int64_t lo, int64_t hi)
{
    int64_t wrong = 0;

    switch (dtype_bytes(d->type)) {
    case 2:
        for (int64_t x = lo; x < hi; x++)
            wrong += ((const uint16_t *)p)[x - lo] != (uint16_t)d->want[hash(d, x)];
        break;
    case 4:
        for (int64_t x = lo; x < hi; x++)
            wrong += ((const uint32_t *)p)[x - lo] != (uint32_t)d->want[hash(d, x)];
        break;
    default:
        assert(dtype_bytes(d->type) == 8);
        for (int64_t x = lo; x < hi; x++)
            wrong += ((const uint64_t *)p)[x - lo] != d->want[hash(d, x)];
    }
    return wrong;
}
