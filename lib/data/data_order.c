/* SPDX-License-Identifier: BSD-3-Clause */
/* Determines the order of samples: windows of a source, and the sources' turns.  Leaves tokens
   to data.c. */
#include "data/data_order.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"

/*
 * Luby and Rackoff prove four rounds for large halves; here a half may have one bit, for which
 * there are few round functions.  Eight rounds take a microsecond per window.
 */
enum { ROUNDS = 8 };

static uint64_t feistel(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = x >> half, right = x & mask;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (rng_u64(key, round, right) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t order_shuffle(uint64_t key, uint64_t n, uint64_t x)
{
    int half = 1;

    assert(x < n && n <= UINT64_C(1) << 62);
    while (n > UINT64_C(1) << 2 * half)
        half++;
    /* Terminates: the walk follows the cycle of x, which contains x < n. */
    do
        x = feistel(key, half, x);
    while (x >= n);
    return x;
}

void order_windows_init(struct order_windows *w, int64_t tokens, int seq)
{
    assert(seq > 0 && tokens > seq);
    *w = (struct order_windows){.seq = seq};
    w->windows = (tokens - seq) / seq;
    if (w->windows == 0)
        w->windows = 1;
    w->offsets = tokens - w->windows * seq;
}

int64_t order_begin(const struct order_windows *w, uint64_t seed, uint64_t stream,
                    uint64_t sample)
{
    uint64_t epoch = sample / (uint64_t)w->windows, place = sample % (uint64_t)w->windows;
    uint64_t key = rng_u64(seed, stream, 2 * epoch),
             draw = rng_u64(seed, stream, 2 * epoch + 1);
    uint64_t offset = (uint64_t)(((unsigned __int128)draw * (uint64_t)w->offsets) >> 64);
    int64_t window = (int64_t)order_shuffle(key, (uint64_t)w->windows, place);

    return (int64_t)offset + (w->kept ? w->kept[window] : window) * w->seq;
}

/* Sets shares to weights * scale, if these are whole and their sum is small enough. */
static int exact_shares(struct order_mix *m, const double *weights, double scale)
{
    const double slack = 1e-9; /* relative error of a decimal times a power of ten is 2^-52 */

    m->period = 0;
    for (int s = 0; s < m->sources; s++) {
        double share = weights[s] * scale, whole = nearbyint(share);
        if (!(whole >= 1 && whole <= ORDER_PERIOD_MAX) || fabs(share - whole) > slack * whole)
            return 0;
        m->share[s] = (int64_t)whole;
        m->period += m->share[s];
    }
    return m->period <= ORDER_PERIOD_MAX;
}

/* Fills the period: the largest share gets the rounding difference, which affects it least. */
static void rounded_shares(struct order_mix *m, const double *weights)
{
    double most = 0, sum = 0;
    int largest = 0;

    /* Scales by the largest first: the sum of weights close to DBL_MAX would overflow. */
    for (int s = 0; s < m->sources; s++)
        most = fmax(most, weights[s]);
    for (int s = 0; s < m->sources; s++)
        sum += weights[s] / most;
    m->period = 0;
    for (int s = 0; s < m->sources; s++) {
        double share = nearbyint(weights[s] / most / sum * ORDER_PERIOD_MAX);
        m->share[s] = share < 1 ? 1 : (int64_t)share;
        m->period += m->share[s];
        if (m->share[s] > m->share[largest])
            largest = s;
    }
    int64_t rest = ORDER_PERIOD_MAX - m->period;
    if (m->share[largest] + rest < 1)
        return; /* thousands of sources: the period is a little longer */
    m->share[largest] += rest;
    m->period = ORDER_PERIOD_MAX;
}

/* The range of samples that must contain a source's next one. */
struct span {
    int64_t from, to;
    int32_t had;
};

/* Sample j of a source may come from floor(j n / share) on and must come before ceil((j + 1) n
   / share). */
static void next_span(const struct order_mix *m, int s, struct span *span)
{
    int64_t j = span->had, share = m->share[s];

    span->from = j * m->period / share;
    span->to = ((j + 1) * m->period + share - 1) / share;
}

void order_mix_init(struct order_mix *m, const double *weights, int sources)
{
    assert(sources > 0 && sources <= ORDER_SOURCES_MAX);
    *m = (struct order_mix){.sources = sources};
    if (sources == 1)
        return;
    m->share = mem_new((size_t)sources, sizeof *m->share);
    double scale = 1;
    while (scale <= 1e6 && !exact_shares(m, weights, scale))
        scale *= 10;
    if (scale > 1e6)
        rounded_shares(m, weights);
    int64_t common = 0;
    for (int s = 0; s < m->sources; s++)
        for (int64_t a = m->share[s]; a;) {
            int64_t rest = common % a;
            common = a;
            a = rest;
        }
    for (int s = 0; s < m->sources; s++)
        m->share[s] /= common;
    m->period /= common;
    /*
     * Within these ranges a source's count is its due, rounded up or down.  The earliest
     * deadline is served first.
     */
    struct span *span = mem_new((size_t)m->sources, sizeof *span);
    m->turn = mem_new((size_t)m->period, sizeof *m->turn);
    for (int s = 0; s < m->sources; s++)
        next_span(m, s, &span[s]);
    for (int64_t k = 0; k < m->period; k++) {
        int next = -1;
        for (int s = 0; s < m->sources; s++)
            if (span[s].from <= k && (next < 0 || span[s].to < span[next].to))
                next = s;
        assert(next >= 0 && span[next].to > k);
        m->turn[k] = (struct order_epoch_part){next, span[next].had++};
        next_span(m, next, &span[next]);
    }
    mem_free(span);
}

void order_mix_release(struct order_mix *m)
{
    mem_free(m->share);
    mem_free(m->turn);
    *m = (struct order_mix){0};
}

int order_mix_epoch(const struct order_mix *m, uint64_t k, uint64_t *sample)
{
    if (m->sources == 1) {
        *sample = k;
        return 0;
    }
    const struct order_epoch_part *turn = &m->turn[k % (uint64_t)m->period];
    uint64_t rounds = k / (uint64_t)m->period;
    *sample = rounds * (uint64_t)m->share[turn->source] + (uint64_t)turn->before;
    return turn->source;
}
