/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a class of calls comes to its verdict.  Does not know MPI's ranks. */
#include "base/stats.h"
#include "shim/shim_mpi_plan.h"

/*
 * A call on trial that does not come again leaves the place to another after so many others: as
 * many as a communicator keeps prepared, so that a program that goes around among them all gets
 * its verdict at the second round.
 */
enum { PATIENCE = 64 };

int shim_mpi_class_takes(struct shim_mpi_class *c, uint64_t mark)
{
    if (c->state != SHIM_TRYING)
        return 1;
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
    if (c->state == SHIM_IS_OURS)
        return SHIM_OURS;
    if (!shim_mpi_class_takes(c, mark))
        return SHIM_OTHER;
    return c->runs % 2 == SHIM_THEIRS ? SHIM_TURN : SHIM_OURS;
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
    c->state =
        c->median_s[SHIM_OURS_SIDE] < c->median_s[SHIM_THEIRS] ? SHIM_IS_OURS : SHIM_IS_THEIRS;
}
