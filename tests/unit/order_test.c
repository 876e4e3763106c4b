/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the order of samples: bijections, epochs that visit every window, shares that are kept.
 */
#include "unit.h"

#include "base/rng.h"
#include "data/data_order.h"

static void check_bijection(uint64_t key, uint64_t n)
{
    unsigned char *seen = mem_new((size_t)n, 1);

    for (uint64_t x = 0; x < n; x++) {
        uint64_t y = order_shuffle(key, n, x);
        assert_true(y < n && !seen[y]);
        seen[y] = 1;
    }
    mem_free(seen);
}

TEST(shuffles_are_bijections)
{
    for (uint64_t n = 1; n <= 1000; n++)
        check_bijection(n, n);
    check_bijection(1, 65536);
    check_bijection(2, 65537);
    check_bijection(3, 1000003);
}

/* Too many to mark: what comes of a few thousand is in range, no two alike. */
TEST(shuffles_of_large_primes)
{
    static const uint64_t primes[] = {2147483647, 1000000000039, 2305843009213693951};
    enum { SOME = 2000 };
    static uint64_t image[SOME];

    for (int p = 0; p < 3; p++)
        for (uint64_t x = 0; x < SOME; x++) {
            image[x] = order_shuffle(7, primes[p], x % 2 ? primes[p] - 1 - x : x);
            assert_true(image[x] < primes[p]);
            for (uint64_t other = 0; other < x; other++)
                assert_true(image[other] != image[x]);
        }
}

/* How often x comes to y under many keys: CASES / n on average.  Chi-square over the n^2 cells
 * has (n - 1)^2 degrees of freedom, a mean of as many and a deviation of sqrt(2) (n - 1); five
 * of these are passed by chance with a probability below 1e-5, and the keys are fixed.  A
 * network of one or two rounds fails by hundreds. */
static void check_even(int n, double *stray)
{
    enum { CASES = 20000, MOST = 16 };
    int cell[MOST][MOST] = {{0}};
    double chi = 0, due = (double)CASES / n;

    for (uint64_t c = 0; c < CASES; c++)
        for (int x = 0; x < n; x++)
            cell[x][order_shuffle(rng_u64(5, 5, c), (uint64_t)n, (uint64_t)x)]++;
    for (int x = 0; x < n; x++)
        for (int y = 0; y < n; y++)
            chi += (cell[x][y] - due) * (cell[x][y] - due) / due;
    double free = (n - 1.0) * (n - 1.0);
    *stray = fabs(chi - free) / sqrt(2 * free);
}

TEST(shuffles_are_even)
{
    for (int n = 2; n <= 16; n++) {
        double stray = 0;
        check_even(n, &stray);
        if (!(stray < 5))
            fail_msg("%d: chi-square is %.1f deviations off", n, stray);
    }
}

/* Every window of an epoch once, end to end from one offset, inside the tokens. */
static void check_epoch(const struct order_windows *w, int64_t tokens, uint64_t seed,
                        uint64_t epoch, int64_t *offset)
{
    unsigned char *seen = mem_new((size_t)w->windows, 1);

    *offset = INT64_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < w->windows; i++) {
            int64_t at = order_begin(w, seed, 9, epoch * (uint64_t)w->windows + (uint64_t)i);
            assert_true(at >= 0 && at + w->seq + 1 <= tokens);
            if (pass == 0) {
                *offset = at < *offset ? at : *offset;
                continue;
            }
            assert_int_equal((at - *offset) % w->seq, 0);
            int64_t window = (at - *offset) / w->seq;
            assert_true(window < w->windows && !seen[window]);
            seen[window] = 1;
        }
    mem_free(seen);
}

TEST(epochs_visit_every_window)
{
    for (int seq = 1; seq <= 7; seq += 2)
        for (int64_t tokens = seq + 1; tokens <= 100; tokens++) {
            struct order_windows w;
            int64_t offset;
            order_windows_init(&w, tokens, seq);
            assert_true(w.windows >= 1 && w.offsets >= 1);
            assert_true(tokens < 2 * seq || w.offsets >= seq);
            assert_true(w.offsets < 2 * seq);
            for (uint64_t epoch = 0; epoch < 3; epoch++)
                check_epoch(&w, tokens, 3, epoch, &offset);
        }
}

/* Over the epochs windows begin at every place, and orders and offsets change. */
TEST(epochs_differ)
{
    enum { SEQ = 4, TOKENS = 43, EPOCHS = 400 };
    struct order_windows w;
    int seen[TOKENS] = {0}, same = 0, begins_same = 0;
    int64_t offset, last = -1, last_first = -1;

    order_windows_init(&w, TOKENS, SEQ);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        check_epoch(&w, TOKENS, 1, epoch, &offset);
        same += offset == last;
        last = offset;
        int64_t first = (order_begin(&w, 1, 9, epoch * (uint64_t)w.windows) - offset) / w.seq;
        begins_same += first == last_first;
        last_first = first;
        for (int64_t i = 0; i < w.windows; i++)
            seen[order_begin(&w, 1, 9, epoch * (uint64_t)w.windows + (uint64_t)i)]++;
    }
    /* An offset of at most 7 is missed by 400 epochs with a probability of 7 (6/7)^400 < 1e-25.
     */
    for (int at = 0; at + SEQ + 1 <= TOKENS; at++)
        assert_true(seen[at] > 0);
    assert_true(same < EPOCHS / 2 && begins_same < EPOCHS / 2); /* by chance an 8th, a 9th */
    int differ = 0;
    for (uint64_t i = 0; i < 100; i++) {
        differ |= order_begin(&w, 1, 9, i) != order_begin(&w, 2, 9, i); /* another seed */
        differ |= (order_begin(&w, 1, 9, i) != order_begin(&w, 1, 10, i)) << 1; /* a source */
    }
    assert_int_equal(differ, 3);
}

/* After any k samples, over two periods, each source has had its share within one sample. */
static void check_shares(const struct order_mix *m)
{
    uint64_t *had = mem_new((size_t)m->sources, sizeof *had);

    for (int64_t k = 0; k < 2 * m->period; k++) {
        uint64_t sample = 0;
        int s = order_mix_epoch(m, (uint64_t)k, &sample);
        assert_in_range(s, 0, m->sources - 1);
        assert_int_equal(sample, had[s]); /* a source's samples in order, none left out */
        had[s]++;
        for (int i = 0; i < m->sources; i++) {
            int64_t off = (int64_t)had[i] * m->period - (k + 1) * m->share[i];
            assert_true(off < m->period && off > -m->period);
        }
    }
    mem_free(had);
}

TEST(shares_are_kept)
{
    struct order_mix m;
    double w[64];

    for (uint64_t c = 0; c < 60; c++) {
        int sources = 1 + (int)(rng_u64(1, c, 0) % 12);
        for (int i = 0; i < sources; i++)
            w[i] = exp(12 * rng_uniform(2, c, (uint64_t)i)); /* up to 160,000 : 1 */
        order_mix_init(&m, w, sources);
        if (sources > 1)
            check_shares(&m);
        order_mix_release(&m);
    }
    for (int i = 0; i < 64; i++)
        w[i] = 1 + i % 5;
    order_mix_init(&m, w, 64);
    check_shares(&m);
    order_mix_release(&m);
}

static void assert_mix(const double *w, int sources, const int64_t *share, int64_t period)
{
    struct order_mix m;

    order_mix_init(&m, w, sources);
    assert_int_equal(m.period, period);
    assert_memory_equal(m.share, share, (size_t)sources * sizeof *share);
    order_mix_release(&m);
}

TEST(ratios_are_exact_where_they_can_be)
{
    assert_mix((double[]){1, 1, 1}, 3, (int64_t[]){1, 1, 1}, 3);
    assert_mix((double[]){6, 3}, 2, (int64_t[]){2, 1}, 3);
    assert_mix((double[]){0.7, 0.2, 0.1}, 3, (int64_t[]){7, 2, 1}, 10);
    assert_mix((double[]){0.3333, 0.6667}, 2, (int64_t[]){3333, 6667}, 10000);
    /* Not these: 1/65536 at least, the rest is the largest one's. */
    assert_mix((double[]){1, 1e-12}, 2, (int64_t[]){65535, 1}, 65536);
    assert_mix((double[]){1e308, 1e308, 1.5e308}, 3, (int64_t[]){18725, 18725, 28086}, 65536);
    struct order_mix m;
    double root[] = {sqrt(2), 1};
    order_mix_init(&m, root, 2);
    assert_true(fabs((double)m.share[0] / (double)m.period - 0.5857864376) < 1.0 / 65536);
    order_mix_release(&m);
}

/* One sample far away is found without those before it. */
TEST(far_samples)
{
    struct order_mix m;
    uint64_t sample = 0;

    order_mix_init(&m, (double[]){2, 1}, 2);
    uint64_t k = UINT64_C(3) << 60;
    int s = order_mix_epoch(&m, k, &sample);
    assert_int_equal(sample, s ? UINT64_C(1) << 60 : UINT64_C(1) << 61);
    order_mix_release(&m);
}
