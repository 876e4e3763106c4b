/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_ORDER_H
#define DATA_DATA_ORDER_H

#include <stdint.h>

#include "base/err.h"

/*
 * Decides which sample comes when.  All of it is a function of (seed, number of the sample)
 * alone: a sample's number gives the order, ranks and resumes do not enter.
 */

/*
 * The image of x, 0 <= x < n, under a bijection of [0, n) that the key picks: a Feistel network
 * on the smallest even number of bits that holds n, walked on until the image is below n
 * (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).  No table; fewer
 * than 4 walks on average, for the network's domain is less than 4 n.
 */
uint64_t order_shuffle(uint64_t key, uint64_t n, uint64_t x);

/*
 * A source's tokens as windows of seq and the token behind each, one epoch after another.  In
 * an epoch the windows lie end to end from an offset of its own:
 *
 *     tokens   |.....offset.....|-- 0 --|-- 1 --|  ...  |-- windows - 1 --|t|....|
 *
 * and each is visited once.  Offsets go up to what is left over, at least seq - 1 where there
 * are 2 seq tokens or more: windows begin everywhere, and each token is somebody's target.
 */
struct order_windows {
    int64_t windows, offsets; /* in an epoch; offsets are 0 .. offsets - 1 */
    const int64_t *kept;      /* [windows] numbers of windows, borrowed; NULL: all in order */
    int seq;
};

/* tokens >= seq + 1 */
void order_windows_init(struct order_windows *w, int64_t tokens, int seq);
/* The first token of the source's sample number `sample`; each source has its own stream. */
int64_t order_begin(const struct order_windows *w, uint64_t seed, uint64_t stream,
                    uint64_t sample);

/*
 * Whose turn it is: a table of one period, over and over.  In a period of n samples source s
 * has share[s], in an order such that after any k samples it has had more than
 * k share[s] / n - 1 and fewer than k share[s] / n + 1 (earliest deadline first: Baruah et
 * al., "Proportionate Progress", Algorithmica 1996; with one processor it always succeeds).
 * No formula is known that gives the k-th turn of more than two sources so evenly, hence the
 * table; a draw by the generator would stray by the root of k.
 */
enum { ORDER_PERIOD_MAX = 1 << 16, ORDER_SOURCES_MAX = 1 << 12 };

struct order_mix {
    int sources;
    int64_t period;
    int64_t *share; /* [sources] */
    struct order_epoch_part {
        int32_t source, before; /* and how many turns it had before in this period */
    } * turn;                   /* [period]; NULL: one source */
};

/*
 * Shares in the ratio of the weights, each finite and above 0.  Ratios of whole numbers, or of
 * numbers with up to six decimals, whose sum is at most ORDER_PERIOD_MAX are exact; others are
 * rounded to multiples of 1 / ORDER_PERIOD_MAX, to one of them at least.
 */
void order_mix_init(struct order_mix *m, const double *weights, int sources);
void order_mix_release(struct order_mix *m);
/* The source of sample k, and the sample's number within that source. */
int order_mix_epoch(const struct order_mix *m, uint64_t k, uint64_t *sample);

#endif
