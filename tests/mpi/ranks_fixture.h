/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_MPI_RANKS_FIXTURE_H
#define TESTS_MPI_RANKS_FIXTURE_H

/*
 * Reports what several ranks find: rank 0 prints it for all, in TAP; a rank that cannot
 * continue ends them all.
 */
#include <mpi.h>

#include "world/world.h"
#include "../unit/plain_fixture.h"

struct ranks_tap {
    struct world *world;
    int tests, bad;
};

static inline void must(const struct ranks_tap *tap, int rc)
{
    if (rc == 0)
        return;
    printf("Bail out! rank %d: %s\n", tap->world->rank, err.text);
    fflush(stdout);
    world_abort(tap->world, 2);
}

/* Without TAP: what is not so ends all ranks, with status 1. */
static inline void expect(struct world *w, int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "rank %d: %s (%s)\n", w->rank, what, err.text);
    fflush(stderr);
    world_abort(w, 1);
}

/* Collective, also in a world that has failed.  Nobody found anything wrong. */
static inline void tell(struct ranks_tap *tap, int64_t wrong, const char *what)
{
    int64_t sum = 0;

    MPI_Allreduce(&wrong, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    tap->tests++;
    tap->bad += sum != 0;
    if (tap->world->rank == 0)
        printf("%sok %d - %s\n", sum ? "not " : "", tap->tests, what);
    fflush(stdout);
}

/* Ranks that share a GPU talk over sockets, as if each had a host of its own. */
static inline void stand_apart(const struct ranks_tap *tap)
{
    char id[32];

    snprintf(id, sizeof id, "paro-%d", tap->world->rank);
    setenv("NCCL_HOSTID", id, 0);
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

static inline void tell_count(const struct ranks_tap *tap)
{
    if (tap->world->rank == 0)
        printf("1..%d\n", tap->tests);
}

#endif
