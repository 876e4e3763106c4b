/* SPDX-License-Identifier: BSD-3-Clause */
/* Deals the micro-batches of a step to ranks of unequal compute rates, so that they end
   together. */
#include "plan/plan_deal.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

int64_t plan_micro_batches(const struct plan_settings *s, int ranks)
{
    return (plan_sequences(s, ranks) + s->micro_batch - 1) / s->micro_batch;
}

static int64_t count_within(double rate, double time, int most)
{
    double count = floor(time * rate);

    return count < most ? (int64_t)count : most;
}

static int64_t sum_within(const double *rate, int ranks, double time, int most)
{
    int64_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += count_within(rate[r], time, most);
    return sum;
}

void plan_deal(const double *rate, int ranks, int64_t micros, int *count)
{
    double slowest = INFINITY, lo = 0, hi;
    int least = 0, most = PLAN_BATCH_MAX;

    for (int r = 0; r < ranks; r++) {
        count[r] = (int)(micros / ranks + (r < micros % ranks));
        slowest = rate ? fmin(slowest, rate[r]) : slowest;
    }
    if (!rate)
        return;
    /* The least time, up to the rounding of doubles: time * rate is a count, up to it. */
    hi = 2 * (double)micros / slowest;
    for (double half; half = lo + (hi - lo) / 2, half > lo && half < hi;)
        *(sum_within(rate, ranks, half, most) < micros ? &lo : &hi) = half;
    hi *= 1 + 1e-12;
    while (most - least > 1) {
        int half = least + (most - least) / 2;
        *(sum_within(rate, ranks, hi, half) < micros ? &least : &most) = half;
    }
    int64_t more = sum_within(rate, ranks, hi, most) - micros;
    for (int r = ranks - 1; r >= 0; r--) {
        count[r] = (int)count_within(rate[r], hi, most);
        if (more > 0 && count[r] == most) {
            count[r]--;
            more--;
        }
    }
}

int plan_count_of(const struct plan_settings *s, int ranks, int rank)
{
    int64_t micros = plan_micro_batches(s, ranks);

    return s->counts ? s->counts[rank] : (int)(micros / ranks + (rank < micros % ranks));
}

int plan_count_before(const struct plan_settings *s, int count, int micro_step)
{
    int64_t steps = plan_micro_steps(s);

    return (int)(((int64_t)micro_step * count + steps - 1) / steps);
}

int64_t plan_micro_number(const struct plan_settings *s, int ranks, int rank, int k)
{
    int64_t number = (int64_t)k * ranks + rank;

    for (int r = 0; s->counts && r < ranks; r++)
        if (s->counts[r] <= k) /* its turns that are over */
            number -= k - s->counts[r] + (r < rank);
    return number;
}

int *plan_case_counts(const struct plan_case *c, int *equal)
{
    int ranks = c->topo->groups.ranks, *count = mem_new((size_t)ranks, sizeof *count);
    int64_t micros = plan_micro_batches(&c->settings, ranks);

    plan_deal(c->topo->rank_flops, ranks, micros, count);
    *equal = 1;
    for (int r = 0; r < ranks; r++) {
        count[r] = c->counts ? c->counts[r] : count[r];
        *equal &= count[r] == micros / ranks + (r < micros % ranks);
    }
    return count;
}

void plan_case_deal(struct plan_case *c)
{
    int ranks = c->topo->groups.ranks, equal, most = 0;

    if (!c->global_batch && !c->topo->rank_flops)
        return;
    c->global_batch = plan_sequences(&c->settings, ranks);
    int *count = plan_case_counts(c, &equal);
    for (int r = 0; r < ranks; r++)
        most = count[r] > most ? count[r] : most;
    c->accum = most;
    mem_free(count);
}

/* The time of a step of ranks that wait for each other in each micro-step; the number of ranks
   may be one. */
static double time_together(const struct plan_case *c, const int *rank, int ranks,
                            const int *count)
{
    double time = 0;

    for (int step = 0; step < plan_micro_steps(&c->settings); step++) {
        double longest = 0;
        for (int i = 0; i < ranks; i++) {
            int r = rank[i], at = plan_count_before(&c->settings, count[r], step);
            int here = plan_count_before(&c->settings, count[r], step + 1) - at;
            longest = fmax(longest, here * c->topo->flops / topo_rank_flops(c->topo, r));
        }
        time += longest;
    }
    return time;
}

void plan_case_pace(struct plan_case *c)
{
    const struct groups *g = &c->topo->groups;
    int steps = plan_micro_steps(&c->settings), equal;

    for (int i = 0; i < PLAN_PACES; i++)
        c->pace[i] = (double)c->accum / steps;
    c->slowest = 1;
    if (!(c->topo->flops > 0) || (!c->counts && !c->topo->rank_flops))
        return;
    int *count = plan_case_counts(c, &equal);
    memset(c->pace, 0, sizeof c->pace);
    c->slowest = 0;
    for (int r = 0; r < g->ranks; r++) {
        double slow = c->topo->flops / topo_rank_flops(c->topo, r);
        c->slowest = fmax(c->slowest, slow);
        c->pace[PLAN_ALONE] = fmax(c->pace[PLAN_ALONE], count[r] * slow / steps);
    }
    for (int k = 0; k < g->count; k++)
        c->pace[PLAN_IN_GROUP] =
            fmax(c->pace[PLAN_IN_GROUP],
                 time_together(c, g->rank + g->first[k], g->members[k], count) / steps);
    c->pace[PLAN_WITH_ALL] = time_together(c, g->rank, g->ranks, count) / steps;
    mem_free(count);
}
