/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests sums in fixed point beside long double ones of terms that are exact in both. */
#include "unit.h"

#include <float.h>

#include "base/fixed.h"
#include "base/rng.h"

enum { TERMS = 4096 };

static double term_at(int i)
{
    double v = (double)(int64_t)(rng_u64(1, 2, (uint64_t)i) >> 12);

    return ldexp(i % 3 ? v : -v, (int)(rng_u64(1, 3, (uint64_t)i) % 100) - 110);
}

TEST(orders_and_groupings_give_the_same_bits)
{
    struct fixed forward = {0}, backward = {0}, joined = {0}, part[7] = {{0}};

    for (int i = 0; i < TERMS; i++) {
        fixed_add(&forward, term_at(i));
        fixed_add(&backward, term_at(TERMS - 1 - i));
        fixed_add(&part[i * 5 % 7], term_at(i));
    }
    for (int k = 6; k >= 0; k--)
        fixed_join(&joined, &part[k]);
    assert_memory_equal(&forward, &backward, sizeof forward);
    assert_memory_equal(&forward, &joined, sizeof forward);
    assert_true(forward.hi || forward.lo);
}

TEST(one_term_comes_back)
{
    static const double exact[] = {
        0, 1, -1, 0.1, -1e-6, 123456789.25, 0x1p-80, -0x1p46, 0x1p-79, 0x1.8p-78, -0x1.fp-76};

    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        struct fixed f = {0};
        fixed_add(&f, exact[i]);
        assert_true(fixed_value(&f) == exact[i]);
        fixed_add(&f, -exact[i]);
        assert_true(fixed_value(&f) == 0);
    }
}

static double entered(double term)
{
    struct fixed f = {0};

    fixed_add(&f, term);
    return fixed_value(&f) * 0x1p80;
}

TEST(what_is_below_a_unit_is_rounded_to_even)
{
    assert_true(entered(0x1p-81) == 0 && entered(-0x1p-81) == 0);
    assert_true(entered(0x1.8p-80) == 2 && entered(-0x1.8p-80) == -2);
    assert_true(entered(0x1.4p-79) == 2 && entered(0x1.cp-79) == 4);
    assert_true(entered(0x1.0000000000001p-81) == 1);
    assert_true(entered(0x1.fffffffffffffp-82) == 0);
    assert_true(entered(DBL_MIN) == 0 && entered(DBL_TRUE_MIN) == 0);
    for (int i = 0; i < 1000; i++) { /* the mantissa of a long double holds these */
        double v = ldexp((double)(rng_u64(5, 6, (uint64_t)i) >> 11), -80 - i % 55);
        assert_true(entered(v) == (double)rintl((long double)v * 0x1p80L));
    }
}

TEST(what_does_not_fit_is_known)
{
    static const double no[] = {INFINITY, -INFINITY, NAN, 0x1p47, -1e300};

    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        struct fixed f = {0}, g = {0};
        fixed_add(&f, no[i]);
        assert_true(isnan(fixed_value(&f)));
        fixed_join(&g, &f);
        fixed_add(&g, 1);
        assert_true(isnan(fixed_value(&g)));
    }
    struct fixed f = {0};
    fixed_add(&f, 0x1p46);
    assert_false(f.over);
    fixed_add(&f, 0x1p46);
    assert_true(isnan(fixed_value(&f)));
    struct fixed n = {0};
    fixed_add(&n, -0x1p46);
    fixed_add(&n, -0x1p46); /* -2^47 is the end of the range and in it */
    assert_true(fixed_value(&n) == -0x1p47);
    fixed_add(&n, -0x1p-80);
    assert_true(isnan(fixed_value(&n)));
}
