/* SPDX-License-Identifier: BSD-3-Clause */
/* What mpi_user puts into buffers: for copies any bits; for reductions numbers whose result is
 * the same in every order, or (call.inexact) floating-point ones within (-1/2, 1/2), for which
 * two sums may differ.  How far: with u half of eps a sum of n terms in any order is off by at
 * most (n - 1) u sum|x| and terms of u^2; two of them by (n - 1) eps sum|x|, and sum|x| < n
 * / 2. The bound taken, (n - 1) n eps, leaves a factor of two for the terms of u^2.  A product
 * of n factors is off by (n - 1) u of itself: two by (n - 1) eps, and twice that is taken. */
#include "mpi_user.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void values_noise(unsigned char *p, int64_t n, uint64_t seed)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        uint64_t r = mix(seed + (uint64_t)i);
        memcpy(p + i, &r, 8);
    }
    for (; i < n; i++)
        p[i] = (unsigned char)mix(seed + (uint64_t)i);
}

static void put_whole(unsigned char *p, int width, int64_t v)
{
    int8_t v8 = (int8_t)v;
    int16_t v16 = (int16_t)v;
    int32_t v32 = (int32_t)v;
    const void *from = width == 1   ? (void *)&v8
                       : width == 2 ? (void *)&v16
                       : width == 4 ? (void *)&v32
                                    : (void *)&v;

    memcpy(p, from, (size_t)width);
}

static void put_floating(unsigned char *p, int width, long double v)
{
    float f = (float)v;
    double d = (double)v;

    memcpy(p,
           width == (int)sizeof(f)   ? (void *)&f
           : width == (int)sizeof(d) ? (void *)&d
                                     : &v,
           (size_t)width);
}

static long double get_floating(const unsigned char *p, int width)
{
    float f;
    double d;
    long double l;

    if (width == (int)sizeof(f))
        return memcpy(&f, p, sizeof(f)), (long double)f;
    if (width == (int)sizeof(d))
        return memcpy(&d, p, sizeof(d)), (long double)d;
    return memcpy(&l, p, sizeof(l)), l;
}

/* Sums of 7 fit into 8 bits on 18 ranks, products with every third factor 2 on 20; logical
 * values are such that both results occur, for and and for or. */
static int64_t whole(const struct call *c, bool positive, uint64_t r, int rank, int64_t i)
{
    if (c->op->mpi == MPI_SUM)
        return positive ? (int64_t)(r % 15) : (int64_t)(r % 15) - 7;
    if (c->op->mpi == MPI_PROD)
        return (i + rank) % 3 == 0 ? 2 : positive || r & 1 ? 1 : -1;
    if (c->op->mpi == MPI_LAND || c->op->mpi == MPI_LOR || c->op->mpi == MPI_LXOR) {
        bool often = i & 1;
        return (r % 16 == 0) == often ? 0 : (int64_t)(r >> 57) + 1;
    }
    if (c->op->kinds == WHOLE)
        return (int64_t)(r % 1000003);
    return (int64_t)r;
}

static long double floating(const struct call *c, uint64_t r, int64_t i)
{
    const long double powers[] = {1, -1, 2, 0.5L};
    long double half = ldexpl((long double)(r >> 11), -53) - 0.5L;

    if (c->op->mpi == MPI_SUM)
        return c->inexact ? half : (long double)((int)(r % 129) - 64);
    if (c->op->mpi == MPI_PROD)
        return c->inexact ? (r & 1 ? 1 + half : -1 - half) : powers[r % 4];
    if (r % 61 == 0)
        return i & 1 ? INFINITY : -INFINITY;
    return r % 3 ? half * 1e6L : (long double)(r % 17);
}

/* A product of these is exact: units of the four directions, 2 and 1/2. */
static void complex_factor(unsigned char *p, int width, uint64_t r)
{
    const int re[] = {1, 0, -1, 0, 4, 0}, im[] = {0, 1, 0, -1, 0, 1};
    int k = (int)(r % 6);
    long double by = k < 4 ? 1 : 0.5L;

    put_floating(p, width, by * (long double)re[k]);
    put_floating(p + width, width, by * (long double)im[k]);
}

static void put_operand(const struct call *c, unsigned char *p, int rank, int64_t i)
{
    const struct type *y = c->type;
    uint64_t r = mix(c->seed ^ mix((uint64_t)rank * 1000003u + (uint64_t)i));
    struct record one = {.least = (char)(r >> 50),
                         .sum = (double)(r % 1000),
                         .mixed = {(int)(r >> 9), (int)(r & r >> 13 & r >> 27)}};

    if (y->kind == MATRIX || c->op->kinds == FIRST) {
        values_noise(p, y->extent, r);
    } else if (y->kind == RECORD) {
        memcpy(p + y->at[0], &one.least, 1);
        memcpy(p + y->at[1], &one.sum, sizeof(one.sum));
        memcpy(p + y->at[9], one.mixed, sizeof(one.mixed));
    } else if (y->kind == PAIR) {
        /* Few values: ties, which the lowest index wins. */
        if (y->number == FLOATING)
            put_floating(p, y->width, (long double)((int)(r % 5) - 2) / 2);
        else
            put_whole(p, y->width, (int64_t)(r % 5) - 2);
        put_whole(p + y->index, (int)sizeof(int), (int64_t)(r >> 8) % 97);
    } else if (y->kind == LOGICAL) {
        put_whole(p, y->width, whole(c, true, r, rank, i) != 0);
    } else if (y->kind == FLOATING) {
        put_floating(p, y->width, floating(c, r, i));
    } else if (y->kind == COMPLEX && c->op->mpi == MPI_PROD) {
        complex_factor(p, y->width, r);
    } else if (y->kind == COMPLEX) {
        put_floating(p, y->width, floating(c, r, i));
        put_floating(p + y->width, y->width, floating(c, mix(r), i));
    } else {
        put_whole(p, y->width, whole(c, y->kind != SIGNED, r, rank, i));
    }
}

void values_put(const struct call *c, const struct type *as, unsigned char *p, int64_t items,
                int rank, int64_t first)
{
    uint64_t seed = mix(c->seed ^ mix((uint64_t)rank));
    /* The rank's stream of bytes goes on from item to item, whatever layout they are in. */
    int64_t k = first * c->type->bytes;

    if (c->op) {
        for (int64_t i = 0; i < items; i++)
            put_operand(c, p + i * as->extent, rank, first + i);
        return;
    }
    for (int64_t i = 0; i < items / as->per; i++, p += as->extent)
        for (int b = 0; b < as->bytes; b++, k++)
            p[as->at[b]] = (unsigned char)(mix(seed + (uint64_t)(k >> 3)) >> (8 * (k & 7)));
}

static bool near(const struct call *c, const unsigned char *a, const unsigned char *b,
                 int ranks)
{
    int width = c->type->width;
    long double x = get_floating(a, width), y = get_floating(b, width);
    long double eps = width == (int)sizeof(float)    ? FLT_EPSILON
                      : width == (int)sizeof(double) ? DBL_EPSILON
                                                     : LDBL_EPSILON;
    long double far = c->op->mpi == MPI_PROD ? 2 * fabsl(y) : (long double)ranks;

    if (!c->inexact || (c->op->mpi != MPI_SUM && c->op->mpi != MPI_PROD))
        return x == y;
    return fabsl(x - y) <= (long double)(ranks - 1) * eps * far;
}

/* Of a long double of 64 bits of mantissa, 10 of 16 bytes are its value; MPI may send the
 * others. */
static bool is_padding(const struct type *y, int byte)
{
    return LDBL_MANT_DIG == 64 && (y->number == FLOATING || y->number == COMPLEX) &&
           y->width == (int)sizeof(long double) && byte % y->bytes % y->width >= 10;
}

bool values_same(const struct call *c, const struct type *as, const unsigned char *a,
                 const unsigned char *b, int ranks)
{
    const struct type *y = c->type;

    if (c->op && c->op->kinds != FIRST && y->number == FLOATING)
        return near(c, a, b, ranks) &&
               (y->kind != PAIR || memcmp(a + y->index, b + y->index, sizeof(int)) == 0);
    if (c->op && y->number == COMPLEX)
        return near(c, a, b, ranks) && near(c, a + y->width, b + y->width, ranks);
    for (int i = 0; i < as->bytes; i++)
        if (a[as->at[i]] != b[as->at[i]] && !is_padding(y, i))
            return false;
    return true;
}

void values_print(const struct type *as, const unsigned char *p, char *text, int size)
{
    int n = 0;

    if (as->number == FLOATING) {
        n = snprintf(text, (size_t)size, "%.17Lg ", get_floating(p, as->width));
    } else if (as->number == SIGNED) {
        long long v = 0;
        for (int i = as->width - 1; i >= 0; i--)
            v = v * 256 + (i == as->width - 1 ? (signed char)p[i] : p[i]);
        n = snprintf(text, (size_t)size, "%lld ", v);
    }
    for (int i = 0; i < as->bytes && i < 24 && n + 3 < size; i++)
        n += snprintf(text + n, (size_t)(size - n), "%s%02x", i ? "" : "0x", p[as->at[i]]);
}
