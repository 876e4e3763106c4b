/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides the verdict of a class of calls, and how long it holds.  Leaves the exchange of times
 * to its caller.
 */
#include <math.h>

#include "base/stats.h"
#include "preload/preload_mpi_plan.h"

enum {
    /* A call on trial is replaced after so many other calls.  This is the number of prepared
       calls of a communicator, so a program that cycles among them all gets its verdicts in the
       second round. */
    PATIENCE = 64,
    /* Trials take at most one in SHARE of the calls and of their time. */
    SHARE = 100
};

int preload_mpi_class_holds(struct preload_mpi_class *c)
{
    return c->left > 0 && --c->left > 0;
}

static int takes(struct preload_mpi_class *c, uint64_t mark)
{
    if (c->chosen && c->trial != mark && c->waited++ < PATIENCE)
        return 0;
    if (!c->chosen || c->trial != mark)
        c->runs = 0;
    c->chosen = 1;
    c->trial = mark;
    c->waited = 0;
    return 1;
}

enum preload_mpi_why preload_mpi_class_next(struct preload_mpi_class *c, uint64_t mark)
{
    static const enum preload_mpi_why stands[] = {[PRELOAD_UNKNOWN] = PRELOAD_OTHER,
                                                  [PRELOAD_IS_OURS] = PRELOAD_OURS,
                                                  [PRELOAD_IS_THEIRS] = PRELOAD_SLOWER,
                                                  [PRELOAD_IS_BROKEN] = PRELOAD_FAILED};

    if (c->left > 0 || !takes(c, mark))
        return stands[c->verdict];
    return c->runs % 2 == PRELOAD_THEIRS ? PRELOAD_TRIAL : PRELOAD_OURS;
}

int preload_mpi_class_tries(const struct preload_mpi_class *c, uint64_t mark)
{
    return c->left == 0 && c->chosen && c->trial == mark;
}

int preload_mpi_class_note(struct preload_mpi_class *c, double seconds)
{
    c->time_s[c->runs++] = seconds;
    return c->runs == 2 * PRELOAD_TRIALS;
}

void preload_mpi_class_decide(struct preload_mpi_class *c)
{
    for (int side = 0; side < 2; side++) {
        double v[PRELOAD_TRIALS];
        for (int i = 0; i < PRELOAD_TRIALS; i++)
            v[i] = c->time_s[2 * i + side];
        c->median_s[side] = stats_median(v, PRELOAD_TRIALS);
    }
    int ours = c->median_s[PRELOAD_OURS_SIDE] < c->median_s[PRELOAD_THEIRS];
    double best_s = c->median_s[ours ? PRELOAD_OURS_SIDE : PRELOAD_THEIRS];
    double other_s = c->median_s[ours ? PRELOAD_THEIRS : PRELOAD_OURS_SIDE];
    double *prepared_s = &c->time_s[PRELOAD_PREPARED];
    c->verdict = ours ? PRELOAD_IS_OURS : PRELOAD_IS_THEIRS;
    /* Number of calls after which another trial of this cost stays within its share. */
    double spent_s = PRELOAD_TRIALS * (other_s - best_s) + *prepared_s;
    double calls = fmax(best_s > 0 ? spent_s / best_s : 0, 2 * PRELOAD_TRIALS);
    c->left = calls < (double)INT32_MAX ? (int64_t)(SHARE * calls) : (int64_t)SHARE * INT32_MAX;
    c->chosen = 0;
    *prepared_s = 0;
}
