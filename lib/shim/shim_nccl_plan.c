/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a collective of NCCL's lies in the chunks of a schedule.  NCCL's blocks are in rank
 * order; a chunk (segment e, part of group k) belongs to the rank that holds e in k, and is
 * found in that rank's block.  [2,1], three segments, block 1 of rank 1 = its I shard's:
 *
 *     segments of rank j of a group of m lie in [j/m, (j+1)/m) of the layout's unit line;
 *     the same stretch, from 0 to count, is its block
 */
#include "base/mem.h"
#include "layout/layout.h"
#include "pick/pick.h"
#include "shim/shim_nccl.h"

/*
 * A group of sends and receives is begun in about 10 us, in which a port of 50 GB/s moves 512
 * KiB: chunks of less than twice that would leave the port waiting for the host.
 */
enum { CHUNK_LEAST = 1 << 20 };

/*
 * What goes into the queues of a GPU at once (EXEC_AHEAD): a call of more turns would wait for
 * the GPU, and a program may not expect that of a call to NCCL.  A rank has no more turns than
 * the vector has chunks, but for those of one part, which it begins or ends with; in an
 * all-reduce, twice as many.
 */
enum { TURNS_MOST = 128 };

static int fewer(int subchunks, const struct layout *l, int both_ways)
{
    int parts = l->segments * l->groups.count;
    int most = TURNS_MOST / ((parts - 1) * (1 + both_ways));

    return subchunks < most ? subchunks : most > 1 ? most : 1;
}

int shim_plan_type(const struct shim_call *call, enum dtype *type, enum dtype_op *op,
                   int64_t *elems)
{
    static const int bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2}; /* by ncclDataType_t */
    static const enum dtype_op ops[] = {DTYPE_SUM, DTYPE_OPS, DTYPE_MAX, DTYPE_MIN, DTYPE_AVG};
    int known = (int)call->type < (int)(sizeof bytes / sizeof *bytes);

    *op = DTYPE_SUM;
    *elems = (int64_t)call->count;
    if (call->phases == SCHEDULE_ALL_GATHER) {
        *type = DTYPE_U8;
        *elems *= known ? bytes[call->type] : 0;
        return known ? 0 : -1;
    }
    if ((int)call->op < 0 || (int)call->op > ncclAvg || call->op == ncclProd)
        return -1;
    *op = ops[call->op];
    switch (call->type) {
    case ncclFloat32:
        *type = DTYPE_F32;
        return 0;
    case ncclBfloat16:
        *type = DTYPE_BF16;
        return 0;
    case ncclFloat16:
        *type = DTYPE_F16;
        return 0;
    case ncclFloat64:
        *type = DTYPE_F64;
        return 0;
    case ncclInt32:
        *type = DTYPE_I32;
        return 0;
    case ncclUint8:
        *type = DTYPE_U8;
        return 0;
    default:
        return -1;
    }
}

int64_t shim_plan_bytes(const struct shim_call *call, int ranks)
{
    enum dtype type;
    enum dtype_op op;
    int64_t elems;

    if (shim_plan_type(call, &type, &op, &elems))
        return 0;
    return elems * dtype_bytes(type) * (call->phases == SCHEDULE_ALL_REDUCE ? 1 : ranks);
}

/* Where in its holder's block, of count elements, segment e begins. */
static int64_t in_block(const struct layout *l, int64_t count, int e, int rank)
{
    const struct groups *g = &l->groups;
    __int128 m = g->members[g->group_of[rank]], j = g->local_of[rank];

    return (int64_t)(count * (l->cut_num[e] * m - j * l->cut_den[e]) / l->cut_den[e]);
}

static void place(const struct shim_call *call, const struct layout *l, int me, int64_t count,
                  int subchunks, struct exec_places *out)
{
    int g = l->groups.count, whole = call->phases == SCHEDULE_ALL_REDUCE;
    int gathers = call->phases == SCHEDULE_ALL_GATHER;

    for (int at = 0; at < l->segments * g * subchunks; at++) {
        int e = at / subchunks / g, k = at / subchunks % g, c = at % subchunks;
        int owner = l->holder[e * g + k];
        int64_t lo = whole ? layout_cut(l, count, e, k, 1) : in_block(l, count, e, owner);
        int64_t hi =
            whole ? layout_cut(l, count, e, k + 1, 1) : in_block(l, count, e + 1, owner);
        int64_t first = lo + (hi - lo) * c / subchunks;
        int64_t block = owner == me ? first : -1, vector = owner * count + first;
        out->elems[at] = lo + (hi - lo) * (c + 1) / subchunks - first;
        out->in_at[at] = whole ? first : gathers ? block : vector;
        out->out_at[at] = whole ? first : gathers ? vector : block;
    }
}

int shim_plan_rows(const struct shim_call *call, const struct groups *groups, int rank,
                   const struct pick_rule *rule, struct exec_rows *out, struct err *err)
{
    int64_t chunk = rule->chunk_bytes > CHUNK_LEAST ? rule->chunk_bytes : CHUNK_LEAST, count;
    struct exec_places places = {0};
    struct layout l = {0};
    struct schedule s;
    enum dtype type = DTYPE_U8;
    enum dtype_op op = DTYPE_SUM;

    if (shim_plan_type(call, &type, &op, &count))
        return err_set(err, ERR_INPUT, "a type or an operation that has no plan");
    layout_init(&l, groups);
    int whole = call->phases == SCHEDULE_ALL_REDUCE;
    int subchunks = pick_subchunks(&l, whole, whole ? count : count * groups->ranks,
                                   dtype_bytes(type), chunk);
    subchunks = fewer(subchunks, &l, whole);
    struct schedule_spec spec = {.algo = rule->algo,
                                 .phases = call->phases,
                                 .groups = &l.groups,
                                 .segments = l.segments,
                                 .holder = l.holder,
                                 .subchunks = subchunks};
    int rc = schedule_gen(&spec, rank, &s, err);
    if (rc == 0) {
        exec_places_init(&places, l.segments * groups->count * subchunks, type);
        places.redop = op;
        place(call, &l, rank, count, subchunks, &places);
        rc = exec_rows_init(out, &s, rank, &places, err);
        exec_places_release(&places);
        schedule_release(&s);
    }
    layout_release(&l);
    return rc;
}
