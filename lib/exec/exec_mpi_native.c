/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how the MPI library's own collectives are called, and nothing of schedules. */
#include "exec/exec_mpi_native.h"

#include <inttypes.h>

#include "base/mem.h"
#include "world/world_mpi.h"

struct exec_native {
    struct world *world; /* borrowed */
    enum exec_native_op op;
    int elems, even;
    int *count, *at; /* [ranks] */
    MPI_Datatype type;
    MPI_Op sum;
    int own; /* type and sum are made here */
};

void exec_native_block(int64_t elems, int rank, int ranks, int64_t *lo, int64_t *hi)
{
    *lo = elems / ranks * rank + elems % ranks * rank / ranks;
    *hi = elems / ranks * (rank + 1) + elems % ranks * (rank + 1) / ranks;
}

/* The signatures are MPI's. */
static void sum_bf16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    dtype_reduce(inout, inout, in, DTYPE_BF16, DTYPE_SUM, *n);
}

static void sum_f16(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    dtype_reduce(inout, inout, in, DTYPE_F16, DTYPE_SUM, *n);
}

static void choose_type(struct exec_native *n, enum dtype type)
{
    n->sum = MPI_SUM;
    switch (type) {
    case DTYPE_F32:
        n->type = MPI_FLOAT;
        return;
    case DTYPE_F64:
        n->type = MPI_DOUBLE;
        return;
    case DTYPE_I32:
        n->type = MPI_INT32_T;
        return;
    case DTYPE_BF16:
    case DTYPE_F16:
        n->own = 1;
        MPI_Type_contiguous(2, MPI_BYTE, &n->type);
        MPI_Type_commit(&n->type);
        MPI_Op_create(type == DTYPE_BF16 ? sum_bf16 : sum_f16, 1, &n->sum);
        return;
    default:
        n->type = MPI_UINT8_T;
    }
}

int exec_native_open(struct exec_native **out, struct world *world, enum exec_native_op op,
                     int64_t elems, enum dtype type, struct err *err)
{
    if (elems > INT32_MAX)
        return err_set(err, ERR_INPUT,
                       "%" PRId64 " elements, expected at most %d: MPI counts with"
                       " an int",
                       elems, INT32_MAX);
    struct exec_native *n = mem_new(1, sizeof *n);
    n->world = world;
    n->op = op;
    n->elems = (int)elems;
    n->even = elems % world->ranks == 0;
    n->count = mem_new((size_t)world->ranks, sizeof(int));
    n->at = mem_new((size_t)world->ranks, sizeof(int));
    for (int r = 0; r < world->ranks; r++) {
        int64_t lo, hi;
        exec_native_block(elems, r, world->ranks, &lo, &hi);
        n->at[r] = (int)lo;
        n->count[r] = (int)(hi - lo);
    }
    world_enter(world);
    choose_type(n, type);
    world_leave(world);
    *out = n;
    return 0;
}

void exec_native_close(struct exec_native *n)
{
    if (!n)
        return;
    world_enter(n->world);
    if (n->own) {
        MPI_Op_free(&n->sum);
        MPI_Type_free(&n->type);
    }
    world_leave(n->world);
    mem_free(n->count);
    mem_free(n->at);
    mem_free(n);
}

static int run(struct exec_native *n, const void *in, void *out)
{
    MPI_Comm comm = n->world->mpi->data;
    int mine = n->count[n->world->rank];

    switch (n->op) {
    case EXEC_NATIVE_ALL_GATHER:
        return n->even ? MPI_Allgather(in, mine, n->type, out, mine, n->type, comm)
                       : MPI_Allgatherv(in, mine, n->type, out, n->count, n->at, n->type, comm);
    case EXEC_NATIVE_REDUCE_SCATTER:
        return n->even ? MPI_Reduce_scatter_block(in, out, mine, n->type, n->sum, comm)
                       : MPI_Reduce_scatter(in, out, n->count, n->type, n->sum, comm);
    default:
        return MPI_Allreduce(in, out, n->elems, n->type, n->sum, comm);
    }
}

int exec_native_run(struct exec_native *n, const void *in, void *out, struct err *err)
{
    world_enter(n->world);
    int rc = run(n, in, out);
    world_leave(n->world);
    if (rc != MPI_SUCCESS)
        return err_set(err, ERR_PEER, "MPI reports error %d in a collective of its own", rc);
    return 0;
}

int exec_native_barrier(struct world *world, struct err *err)
{
    world_enter(world);
    int rc = MPI_Barrier(world->mpi->all);
    world_leave(world);
    return rc == MPI_SUCCESS ? 0
                             : err_set(err, ERR_PEER, "MPI reports error %d in a barrier", rc);
}
