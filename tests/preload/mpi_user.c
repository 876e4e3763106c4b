/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_user [-s SEED] [-n ROUNDS] [-m MAXBYTES] [-1] [-f] [-q] [quick]: see mpi_user.h.  Prints
 * a line of each mismatch, three for each call on each rank at most, and "ok: N calls" or
 * "wrong: N of M calls"; rank 0's status is 1 if anything was wrong.  -1 asks MPI for one
 * thread, quick is one round of few bytes.
 *
 *     mpicc -std=c11 -D_GNU_SOURCE -o mpi_user tests/preload/mpi_user*.c -lm -lpthread
 */
#include "mpi_user.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    uint64_t seed;
    int rounds;
    int64_t bytes_max;
    bool quiet, single, first;
};

static int options_read(struct options *o, int argc, char **argv)
{
    int k;

    *o = (struct options){.seed = 1, .rounds = 3, .bytes_max = 4 << 20};
    while ((k = getopt(argc, argv, "s:n:m:1fq")) != -1)
        switch (k) {
        case 's':
            o->seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            o->rounds = atoi(optarg);
            break;
        case 'm':
            o->bytes_max = atoll(optarg);
            break;
        case '1':
            o->single = true;
            break;
        case 'f':
            o->first = true;
            break;
        case 'q':
            o->quiet = true;
            break;
        default:
            return -1;
        }
    if (optind < argc && strcmp(argv[optind], "quick") == 0) {
        o->rounds = 1;
        o->bytes_max = 1 << 18;
        optind++;
    }
    return optind < argc || o->rounds < 1 || o->bytes_max < 1 << 12 ? -1 : 0;
}

/* Whether to go on: all ranks alike. */
static bool goes_on(const struct user *u, const struct options *o)
{
    int64_t wrong = 0;

    if (o->first)
        PMPI_Allreduce(&u->wrong, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return wrong == 0;
}

static bool round_of(struct user *u, const struct options *o, bool threads, uint64_t seed)
{
    void (*parts[])(struct user *, const struct comm *, int) = {
        part_types, part_comms, part_large, part_repeated, scene_flight, scene_errors};
    struct comm all[16];
    int n = comms_init(all, seed);
    bool on = true;

    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && on; i++) {
        parts[i](u, all, n);
        on = goes_on(u, o);
    }
    if (threads && on)
        scene_threads(u);
    comms_release(all, n);
    return on && goes_on(u, o);
}

static void all_parts(struct user *u, const struct options *o, bool threads)
{
    bool on = true;

    for (int i = 0; i < o->rounds && on; i++)
        on = round_of(u, o, threads, o->seed + (uint64_t)i);
    if (on)
        scene_churn(u, 60 + 40 * (o->rounds - 1), o->quiet);
}

int main(int argc, char **argv)
{
    struct options o;
    struct types types;
    struct user u = {.types = &types};
    int given = MPI_THREAD_SINGLE, ranks;

    if (options_read(&o, argc, argv)) {
        fprintf(stderr,
                "Usage: mpi_user [-s SEED] [-n ROUNDS] [-m MAXBYTES] [-1] [-f] [-q] [quick]\n");
        return 2;
    }
    if (o.single)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &u.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > RANKS_MAX) {
        fprintf(stderr, "mpi_user: %d ranks, at most %d\n", ranks, RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    u.seed = mix(o.seed);
    u.bytes_max = o.bytes_max;
    types_init(&types);
    all_parts(&u, &o, given == MPI_THREAD_MULTIPLE);
    if (u.rank == 0 && !o.quiet && given == MPI_THREAD_MULTIPLE)
        printf("two threads at a time, too\n");
    scene_end(&u);
    MPI_Finalize();
    if (u.rank == 0 && u.wrong)
        printf("wrong: %lld of %lld calls\n", (long long)u.wrong, (long long)u.calls);
    else if (u.rank == 0 && !o.quiet)
        printf("ok: %lld calls, %lld refused by the library on rank 0\n", (long long)u.calls,
               (long long)u.refused);
    return u.rank == 0 && u.wrong;
}
