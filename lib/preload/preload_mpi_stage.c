/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes a call's data, and copies the program's data to contiguous bytes and back.  Copies
 * count bytes, since ranks of one broadcast may use different types of equal size.  Reductions
 * count elements of their type, which is equal on all ranks.
 */
#include <string.h>

#include "base/fnv.h"
#include "schedule/schedule.h"
#include "preload/preload_mpi_plan.h"

static int has_counts(const struct preload_mpi_call *c)
{
    return c->form == PRELOAD_ALLGATHERV || c->form == PRELOAD_REDUCE_SCATTER;
}

static int gathers(const struct preload_mpi_call *c)
{
    return c->form == PRELOAD_ALLGATHER || c->form == PRELOAD_ALLGATHERV;
}

static int is_blocks(const struct preload_mpi_call *c)
{
    return c->form != PRELOAD_ALLREDUCE && c->form != PRELOAD_BCAST;
}

/* Whether MPI may reject the call, as far as one rank can see. */
static int is_odd(const struct preload_mpi_call *c, int ranks)
{
    if (c->out == MPI_IN_PLACE || (gathers(c) && c->in != MPI_IN_PLACE &&
                                   (c->in_count < 0 || c->in_type == MPI_DATATYPE_NULL)))
        return 1;
    if (c->form == PRELOAD_BCAST)
        return c->root < 0 || c->root >= ranks;
    if (c->form == PRELOAD_ALLGATHERV && !c->displs)
        return 1;
    return !gathers(c) && c->op == MPI_OP_NULL;
}

/* Elements of the program's type in the whole vector; -1: MPI will reject the call. */
static int64_t count_of(const struct preload_mpi_call *c, int ranks)
{
    int64_t sum = 0;

    if (!has_counts(c))
        return c->count < 0 ? -1 : (int64_t)c->count * (is_blocks(c) ? ranks : 1);
    if (!c->counts)
        return -1;
    for (int r = 0; r < ranks; r++) {
        if (c->counts[r] < 0)
            return -1;
        sum += c->counts[r];
    }
    return sum;
}

int64_t preload_mpi_size(const struct preload_mpi_call *c, int *ranks,
                         enum preload_mpi_why *why)
{
    MPI_Count bytes = 0;
    int inter = 0;

    *why = PRELOAD_ARGUMENTS;
    *ranks = 0;
    if (c->comm == MPI_COMM_NULL || c->type == MPI_DATATYPE_NULL ||
        PMPI_Comm_size(c->comm, ranks) != MPI_SUCCESS)
        return 0;
    if (PMPI_Comm_test_inter(c->comm, &inter) != MPI_SUCCESS || inter) {
        *why = PRELOAD_INTER;
        return 0;
    }
    int64_t count = count_of(c, *ranks);
    if (count < 0 || is_odd(c, *ranks) || PMPI_Type_size_x(c->type, &bytes) != MPI_SUCCESS)
        return 0;
    *why = *ranks < 2 ? PRELOAD_ALONE : count == 0 || bytes == 0 ? PRELOAD_EMPTY : PRELOAD_OURS;
    return count * (int64_t)bytes;
}

/* Hashes whole numbers, since this runs in every call. */
static void mpi_stage_hash(struct preload_mpi_shape *s, int ranks)
{
    uint64_t h = fnv_mix(FNV_BASIS, s->phases);

    h = fnv_mix(fnv_mix(h, (uint64_t)s->kind), (uint64_t)s->elem_bytes);
    h = fnv_mix(h, (uint64_t)s->elems);
    for (int r = 0; s->each && r < ranks; r++)
        h = fnv_mix(h, (uint64_t)s->each[r]);
    s->mark = h;
    s->hash = fnv_mix(h, (uint64_t)s->root);
}

/* Sets the elements of each block, and whether all blocks are equal. */
static void mpi_stage_cut(const struct preload_mpi_call *c, int ranks, int64_t scale,
                          int64_t *each, struct preload_mpi_shape *s)
{
    int same = 1;

    for (int r = 0; r < ranks; r++) {
        each[r] = (has_counts(c) ? c->counts[r] : c->count) * scale;
        same &= each[r] == each[0];
    }
    s->elems = same ? each[0] : 0;
    s->each = same ? NULL : each;
}

static int is_large(const struct preload_mpi_call *c, const struct preload_mpi_shape *s,
                    int ranks, const int64_t *each)
{
    int64_t most = is_blocks(c) ? 0 : s->elems;

    for (int r = 0; is_blocks(c) && r < ranks; r++)
        most = each[r] > most ? each[r] : most;
    return most > INT32_MAX;
}

enum preload_mpi_why preload_mpi_shape(const struct preload_mpi_call *c, int ranks,
                                       int64_t bytes, int64_t *each,
                                       struct preload_mpi_shape *out)
{
    static const unsigned phases[] = {
        [PRELOAD_ALLGATHER] = SCHEDULE_ALL_GATHER,
        [PRELOAD_ALLGATHERV] = SCHEDULE_ALL_GATHER,
        [PRELOAD_REDUCE_SCATTER] = SCHEDULE_REDUCE_SCATTER,
        [PRELOAD_REDUCE_SCATTER_BLOCK] = SCHEDULE_REDUCE_SCATTER,
        [PRELOAD_ALLREDUCE] = SCHEDULE_ALL_REDUCE,
        [PRELOAD_BCAST] = SCHEDULE_BROADCAST,
    };
    struct preload_mpi_shape s = {.phases = phases[c->form], .elem_bytes = 1, .bytes = bytes};
    int copies = gathers(c) || c->form == PRELOAD_BCAST;
    struct paro_combine combine;
    MPI_Count scale = 1;

    if (c->form == PRELOAD_BCAST)
        s.root = c->root;
    if (!copies && paro_combine_init(&combine, c->type, c->op))
        return PRELOAD_REDUCTION;
    if (copies) {
        PMPI_Type_size_x(c->type, &scale);
    } else {
        s.kind = combine.kind;
        s.elem_bytes = combine.elem_bytes;
    }
    if (is_blocks(c))
        mpi_stage_cut(c, ranks, scale, each, &s);
    else
        s.elems = c->count * scale;
    /* MPI_Pack counts in int, and for larger data a few microseconds do not matter. */
    if (copies && is_large(c, &s, ranks, each))
        return PRELOAD_LARGE;
    mpi_stage_hash(&s, ranks);
    *out = s;
    return PRELOAD_OURS;
}

/* Whether the type is contiguous: its bytes are its data. */
static int mpi_stage_is_plain(MPI_Datatype type, int64_t bytes, MPI_Aint extent)
{
    int ints, addresses, types, combiner = 0;

    return extent == bytes &&
           PMPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner) == MPI_SUCCESS &&
           combiner == MPI_COMBINER_NAMED;
}

/* Copies `count` elements between the program's memory and ours, unless they are the same. */
static int mpi_stage_copy(const struct preload_mpi_ends *e, int out, char *theirs, char *ours,
                          int64_t count, MPI_Datatype type)
{
    MPI_Aint low = 0, extent = 0;
    MPI_Count size = 0;
    int rc = PMPI_Type_size_x(type, &size);

    if (count == 0 || size == 0 || rc != MPI_SUCCESS)
        return rc;
    PMPI_Type_get_extent(type, &low, &extent);
    if (!e->packs && mpi_stage_is_plain(type, size, extent)) {
        if (theirs != ours)
            memcpy(out ? theirs : ours, out ? ours : theirs, (size_t)(count * size));
        return MPI_SUCCESS;
    }
    int64_t most = size < 1 << 30 ? (1 << 30) / size : 1;
    for (int64_t i = 0; i < count && rc == MPI_SUCCESS; i += most) {
        int n = (int)(count - i < most ? count - i : most), at = 0;
        char *there = theirs + i * extent, *here = ours + i * size;
        rc = out ? PMPI_Unpack(here, (int)(n * size), &at, there, n, type, e->comm)
                 : PMPI_Pack(there, n, type, here, (int)(n * size), &at, e->comm);
    }
    return rc;
}

/* The offset of a rank's block of an all-gather in the program's buffer, in elements. */
static int64_t mpi_stage_block_at(const struct preload_mpi_call *c, int rank)
{
    return c->displs ? c->displs[rank] : (int64_t)rank * c->count;
}

static int block_count(const struct preload_mpi_call *c, int rank)
{
    return c->counts ? c->counts[rank] : c->count;
}

static char *mpi_stage_block_of(const struct preload_mpi_call *c, int rank)
{
    MPI_Aint low, extent = 0;

    PMPI_Type_get_extent(c->type, &low, &extent);
    return (char *)c->out + mpi_stage_block_at(c, rank) * extent;
}

int preload_mpi_stage_in(const struct preload_mpi_call *c, const struct preload_mpi_ends *e)
{
    const void *from = c->in == MPI_IN_PLACE ? c->out : c->in;

    if (gathers(c)) {
        /* A block longer than the other ranks expect would be truncated silently. */
        MPI_Count given = 0, size = 0;

        if (c->in == MPI_IN_PLACE)
            return mpi_stage_copy(e, 0, mpi_stage_block_of(c, e->rank), e->in,
                                  block_count(c, e->rank), c->type);
        PMPI_Type_size_x(c->in_type, &given);
        PMPI_Type_size_x(c->type, &size);
        if (c->in_count * given > block_count(c, e->rank) * size)
            return MPI_ERR_TRUNCATE;
        return mpi_stage_copy(e, 0, (char *)(uintptr_t)c->in, e->in, c->in_count, c->in_type);
    }
    if (c->form == PRELOAD_BCAST)
        return e->rank == c->root ? mpi_stage_copy(e, 0, c->out, e->in, c->count, c->type)
                                  : MPI_SUCCESS;
    return mpi_stage_copy(e, 0, (char *)(uintptr_t)from, e->in, count_of(c, e->ranks), c->type);
}

int preload_mpi_stage_out(const struct preload_mpi_call *c, const struct preload_mpi_ends *e)
{
    if (gathers(c)) {
        /* Contiguous blocks are copied as one. */
        MPI_Count size = 0;
        char *at = e->out;
        int rc = MPI_SUCCESS;

        PMPI_Type_size_x(c->type, &size);
        for (int r = 0, next; r < e->ranks && rc == MPI_SUCCESS; r = next) {
            int64_t count = block_count(c, r);
            for (next = r + 1; next < e->ranks &&
                               mpi_stage_block_at(c, next) == mpi_stage_block_at(c, r) + count;
                 next++)
                count += block_count(c, next);
            rc = mpi_stage_copy(e, 1, mpi_stage_block_of(c, r), at, count, c->type);
            at += count * size;
        }
        return rc;
    }
    if (c->form == PRELOAD_BCAST && e->rank == c->root)
        return MPI_SUCCESS;
    return mpi_stage_copy(e, 1, c->out, e->out, has_counts(c) ? c->counts[e->rank] : c->count,
                          c->type);
}

static int lies_plain(MPI_Datatype type)
{
    MPI_Aint low = 0, extent = 0;
    MPI_Count size = 0;

    return PMPI_Type_size_x(type, &size) == MPI_SUCCESS &&
           PMPI_Type_get_extent(type, &low, &extent) == MPI_SUCCESS &&
           mpi_stage_is_plain(type, size, extent);
}

/* Whether all blocks of an all-gather are contiguous. */
static int lies_dense(const struct preload_mpi_call *c, int ranks)
{
    int r = 1;

    while (r < ranks &&
           mpi_stage_block_at(c, r) == mpi_stage_block_at(c, r - 1) + block_count(c, r - 1))
        r++;
    return r == ranks;
}

void preload_mpi_stage_place(const struct preload_mpi_call *c, struct preload_mpi_ends *e)
{
    int in_place = c->in == MPI_IN_PLACE;

    if (gathers(c)) {
        MPI_Count given = 0, size = 0;

        if (in_place && lies_plain(c->type)) {
            e->in = mpi_stage_block_of(c, e->rank);
        } else if (!in_place && lies_plain(c->in_type)) {
            PMPI_Type_size_x(c->in_type, &given);
            PMPI_Type_size_x(c->type, &size);
            if (c->in_count * given == block_count(c, e->rank) * size)
                e->in = (void *)(uintptr_t)c->in;
        }
        if (lies_plain(c->type) && lies_dense(c, e->ranks))
            e->out = mpi_stage_block_of(c, 0);
        return;
    }
    if (!lies_plain(c->type))
        return;
    e->out = c->out;
    if (c->form == PRELOAD_BCAST || (in_place && c->form == PRELOAD_ALLREDUCE))
        e->in = c->out;
    else if (!in_place)
        e->in = (void *)(uintptr_t)c->in;
}
