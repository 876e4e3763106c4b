/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls NCCL's own collectives.  Independent of schedules. */
#include "exec/exec_nccl_native.h"

#include "exec/exec_nccl_inside.h"
#include "layout/layout.h"

struct exec_nccl_native {
    struct exec_nccl *x; /* borrowed */
    struct exec_native_spec spec;
    ncclComm_t all;
    ncclDataType_t type;
    ncclRedOp_t op;
    struct device_event *end;
    int is_two_level; /* the following members are set */
    struct layout layout;
    ncclComm_t inside; /* the ranks of this group */
    ncclComm_t *rail; /* [segments] the holders, one a group; NULL where this rank holds none */
};

/* Splits without blocking: waits for the parent until the split is done, then for the child. */
static int split(struct exec_nccl_native *n, int color, int key, ncclComm_t *out,
                 struct err *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t parent = n->x->track[0].comm;

    config.blocking = 0;
    ncclResult_t rc = ncclCommSplit(parent, color, key, out, &config);
    if (exec_nccl_drain(n->x, parent, rc, "ncclCommSplit", err, "for NCCL's own collectives"))
        return -1;
    return color == NCCL_SPLIT_NOCOLOR
               ? 0
               : exec_nccl_drain(n->x, *out, ncclSuccess, "ncclCommSplit", err,
                                 "for NCCL's own collectives");
}

static int make_levels(struct exec_nccl_native *n, const struct groups *groups, struct err *err)
{
    int me = n->x->rank, g = groups->count;

    n->is_two_level = 1;
    layout_init(&n->layout, groups);
    n->rail = mem_new((size_t)n->layout.segments, sizeof(ncclComm_t));
    if (split(n, groups->group_of[me], groups->local_of[me], &n->inside, err))
        return -1;
    for (int e = 0; e < n->layout.segments; e++) {
        int mine = n->layout.holder[e * g + groups->group_of[me]] == me;
        if (split(n, mine ? 0 : NCCL_SPLIT_NOCOLOR, groups->group_of[me], &n->rail[e], err))
            return -1;
    }
    return 0;
}

int exec_nccl_native_open(struct exec_nccl_native **out, struct exec_nccl *x,
                          const struct exec_native_spec *spec, const struct groups *groups,
                          struct err *err)
{
    static const ncclDataType_t types[DTYPE_COUNT] = {ncclFloat32, ncclBfloat16, ncclFloat16,
                                                      ncclFloat64, ncclInt32,    ncclUint8};
    static const ncclRedOp_t ops[DTYPE_OPS] = {ncclSum, ncclMax, ncclMin, ncclAvg};

    if (exec_nccl_check(x, err))
        return -1;
    if (groups && spec->op != EXEC_NATIVE_ALL_REDUCE)
        return err_set(err, ERR_INPUT, "NCCL in two levels does all-reduce alone");
    if (groups && spec->redop == DTYPE_AVG)
        return err_set(err, ERR_INPUT, "an average by NCCL in two levels, expected a sum");
    struct exec_nccl_native *n = mem_new(1, sizeof *n);
    n->x = x;
    n->spec = *spec;
    n->type = types[spec->type];
    n->op = ops[spec->redop];
    if (device_event_open(x->device, &n->end, err) || split(n, 0, x->rank, &n->all, err) ||
        (groups && make_levels(n, groups, err))) {
        exec_nccl_native_close(n);
        return -1;
    }
    *out = n;
    return 0;
}

void exec_nccl_native_close(struct exec_nccl_native *n)
{
    struct err ignored;

    if (!n)
        return;
    int rails = n->rail ? n->layout.segments : 0;
    ncclComm_t *all = mem_new((size_t)rails + 2, sizeof *all);
    for (int e = 0; e < rails; e++)
        all[e] = n->rail[e];
    all[rails] = n->inside;
    all[rails + 1] = n->all;
    for (int i = 0; i < rails + 2; i++) {
        if (n->x->failed || !all[i] ||
            exec_nccl_drain(n->x, all[i], ncclCommFinalize(all[i]), "ncclCommFinalize",
                            &ignored, "at the end"))
            continue;
        (void)ncclCommDestroy(all[i]);
        all[i] = NULL;
    }
    /* Those still set could not be finalized: aborts them together, since kernels of one wait
     * for another's. */
    exec_nccl_abort_all(all, rails + 2);
    mem_free(all);
    if (n->is_two_level)
        layout_release(&n->layout);
    mem_free(n->rail);
    device_event_close(n->end);
    mem_free(n);
}

/* Issues a call for each rank's block, in one group. */
static ncclResult_t by_blocks(struct exec_nccl_native *n, const char *in, char *out,
                              cudaStream_t stream)
{
    int64_t size = dtype_bytes(n->spec.type), lo, hi;
    ncclResult_t rc = ncclGroupStart(), end;

    for (int r = 0; rc == ncclSuccess && r < n->x->ranks; r++) {
        exec_native_block(n->spec.elems, r, n->x->ranks, &lo, &hi);
        size_t count = (size_t)(hi - lo);
        if (count == 0)
            continue;
        if (n->spec.op == EXEC_NATIVE_ALL_GATHER)
            rc = ncclBroadcast(in, out + lo * size, count, n->type, r, n->all, stream);
        else
            rc = ncclReduce(in + lo * size, out, count, n->type, n->op, r, n->all, stream);
    }
    end = ncclGroupEnd();
    return rc == ncclSuccess ? end : rc;
}

static ncclResult_t flat(struct exec_nccl_native *n, const void *in, void *out,
                         cudaStream_t stream)
{
    size_t elems = (size_t)n->spec.elems, each = elems / (size_t)n->x->ranks;
    int even = elems % (size_t)n->x->ranks == 0;

    switch (n->spec.op) {
    case EXEC_NATIVE_ALL_GATHER:
        return even ? ncclAllGather(in, out, each, n->type, n->all, stream)
                    : by_blocks(n, in, out, stream);
    case EXEC_NATIVE_REDUCE_SCATTER:
        return even ? ncclReduceScatter(in, out, each, n->type, n->op, n->all, stream)
                    : by_blocks(n, in, out, stream);
    case EXEC_NATIVE_BROADCAST:
        return ncclBroadcast(in, out, elems, n->type, n->spec.root, n->all, stream);
    default:
        return ncclAllReduce(in, out, elems, n->type, n->op, n->all, stream);
    }
}

/*
 * Inside the group: a reduction to, or a broadcast from, each member of its I shard, elements
 * elems j / m to elems (j + 1) / m: a union of segments of the layout.
 */
static ncclResult_t nccl_native_inside(struct exec_nccl_native *n, const char *in, char *out,
                                       int reduce, cudaStream_t stream)
{
    const struct groups *g = &n->layout.groups;
    int k = g->group_of[n->x->rank];
    int64_t m = g->members[k], size = dtype_bytes(n->spec.type);
    ncclResult_t rc = ncclGroupStart(), end;

    for (int j = 0; rc == ncclSuccess && j < m; j++) {
        int64_t lo = (int64_t)((__int128)n->spec.elems * j / m);
        size_t count = (size_t)((int64_t)((__int128)n->spec.elems * (j + 1) / m) - lo);
        if (count == 0)
            continue;
        if (reduce)
            rc = ncclReduce(in + lo * size, out + lo * size, count, n->type, n->op, j,
                            n->inside, stream);
        else
            rc = ncclBroadcast(out + lo * size, out + lo * size, count, n->type, j, n->inside,
                               stream);
    }
    end = ncclGroupEnd();
    return rc == ncclSuccess ? end : rc;
}

static int nccl_native_drain(struct exec_nccl_native *n, ncclComm_t comm, ncclResult_t rc,
                             const char *call, struct err *err)
{
    return exec_nccl_drain(n->x, comm, rc, call, err, "of NCCL's own collectives");
}

static int two_levels(struct exec_nccl_native *n, const char *in, char *out,
                      cudaStream_t stream, struct err *err)
{
    const struct layout *l = &n->layout;
    int64_t size = dtype_bytes(n->spec.type);

    if (nccl_native_drain(n, n->inside, nccl_native_inside(n, in, out, 1, stream), "ncclReduce",
                          err))
        return -1;
    for (int e = 0; e < l->segments; e++) {
        int64_t lo = layout_cut(l, n->spec.elems, e, 0, 1);
        int64_t hi = layout_cut(l, n->spec.elems, e, l->groups.count, 1);
        char *at = out + lo * size;
        if (!n->rail[e] || hi == lo)
            continue;
        ncclResult_t rc =
            ncclAllReduce(at, at, (size_t)(hi - lo), n->type, n->op, n->rail[e], stream);
        if (nccl_native_drain(n, n->rail[e], rc, "ncclAllReduce", err))
            return -1;
    }
    return nccl_native_drain(n, n->inside, nccl_native_inside(n, out, out, 0, stream),
                             "ncclBroadcast", err);
}

int exec_nccl_native_run(struct exec_nccl_native *n, const void *in, void *out, struct err *err)
{
    struct exec_nccl *x = n->x;
    cudaStream_t stream = device_stream(x->door);

    if (exec_nccl_check(x, err))
        return -1;
    if (n->is_two_level) {
        if (two_levels(n, in, out, stream, err))
            return -1;
    } else if (nccl_native_drain(n, n->all, flat(n, in, out, stream), "a collective", err)) {
        return -1;
    }
    device_record(x->door, n->end);
    return exec_nccl_wait(x, n->end, "NCCL's own collectives", err);
}
