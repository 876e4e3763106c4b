/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares an NCCL collective with coll/coll_vector.h. */
#include "base/mem.h"
#include "coll/coll_vector.h"
#include "preload/preload_nccl.h"

/*
 * Starting a group of sends and receives takes about 10 us, in which a port of 50 GB/s
 * transfers 512 KiB.  With chunks below twice that the port would wait for the host.
 */
enum { CHUNK_LEAST = 1 << 20 };

/*
 * The number of turns (exec/exec_turns.h) that fits into a GPU's queues (EXEC_AHEAD).  A longer
 * call would wait for the GPU, which programs do not expect of an NCCL call.
 */
enum { TURNS_MOST = 128 };

int preload_plan_type(const struct preload_call *call, enum dtype *type, enum dtype_op *op,
                      int64_t *elems)
{
    static const struct {
        int bytes, reduces;
        enum dtype type;
    } types[] = {[ncclInt8] = {1},
                 [ncclUint8] = {1, 1, DTYPE_U8},
                 [ncclInt32] = {4, 1, DTYPE_I32},
                 [ncclUint32] = {4},
                 [ncclInt64] = {8},
                 [ncclUint64] = {8},
                 [ncclFloat16] = {2, 1, DTYPE_F16},
                 [ncclFloat32] = {4, 1, DTYPE_F32},
                 [ncclFloat64] = {8, 1, DTYPE_F64},
                 [ncclBfloat16] = {2, 1, DTYPE_BF16}};
    static const enum dtype_op ops[] = {DTYPE_SUM, DTYPE_OPS, DTYPE_MAX, DTYPE_MIN, DTYPE_AVG};
    int known = (unsigned)call->type < sizeof types / sizeof *types;

    *op = DTYPE_SUM;
    *elems = (int64_t)call->count;
    if (call->phases == SCHEDULE_ALL_GATHER) {
        *type = DTYPE_U8;
        *elems *= known ? types[call->type].bytes : 0;
        return known ? 0 : -1;
    }
    if ((unsigned)call->op > ncclAvg || call->op == ncclProd || !known)
        return -1;
    *op = ops[call->op];
    *type = types[call->type].type;
    return types[call->type].reduces ? 0 : -1;
}

int64_t preload_plan_bytes(const struct preload_call *call, int ranks)
{
    enum dtype type;
    enum dtype_op op;
    int64_t elems;

    if (preload_plan_type(call, &type, &op, &elems))
        return 0;
    return elems * dtype_bytes(type) * (call->phases == SCHEDULE_ALL_REDUCE ? 1 : ranks);
}

int preload_plan_rows(const struct preload_call *call, const struct groups *groups, int rank,
                      const struct pick_rule *rule, struct exec_rows *out, struct err *err)
{
    int64_t chunk = rule->chunk_bytes > CHUNK_LEAST ? rule->chunk_bytes : CHUNK_LEAST;
    struct coll_vector_spec spec = {.phases = call->phases,
                                    .algo = rule->algo,
                                    .chunk_bytes = chunk,
                                    .turns_most = TURNS_MOST};
    int64_t *count = mem_new((size_t)groups->ranks, sizeof *count);

    spec.count = count;
    if (preload_plan_type(call, &spec.type, &spec.redop, &spec.elems)) {
        mem_free(count);
        return err_set(err, ERR_INPUT, "a type or an operation that has no plan");
    }
    for (int r = 0; r < groups->ranks; r++)
        count[r] = spec.elems;
    int rc = coll_vector_rows(&spec, groups, rank, out, err);
    mem_free(count);
    return rc;
}
