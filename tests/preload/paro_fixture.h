/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_FIXTURE_H
#define PARO_FIXTURE_H

/* What the programs have in common that know libparo by its installed header alone.  Their
 * first arguments are options: groups=2x2 topology=FILE tuning=FILE meter=DIR. */
#include <mpi.h>
#include <paro.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, ranks, failures, checks;

static inline void expect(int good, const char *fmt, ...)
{
    va_list ap;

    checks++;
    if (good || failures++ > 5)
        return;
    va_start(ap, fmt);
    fprintf(stderr, "rank %d: ", me);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

/* An abort ends the other ranks: those that fail too have their lines printed before it. */
static inline void must(int rc, const struct paro_error *err)
{
    if (rc == 0)
        return;
    double until = MPI_Wtime() + 2;
    MPI_Request all;
    fprintf(stderr, "rank %d: error %d: %s\n", me, err->code, err->text);
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int met = 0; !met && MPI_Wtime() < until;)
        MPI_Test(&all, &met, MPI_STATUS_IGNORE);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static inline struct paro_options read_options(int argc, char **argv)
{
    struct paro_options o = {.bytes = sizeof o};

    for (int i = 1; i < argc; i++) {
        const char *is = strchr(argv[i], '=');
        if (strncmp(argv[i], "groups=", 7) == 0)
            o.groups = is + 1;
        else if (strncmp(argv[i], "topology=", 9) == 0)
            o.topology = is + 1;
        else if (strncmp(argv[i], "tuning=", 7) == 0)
            o.tuning = is + 1;
        else if (strncmp(argv[i], "meter=", 6) == 0)
            o.meter = is + 1;
    }
    return o;
}

/* "ok N" of rank 0 when all ranks are content; the status. */
static inline int finish(void)
{
    int all = 0;

    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (all == 0 && me == 0)
        printf("ok %d\n", checks);
    MPI_Finalize();
    return all ? 1 : 0;
}

#endif
