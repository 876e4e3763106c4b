/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds doubles to a fixed-point sum, and converts the sum back to a double. */
#include "base/fixed.h"

#include <math.h>
#include <string.h>

enum { POINT = 80, MANTISSA = 52, BIAS = 1023 };

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

static wide wide_of(const struct fixed *f)
{
    return (wide)((uwide)f->hi << 64 | f->lo);
}

/* A sum of two numbers with equal signs that overflows has the other sign. */
static void add_wide(struct fixed *f, wide a, wide b)
{
    wide s = (wide)((uwide)a + (uwide)b);

    f->over |= (a < 0) == (b < 0) && (s < 0) != (a < 0);
    f->hi = (uint64_t)((uwide)s >> 64);
    f->lo = (uint64_t)s;
}

void fixed_add(struct fixed *sum, double term)
{
    uint64_t bits;

    memcpy(&bits, &term, sizeof bits);
    int exponent = (int)(bits >> MANTISSA & 0x7ff);
    uint64_t m = bits & ((UINT64_C(1) << MANTISSA) - 1);
    /* |term| = m 2^(exponent - BIAS - MANTISSA), in units of 2^-POINT: a shift to the left. */
    int shift = exponent - BIAS - MANTISSA + POINT;

    if (exponent == 0) /* zero, or far below half a unit */
        return;
    m |= UINT64_C(1) << MANTISSA;
    if (shift > 126 - MANTISSA) {
        sum->over = 1;
        return;
    }
    uwide v = 0;
    if (shift >= 0) {
        v = (uwide)m << shift;
    } else if (shift >= -MANTISSA - 1) {
        uint64_t half = UINT64_C(1) << (-shift - 1), rest = m & (2 * half - 1);
        v = m >> (-shift - 1) >> 1;
        v += rest > half || (rest == half && (v & 1));
    }
    add_wide(sum, wide_of(sum), bits >> 63 ? -(wide)v : (wide)v);
}

void fixed_join(struct fixed *sum, const struct fixed *other)
{
    sum->over |= other->over;
    add_wide(sum, wide_of(sum), wide_of(other));
}

double fixed_value(const struct fixed *sum)
{
    if (sum->over)
        return NAN;
    wide v = wide_of(sum);
    uwide u = v < 0 ? -(uwide)v : (uwide)v;
    double x = ldexp((double)u, -POINT);
    return v < 0 ? -x : x;
}
