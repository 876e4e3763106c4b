/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides the verdict of a class of calls, and how long it holds.  Independent of MPI's ranks.
 */
#include <math.h>

#include "base/stats.h"
#include "shim/shim_mpi_plan.h"

enum {
    /* A call on trial that does not come again leaves the place to another after so many
       others: as many as a communicator keeps prepared, so that a program that goes around
       among them all gets its verdict at the second round. */
    PATIENCE = 64,
    /* Trials take one in SHARE of the calls, and of their time, at most. */
    SHARE = 100
};

int shim_mpi_class_holds(struct shim_mpi_class *c)
{
    return c->left > 0 && --c->left > 0;
}

static int takes(struct shim_mpi_class *c, uint64_t mark)
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

enum shim_mpi_why shim_mpi_class_next(struct shim_mpi_class *c, uint64_t mark)
{
    static const enum shim_mpi_why stands[] = {[SHIM_UNKNOWN] = SHIM_OTHER,
                                               [SHIM_IS_OURS] = SHIM_OURS,
                                               [SHIM_IS_THEIRS] = SHIM_SLOWER,
                                               [SHIM_IS_BROKEN] = SHIM_FAILED};

    if (c->left > 0 || !takes(c, mark))
        return stands[c->verdict];
    return c->runs % 2 == SHIM_THEIRS ? SHIM_TURN : SHIM_OURS;
}

int shim_mpi_class_tries(const struct shim_mpi_class *c, uint64_t mark)
{
    return c->left == 0 && c->chosen && c->trial == mark;
}

int shim_mpi_class_note(struct shim_mpi_class *c, double seconds)
{
    c->time_s[c->runs++] = seconds;
    return c->runs == 2 * SHIM_TRIALS;
}

void shim_mpi_class_settle(struct shim_mpi_class *c)
{
    for (int side = 0; side < 2; side++) {
        double v[SHIM_TRIALS];
        for (int i = 0; i < SHIM_TRIALS; i++)
            v[i] = c->time_s[2 * i + side];
        c->median_s[side] = stats_median(v, SHIM_TRIALS);
    }
    int ours = c->median_s[SHIM_OURS_SIDE] < c->median_s[SHIM_THEIRS];
    double best_s = c->median_s[ours ? SHIM_OURS_SIDE : SHIM_THEIRS];
    double other_s = c->median_s[ours ? SHIM_THEIRS : SHIM_OURS_SIDE];
    double *prepared_s = &c->time_s[SHIM_PREPARED];
    c->verdict = ours ? SHIM_IS_OURS : SHIM_IS_THEIRS;
    /* Calls until a trial that costs as much as this one has cost its share, and no more. */
    double spent_s = SHIM_TRIALS * (other_s - best_s) + *prepared_s;
    double calls = fmax(best_s > 0 ? spent_s / best_s : 0, 2 * SHIM_TRIALS);
    c->left = calls < (double)INT32_MAX ? (int64_t)(SHARE * calls) : (int64_t)SHARE * INT32_MAX;
    c->chosen = 0;
    *prepared_s = 0;
}
