/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_DEAL_H
#define PLAN_PLAN_DEAL_H

#include "plan/plan_price.h"

/*
 * Deals the micro-batches of a step to the ranks, in rounds: round k gives one to each rank
 * whose count is above k.  The last micro-batch of a step may have fewer sequences.
 *
 *     rank   count   micro-batches     in 3 micro-steps
 *     0      3       0 3 5             0 | 3 | 5
 *     1      1       1                 1 |   |
 *     2      2       2 4               2 | 4 |
 *
 * A rank spreads its micro-batches evenly over the micro-steps.  In a micro-step without one it
 * computes nothing, and takes part in the transfers.
 */

/* Returns the micro-batches of a step. */
int64_t plan_micro_batches(const struct plan_settings *s, int ranks);
/*
 * Sets count[ranks], whose sum is `micros`: those with the least max(count[r] / rate[r]), of
 * these with the least max(count[r]); remainders go to the first ranks.  rate NULL: all are
 * equal.  micros is at most PLAN_BATCH_MAX for each rank.
 */
void plan_deal(const double *rate, int ranks, int64_t micros, int *count);
/* Returns the micro-batches of a rank. */
int plan_count_of(const struct plan_settings *s, int ranks, int rank);
/* Returns how many of a rank's `count` micro-batches come before a micro-step. */
int plan_count_before(const struct plan_settings *s, int count, int micro_step);
/* Returns the number of a rank's micro-batch k in the step. */
int64_t plan_micro_number(const struct plan_settings *s, int ranks, int rank, int k);

/*
 * Sets c->accum to the largest count, for c->micro_batch sequences and, without a global batch,
 * c->accum micro-batches a rank on average.
 */
void plan_case_deal(struct plan_case *c);
/* Sets c->pace and c->slowest from the counts and the ranks' compute rates. */
void plan_case_pace(struct plan_case *c);
/* Returns the case's counts, or without any those by the compute rates: [ranks], mem_free.
   *equal: they are those that c->counts NULL means. */
int *plan_case_counts(const struct plan_case *c, int *equal);

#endif
