/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and checks data whose collective is known in advance, bit for bit.
 *
 * Sums must be exact in any order: values are integers whose sum over all contributors is
 * within the type's gapless range of integers (2^8 in bf16, 2^8 - 2 in u8, where all bits set
 * mark memory that nothing was written to).  With more contributors than that one in so many
 * contributes 1 and the others 0.
 *
 * An average is such a sum and then one dtype_scale: whatever the order of the additions, only
 * that one rounding occurs, and it is the type's own.
 *
 * A maximum is always exact.  Values are steps of 97 around a circle of 251: 97/251 is close to
 * the golden section, so that the extreme is distributed evenly over the contributors.  All are
 * on the far side of 0 (except for u8, which has none), so that unwritten memory cannot go
 * unnoticed.
 */
#include <string.h>

#include "bench/bench_parts.h"

/* Values of a gather: a prime below 2^8, so that no power of two is a period. */
enum { GATHER_VALUES = 251, STEP = 97, SUM_VALUES_MOST = 16 };
/* Below 0 and not -1, which has all bits set. */
enum { MAX_FROM = -253, MIN_FROM = 1 };

static double exact_limit(enum dtype type)
{
    switch (type) {
    case DTYPE_U8:
        return 254;
    case DTYPE_BF16:
        return 0x1p8;
    case DTYPE_F16:
        return 0x1p11;
    case DTYPE_F32:
        return 0x1p24;
    default:
        return 0x1p31 - 1;
    }
}

static uint64_t code_of(enum dtype type, int value)
{
    uint64_t bits = 0;
    double v = value;

    if (type == DTYPE_I32) {
        int32_t i = value;
        memcpy(&bits, &i, sizeof i);
    } else if (type == DTYPE_U8) {
        bits = (uint8_t)value;
    } else {
        dtype_convert(&bits, type, &v, DTYPE_F64, 1);
    }
    return bits;
}

/* Values 0 .. values - 1; if even 0 and 1 are too many, a 1 from one of `apart`
   contributors. */
static void init_sum(struct bench_data *d, enum dtype_op redop, int giver, int givers)
{
    double most = exact_limit(d->type) / givers;
    int apart = most >= 1 ? 1 : (int)(givers / exact_limit(d->type)) + 1;

    d->values = most >= 1 && most + 1 < SUM_VALUES_MOST ? (int)most + 1 : SUM_VALUES_MOST;
    for (int h = 0; h < d->values; h++) {
        int total = 0;
        for (int i = 0; i < givers; i++) {
            int v = apart > 1 ? (h + i) % apart == 0 : (h + i) % d->values;
            total += v;
            if (i == giver)
                d->mine[h] = code_of(d->type, v);
        }
        d->want[h] = code_of(d->type, total);
        if (redop == DTYPE_AVG)
            dtype_scale(&d->want[h], d->type, givers, 1);
    }
}

static void init_extreme(struct bench_data *d, enum dtype_op redop, int giver, int givers)
{
    int from = redop == DTYPE_MIN ? MIN_FROM : d->type == DTYPE_U8 ? 0 : MAX_FROM;

    d->values = GATHER_VALUES;
    for (int h = 0; h < d->values; h++) {
        int64_t best = 0;
        for (int i = 0; i < givers; i++) {
            int64_t v = (h + (int64_t)i * STEP) % GATHER_VALUES + from;
            if (i == 0 || (redop == DTYPE_MIN ? v < best : v > best))
                best = v;
            if (i == giver)
                d->mine[h] = code_of(d->type, (int)v);
        }
        d->want[h] = code_of(d->type, (int)best);
    }
}

void bench_data_init(struct bench_data *d, enum dtype_op redop, enum dtype type, int giver,
                     int givers)
{
    *d = (struct bench_data){.type = type, .values = GATHER_VALUES};
    if (redop == DTYPE_SUM || redop == DTYPE_AVG)
        init_sum(d, redop, giver, givers);
    else if (redop == DTYPE_MAX || redop == DTYPE_MIN)
        init_extreme(d, redop, giver, givers);
    else
        for (int h = 0; h < d->values; h++)
            d->mine[h] = d->want[h] = code_of(type, h);
}

/* Fibonacci hashing: neighbours, and elements a power of two apart, differ. */
static int data_hash(const struct bench_data *d, int64_t x)
{
    return (int)(((uint64_t)x * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (uint64_t)d->values);
}

/* An element's bits are the first bytes of its code. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "codes begin with their low bits");
void bench_data_fill(const struct bench_data *d, void *p, int64_t lo, int64_t hi)
{
    const size_t size = (size_t)dtype_bytes(d->type);
    char *to = p;

    for (int64_t x = lo; x < hi; x++, to += size)
        memcpy(to, &d->mine[data_hash(d, x)], size);
}

int64_t bench_data_wrong(const struct bench_data *d, const void *p, int64_t lo, int64_t hi)
{
    const size_t size = (size_t)dtype_bytes(d->type);
    const char *at = p;
    int64_t wrong = 0;

    for (int64_t x = lo; x < hi; x++, at += size)
        wrong += memcmp(at, &d->want[data_hash(d, x)], size) != 0;
    return wrong;
}
