/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs one move by one algorithm, ours or the MPI library's: its buffers, its run, and the
 * check of its data.  Leaves timing to bench_rounds.c.
 */
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

/* A byte from which bench_data makes no value: NaN in the floating types, -1 in i32. */
enum { POISON = 0xff };

/* Returns a rank's ranges.  Under G, MPI and NCCL use the blocks of exec_native_block. */
static int ranges_of(const struct bench *b, const struct bench_move *m, enum letter letter,
                     struct range *out)
{
    const struct world *w = b->world;

    if (m->spec.algo >= 0 || letter == LETTER_N)
        return layout_ranges(&b->coll.layout, letter, w->rank, m->spec.elems, out);
    exec_native_block(m->spec.elems, w->rank, w->ranks, &out->lo, &out->hi);
    return out->hi > out->lo;
}

int bench_move_open(struct bench *b, const struct bench_move_spec *spec, struct bench_move *m,
                    struct err *err)
{
    size_t space = (size_t)layout_ranges_max(&b->coll.layout);
    int cast = spec->op == SCHEDULE_BROADCAST, root = b->o->root == b->world->rank;
    int mpi = spec->algo == BENCH_MPI, rc;
    enum dtype_op redop = spec->redop == DTYPE_OPS ? DTYPE_SUM : spec->redop;

    *m = (struct bench_move){.spec = *spec, .in = b->in};
    m->gives = mem_new(space, sizeof *m->gives);
    m->gets = mem_new(space, sizeof *m->gets);
    m->give = cast && !root ? 0 : ranges_of(b, m, spec->from, m->gives);
    /* MPI_Bcast has one buffer, so its root receives nothing */
    m->get = cast && root && mpi ? 0 : ranges_of(b, m, spec->to, m->gets);
    /* MPI's block of a gather is separate from the ranges that the other algorithms gather
       from */
    if (mpi && spec->op == SCHEDULE_ALL_GATHER)
        m->in = b->native_in;
    bench_data_init(&m->data, spec->redop, b->o->type, spec->giver, spec->givers);
    if (spec->algo >= 0) {
        struct coll_spec ours = {
            .phases = spec->phases,
            .from = spec->from,
            .to = spec->to,
            .root = b->o->root,
            .elems = spec->elems,
            .type = b->o->type,
            .redop = redop,
            .algo = (enum schedule_algo)spec->algo,
            .chunk_bytes = spec->chunk_bytes,
        };
        return coll_prepare(&b->coll, &ours, &m->ours, err);
    }
    struct exec_native_spec native = {
        .op = cast                                  ? EXEC_NATIVE_BROADCAST
              : spec->op == SCHEDULE_ALL_GATHER     ? EXEC_NATIVE_ALL_GATHER
              : spec->op == SCHEDULE_REDUCE_SCATTER ? EXEC_NATIVE_REDUCE_SCATTER
                                                    : EXEC_NATIVE_ALL_REDUCE,
        .elems = spec->elems,
        .type = b->o->type,
        .redop = redop,
        .root = b->o->root,
    };
    rc = spec->algo == BENCH_NCCL
             ? exec_nccl_native_open(&m->nccl, b->coll.nccl, &native, NULL, err)
             : exec_native_open(&m->native, b->world, &native, err);
    return world_agree(b->world, rc, err);
}

void bench_move_close(struct bench_move *m, int in_order)
{
    /* leave messages of a lost peer in flight: the caller aborts */
    if (in_order) {
        coll_free(&m->ours);
        exec_native_close(m->native);
        exec_nccl_native_close(m->nccl);
    }
    mem_free(m->gives);
    mem_free(m->gets);
    *m = (struct bench_move){0};
}

int bench_move_run(struct bench *b, struct bench_move *m, struct err *err)
{
    if (m->nccl) {
        int rc = exec_nccl_native_run(m->nccl, m->in, b->out, err);
        if (rc)
            err->code = ERR_PEER; /* this rank may be the only one to know */
        return rc;
    }
    return m->native ? exec_native_run(m->native, m->in, b->out, err)
                     : coll_run(b->stream, &m->ours, m->in, b->out, err);
}

int bench_move_check(struct bench *b, struct bench_move *m, struct err *err)
{
    int size = dtype_bytes(b->o->type);
    char *first = b->device ? b->host_in : m->in, *to = first;
    const char *at = b->host_out;
    int64_t bytes = m->spec.elems * size;

    for (int i = 0; i < m->give; i++) {
        bench_data_fill(&m->data, to, m->gives[i].lo, m->gives[i].hi);
        to += (m->gives[i].hi - m->gives[i].lo) * size;
    }
    memset(b->host_out, POISON, (size_t)bytes);
    if (bench_device_copy(b, m->in, first, to - first, err) ||
        bench_device_copy(b, b->out, b->host_out, bytes, err) ||
        exec_native_barrier(b->world, err) || bench_move_run(b, m, err) ||
        bench_device_copy(b, b->host_out, b->out, bytes, err))
        return -1;
    for (int i = 0; i < m->get; i++) {
        m->wrong += bench_data_wrong(&m->data, at, m->gets[i].lo, m->gets[i].hi);
        at += (m->gets[i].hi - m->gets[i].lo) * size;
    }
    return 0;
}
