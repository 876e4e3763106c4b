/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_ORDER_H
#define DATA_DATA_ORDER_H

#include <stdint.h>

#include "base/err.h"

/*
 * Determines the order of samples.  It is a function of (seed, number of the sample) only, so
 * it does not depend on ranks and resumed runs.
 */

/*
 * The image of x, 0 <= x < n, under a bijection of [0, n) selected by the key: a Feistel
 * network on the smallest even number of bits that holds n, repeated until the image is below n
 * (cycle walking: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
 * Needs no table, and fewer than 4 steps on average, since the network's domain is smaller than
 * 4 n.
 */
uint64_t order_shuffle(uint64_t key, uint64_t n, uint64_t x);

/*
 * A source's tokens as windows of seq tokens plus the following token, in epochs.  In an epoch
 * the windows are adjacent, from an offset that depends on the epoch:
 *
 *     tokens   |.....offset.....|-- 0 --|-- 1 --|  ...  |-- windows - 1 --|t|....|
 *
 * and each is visited once.  Offsets range up to the number of remaining tokens, at least seq -
 * 1 if there are 2 seq tokens or more.  So windows begin at every token over the epochs, and
 * every token is a target.
 */
struct order_windows {
    int64_t windows, offsets; /* windows in an epoch; offsets are 0 .. offsets - 1 */
    const int64_t *kept;      /* [windows] window numbers, borrowed; NULL: all in order */
    int seq;
};

/* tokens >= seq + 1 */
void order_windows_init(struct order_windows *w, int64_t tokens, int seq);
/* The first token of the source's sample number `sample`; each source has a stream of its
   own. */
int64_t order_begin(const struct order_windows *w, uint64_t seed, uint64_t stream,
                    uint64_t sample);

/*
 * The source of each sample: a table of one period, repeated.  In a period of n samples source
 * s has share[s] samples.  After any k samples it has had more than k share[s] / n - 1 and
 * fewer than k share[s] / n + 1 (earliest deadline first: Baruah et al., "Proportionate
 * Progress", Algorithmica 1996; with one processor it always succeeds).  For more than two
 * sources no formula for the k-th source is known that is as even, hence the table; random
 * choices would deviate by the square root of k.
 */
enum { ORDER_PERIOD_MAX = 1 << 16, ORDER_SOURCES_MAX = 1 << 12 };

struct order_mix {
    int sources;
    int64_t period;
    int64_t *share; /* [sources] */
    struct order_epoch_part {
        int32_t source, before; /* before: samples of this source earlier in the period */
    } * turn;                   /* [period]; NULL: one source */
};

/*
 * Sets shares in the ratio of the weights, which are finite and > 0.  Ratios of whole numbers,
 * or of numbers with up to six decimals, are exact if their sum is at most ORDER_PERIOD_MAX;
 * others are rounded to multiples of 1 / ORDER_PERIOD_MAX, at least one.
 */
void order_mix_init(struct order_mix *m, const double *weights, int sources);
void order_mix_release(struct order_mix *m);
/* The source of sample k, and in *sample the sample's number within that source. */
int order_mix_epoch(const struct order_mix *m, uint64_t k, uint64_t *sample);

#endif
