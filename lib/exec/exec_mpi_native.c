/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls the MPI library's own collectives.  Independent of schedules. */
#include "exec/exec_mpi_native.h"

#include <inttypes.h>

#include "base/mem.h"
#include "world/world_mpi.h"

struct exec_native {
    struct world *world; /* borrowed */
    struct exec_native_spec spec;
    int elems, even;
    int *count, *at; /* [ranks] elements and offset of each block */
    MPI_Datatype type;
    MPI_Op op;
    int own; /* type and op were created here */
};

void exec_native_block(int64_t elems, int rank, int ranks, int64_t *lo, int64_t *hi)
{
    *lo = elems / ranks * rank + elems % ranks * rank / ranks;
    *hi = elems / ranks * (rank + 1) + elems % ranks * (rank + 1) / ranks;
}

/* MPI passes an operation only the datatype's handle, hence one function for each pair. */
#define OWN_OP(name, type, op)                                                                 \
    static void name(void *in, void *inout, int *n, MPI_Datatype *mpi_type)                    \
    {                                                                                          \
        (void)mpi_type;                                                                        \
        dtype_reduce(inout, inout, in, type, op, *n);                                          \
    }
OWN_OP(mpi_native_sum_bf16, DTYPE_BF16, DTYPE_SUM)
OWN_OP(mpi_native_max_bf16, DTYPE_BF16, DTYPE_MAX)
OWN_OP(mpi_native_min_bf16, DTYPE_BF16, DTYPE_MIN)
OWN_OP(mpi_native_sum_f16, DTYPE_F16, DTYPE_SUM)
OWN_OP(mpi_native_max_f16, DTYPE_F16, DTYPE_MAX)
OWN_OP(mpi_native_min_f16, DTYPE_F16, DTYPE_MIN)

int exec_native_open(struct exec_native **out, struct world *world,
                     const struct exec_native_spec *spec, struct err *err)
{
    static MPI_User_function *const of[2][DTYPE_OPS] = {
        {mpi_native_sum_bf16, mpi_native_max_bf16, mpi_native_min_bf16, mpi_native_sum_bf16},
        {mpi_native_sum_f16, mpi_native_max_f16, mpi_native_min_f16, mpi_native_sum_f16}};
    /* An average is computed as a sum, then scaled. */
    const MPI_Op ops[DTYPE_OPS] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_SUM};
    enum dtype type = spec->type;
    int64_t elems = spec->elems;

    if (elems > INT32_MAX)
        return err_set(err, ERR_INPUT,
                       "%" PRId64 " elements, expected at most %d: MPI counts with"
                       " an int",
                       elems, INT32_MAX);
    struct exec_native *n = mem_new(1, sizeof *n);
    n->world = world;
    n->spec = *spec;
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
    n->own = type == DTYPE_BF16 || type == DTYPE_F16;
    n->op = ops[spec->redop];
    n->type = type == DTYPE_F32   ? MPI_FLOAT
              : type == DTYPE_F64 ? MPI_DOUBLE
              : type == DTYPE_I32 ? MPI_INT32_T
                                  : MPI_UINT8_T;
    world_enter(world);
    if (n->own) {
        MPI_Type_contiguous(2, MPI_BYTE, &n->type);
        MPI_Type_commit(&n->type);
        MPI_Op_create(of[type == DTYPE_F16][spec->redop], 1, &n->op);
    }
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
        MPI_Op_free(&n->op);
        MPI_Type_free(&n->type);
    }
    world_leave(n->world);
    MEM_FREE(n->count, n->at, n);
}

static int mpi_native_run(struct exec_native *n, const void *in, void *out)
{
    MPI_Comm comm = n->world->mpi->data;
    int mine = n->count[n->world->rank], root = n->spec.root;
    /* MPI_Bcast has one buffer for both directions; the root's is only read. */
    void *one = root == n->world->rank ? (void *)(uintptr_t)in : out;

    switch (n->spec.op) {
    case EXEC_NATIVE_ALL_GATHER:
        return n->even ? MPI_Allgather(in, mine, n->type, out, mine, n->type, comm)
                       : MPI_Allgatherv(in, mine, n->type, out, n->count, n->at, n->type, comm);
    case EXEC_NATIVE_REDUCE_SCATTER:
        return n->even ? MPI_Reduce_scatter_block(in, out, mine, n->type, n->op, comm)
                       : MPI_Reduce_scatter(in, out, n->count, n->type, n->op, comm);
    case EXEC_NATIVE_BROADCAST:
        return MPI_Bcast(one, n->elems, n->type, root, comm);
    default:
        return MPI_Allreduce(in, out, n->elems, n->type, n->op, comm);
    }
}

int exec_native_run(struct exec_native *n, const void *in, void *out, struct err *err)
{
    enum exec_native_op op = n->spec.op;
    int reduces = op == EXEC_NATIVE_REDUCE_SCATTER || op == EXEC_NATIVE_ALL_REDUCE;

    world_enter(n->world);
    world_call_begin(n->world, "a collective of MPI's");
    int rc = mpi_native_run(n, in, out);
    world_call_end(n->world);
    world_leave(n->world);
    if (rc != MPI_SUCCESS)
        return err_set(err, ERR_PEER, "MPI reports error %d in a collective of its own", rc);
    if (reduces && n->spec.redop == DTYPE_AVG)
        dtype_scale(out, n->spec.type, n->world->ranks,
                    op == EXEC_NATIVE_ALL_REDUCE ? n->elems : n->count[n->world->rank]);
    return 0;
}

int exec_native_barrier(struct world *world, struct err *err)
{
    world_enter(world);
    world_call_begin(world, "MPI_Barrier");
    int rc = MPI_Barrier(world->mpi->all);
    world_call_end(world);
    world_leave(world);
    return rc == MPI_SUCCESS ? 0
                             : err_set(err, ERR_PEER, "MPI reports error %d in a barrier", rc);
}

void exec_native_library(char *text, int bytes)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0, used = 0;

    MPI_Get_library_version(all, &n);
    for (int i = 0; i < n && used < bytes - 1 && all[i] != ',' && all[i] != '\n'; i++) {
        int blank = all[i] <= ' ' || all[i] > '~' || all[i] == '"' || all[i] == '\\';
        if (!blank)
            text[used++] = all[i];
        else if (used && text[used - 1] != ' ')
            text[used++] = ' ';
    }
    text[used] = 0;
}
