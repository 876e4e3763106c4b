/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded ahead of libparo-mpi.so: makes one rank of an MPI program go wrong at its sums.
 *
 *     WATCH_FAULT="RANK EVERY US"    it stands still for US before every EVERY-th MPI_Allreduce
 *     WATCH_FAULT="RANK EVERY 0"     once, at the EVERY-th, it calls MPI_Barrier first
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    static int (*next)(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
    static int (*barrier)(MPI_Comm);
    static int who = -1, every, us, calls, rank;
    const char *fault = getenv("WATCH_FAULT");

    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "MPI_Allreduce");
        *(void **)&barrier = dlsym(RTLD_NEXT, "MPI_Barrier");
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (fault && sscanf(fault, "%d %d %d", &who, &every, &us) != 3)
            abort();
    }
    calls++;
    if (rank == who && us && calls % every == 0)
        usleep((useconds_t)us);
    else if (rank == who && !us && calls == every)
        barrier(comm);
    return next(in, out, count, type, op, comm);
}
