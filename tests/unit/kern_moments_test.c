/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the codes of moments: int8 against the map of Dettmers et al. (2110.02861) as
 * bitsandbytes builds it, in double; bf16's stochastic rounding against its distribution.
 */
#include "unit.h"

#include <float.h>

#include "kern/kern.h"
#include "kern_fixture.h"

enum { CODES = MOMENTS_BLOCK, MOST = 3 * MOMENTS_BLOCK };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* create_dynamic_map: means of neighbours of linspace(0.1, 1, items), times 10^(i-6). */
static void dynamic_map(double q[CODES], int second)
{
    int n = 0;

    for (int i = 0; i < 7; i++) {
        int items = (second ? 2 << i : 1 << i) + 1;
        for (int j = 0; j + 1 < items; j++) {
            double lo = 0.1 + 0.9 * j / (items - 1), hi = 0.1 + 0.9 * (j + 1) / (items - 1);
            q[n++] = pow(10, i - 6) * (lo + hi) / 2;
            if (!second)
                q[n++] = -pow(10, i - 6) * (lo + hi) / 2;
        }
    }
    q[n++] = 0;
    q[n++] = 1;
    assert_int_equal(n, CODES);
    qsort(q, CODES, sizeof *q, by_value);
    q[0] = second ? 0 : -1; /* ours, so that the largest magnitude is exact */
}

/* A store of n elements; x goes through it. */
struct stored {
    struct kern_moment m;
    char bytes[2][MOST + 64];
    float x[MOST];
};

static void store(struct stored *s, enum moments type, int second, const float *x, int64_t n)
{
    memset(s->bytes, 0x55, sizeof s->bytes);
    s->m = (struct kern_moment){type, second, s->bytes[0], n};
    kern_moment_put(&s->m, 0, x, n, NULL);
    kern_moment_get(s->x, &s->m, 0, n);
}

/* Scales from where blocks become 0 up to the largest numbers; every seventh is a zero, and
 * each block has elements of all its decades. */
static void random_block(float *x, int64_t n, int second, int turn)
{
    double scale = exp2((turn * 37) % 220 - 103);

    for (int64_t i = 0; i < n; i++) {
        double u = rng_uniform(3, (uint64_t)turn, (uint64_t)i);
        double size = (i + turn) % 7 ? scale * pow(10, -8 * u) * (1 + u) : 0;
        x[i] = (float)(second || i % 2 ? size : -size);
    }
    x[n / 2] = (float)(second || turn % 2 ? 2 * scale : -2 * scale);
}

/*
 * The nearest code, given the block's largest magnitude, which is exact: the error is half of a
 * gap, 0.9 / 64 / 2 of it for exp_avg and half of that for exp_avg_sq, up to the rounding of
 * quotient, product and code.
 */
TEST(int8_is_the_nearest_code)
{
    static struct stored s;
    float x[MOST];
    double q[CODES];

    for (int turn = 0; turn < 200; turn++) {
        int second = turn / 2 % 2;
        int64_t n = turn % 5 ? 1 + turn * 3 % MOST : MOST;
        dynamic_map(q, second);
        for (int64_t b = 0; b < n; b += CODES)
            random_block(x + b, n - b < CODES ? n - b : CODES, second, turn);
        store(&s, MOMENTS_INT8, second, x, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t first = i / CODES * CODES, end = first + CODES < n ? first + CODES : n;
            double most = largest(x + first, end - first), least = INFINITY;
            for (int c = 0; c < CODES; c++)
                least = fmin(least, fabs((double)x[i] - most * q[c]));
            double off = fabs((double)x[i] - (double)s.x[i]);
            if (second && x[i] > 0 && (double)x[i] < most * q[1] / 2)
                assert_near((double)s.x[i], most * q[1], most * q[1] * 0x1p-22);
            else
                assert_true(off <= least + most * 0x1p-22);
            assert_true(off <= most * 0.9 / (second ? 256 : 128) * (1 + 0x1p-20));
            assert_true(fabs((double)x[i]) < most || s.x[i] == x[i]);
            assert_true(!second || (s.x[i] > 0) == (x[i] > 0));
        }
    }
}

/* So a checkpoint in f32 carries codes and scales; nothing depends on how a vector is cut. */
TEST(int8_decoded_blocks_encode_to_themselves)
{
    static struct stored s;
    float x[MOST], part[CODES];

    for (int turn = 0; turn < 400; turn++) {
        int64_t n = MOST - turn % 3 * 100;
        for (int64_t b = 0; b < n; b += CODES)
            random_block(x + b, n - b < CODES ? n - b : CODES, turn / 2 % 2, turn);
        store(&s, MOMENTS_INT8, turn / 2 % 2, x, n);
        struct kern_moment again = s.m;
        again.data = s.bytes[1];
        for (int64_t b = 0; b < n; b += CODES)
            kern_moment_put(&again, b, s.x + b, n - b < CODES ? n - b : CODES, NULL);
        assert_memory_equal(s.bytes[0], s.bytes[1], (size_t)moments_bytes(MOMENTS_INT8, n));
        kern_moment_get(part, &s.m, 200, CODES);
        assert_memory_equal(part, s.x + 200, sizeof part);
    }
}

TEST(int8_zeros_and_what_is_not_finite)
{
    static struct stored s;
    float x[CODES] = {0}, zero[CODES] = {0};

    x[3] = -0.0F;
    x[4] = 0x1p-105F; /* below the least scale */
    for (int second = 0; second < 2; second++) {
        store(&s, MOMENTS_INT8, second, x, CODES);
        assert_memory_equal(s.x, zero, sizeof zero);
        memset(s.bytes, 0, sizeof s.bytes); /* fresh memory */
        kern_moment_get(s.x, &s.m, 0, CODES);
        assert_memory_equal(s.x, zero, sizeof zero);
    }
    for (int i = 0; i < 2; i++) {
        x[7] = i ? INFINITY : NAN;
        store(&s, MOMENTS_INT8, 0, x, CODES);
        for (int e = 0; e < CODES; e++)
            assert_false(isfinite(s.x[e]));
    }
}

static float bf16_of(uint16_t h)
{
    return dtype_f32_of_bf16(h);
}

/*
 * N equal elements a + p (b - a) between the neighbours a and b: the number of b is binomial,
 * and lies within 6 deviations of N p but once in 5e8 draws: always, as the hash is fixed.
 */
TEST(bf16_rounding_is_unbiased)
{
    enum { N = 1 << 16 };
    static const float least[] = {1, -3, 0x1p-130F, 0x1.fep20F}; /* with the next binade's */
    float *x = mem_new(N, sizeof *x);
    uint16_t *to = mem_new(N, sizeof *to);

    for (int turn = 0; turn < 64; turn++) {
        float a = least[turn % 4];
        uint32_t bits, low = (uint32_t)(turn * 1031 + 1) % 65536;
        memcpy(&bits, &a, 4);
        uint16_t lower = (uint16_t)(bits >> 16);
        bits += low;
        for (int i = 0; i < N; i++)
            memcpy(&x[i], &bits, 4);
        struct kern_dither d =
            kern_dither_of(1 + turn / 8, turn % 3, 1000 * turn, turn / 2 % 2);
        kern_moment_put(&(struct kern_moment){MOMENTS_BF16, 0, to, N}, 0, x, N, &d);
        double p = low / 65536.0, ups = 0;
        for (int i = 0; i < N; i++) {
            assert_true(to[i] == lower || to[i] == lower + 1);
            ups += to[i] != lower;
        }
        assert_near(ups, N * p, 6 * sqrt(N * p * (1 - p)) + 1);
    }
    free(x), free(to);
}

/* Two streams of 16 bits agree in a bit of each half the time: within 6 deviations. */
TEST(bf16_bits_depend_on_step_unit_element_and_moment_alone)
{
    enum { N = 1 << 14 };
    struct kern_dither d = kern_dither_of(7, 3, 500, 0),
                       other[] = {kern_dither_of(8, 3, 500, 0), kern_dither_of(7, 4, 500, 0),
                                  kern_dither_of(7, 3, 501, 0), kern_dither_of(7, 3, 500, 1),
                                  kern_dither_of(7, 3, 500 + (INT64_C(1) << 32), 0)};

    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        double same = 0;
        for (uint32_t i = 0; i < N; i++)
            same +=
                16 - __builtin_popcount(kern_dither_bits(d, i) ^ kern_dither_bits(other[k], i));
        assert_near(same, 8.0 * N, 6 * sqrt(4.0 * N));
    }
    int64_t edge = INT64_C(1) << 32; /* a piece may begin anywhere */
    for (int64_t first = edge - 5; first < edge + 5; first++)
        for (int64_t from = edge - 9; from <= first; from++)
            assert_int_equal(
                kern_dither_bits(kern_dither_of(1, 2, first, 1), 0),
                kern_dither_bits(kern_dither_of(1, 2, from, 1), (uint32_t)(first - from)));
}

TEST(bf16_values_and_what_is_not_finite_stay)
{
    static const uint16_t fixed[] = {0, 0x8000, 1, 0x3f80, 0xc0a1, 0x7f80, 0xff80, 0x7f7f};
    struct kern_dither d = kern_dither_of(1, 1, 0, 0);
    uint32_t quiet = 0x7f800001; /* a NaN whose upper half is infinity */
    float x[9], back[9];
    uint16_t to[9];

    memcpy(&x[8], &quiet, 4);
    for (int i = 0; i < 8; i++)
        x[i] = bf16_of(fixed[i]);
    const struct kern_moment m = {MOMENTS_BF16, 0, to, 9};
    for (int i = 0; i < 100; i++, d.first += 9) {
        kern_moment_put(&m, 0, x, 9, i ? &d : NULL);
        kern_moment_get(back, &m, 0, 9);
        assert_memory_equal(to, fixed, sizeof fixed);
        assert_memory_equal(back, x, 8 * sizeof *x);
        assert_true(isnan(back[8]));
    }
}
