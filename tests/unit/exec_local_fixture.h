/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_EXEC_LOCAL_FIXTURE_H
#define TESTS_UNIT_EXEC_LOCAL_FIXTURE_H

/*
 * Executes all ranks in one process: each row runs when the rule of execution lets it, a send
 * together with its receive.  Slow and plain: the other executors are compared with it.
 */
#include "coll/coll.h"
#include "plain_fixture.h"

struct local_rank {
    const struct exec_rows *rows;
    int *done;           /* [rows] */
    int finished;        /* their number */
    int *writes, *reads; /* [rooms] */
    char *base[3];       /* in, out, scratch */
    float *residual;
};

static inline char *local_spot(const struct local_rank *r, struct exec_spot s)
{
    return r->base[s.where] + s.at;
}

static inline int local_ready(const struct local_rank *r, const struct exec_row *row)
{
    if (r->finished < row->after || r->writes[row->slot] != row->wrote)
        return 0;
    if (row->kind == EXEC_LOCAL && r->writes[row->source] != row->source_wrote)
        return 0;
    return row->kind == EXEC_SEND || r->reads[row->slot] == row->read;
}

/* The receive that belongs to a send: the first unfinished one of the same lane, step, peer and
 * chunk. */
static inline int local_find_receive(const struct local_rank *to, int src,
                                     const struct exec_row *send)
{
    for (int i = 0; i < to->rows->rows; i++) {
        const struct exec_row *row = &to->rows->row[i];
        if (!to->done[i] && row->kind == EXEC_RECV && row->peer == src &&
            row->lane == send->lane && row->step == send->step && row->source == send->slot)
            return i;
    }
    return -1;
}

static inline void local_finish(struct local_rank *r, int at)
{
    const struct exec_row *row = &r->rows->row[at];

    r->done[at] = 1;
    r->finished++;
    if (row->kind != EXEC_SEND)
        r->writes[row->slot]++;
    if (row->kind != EXEC_RECV)
        r->reads[row->source]++;
}

static inline void local_land(const struct local_rank *dst, const struct exec_row *row,
                              const char *arrived)
{
    exec_row_land(dst->rows, row, local_spot(dst, row->to), local_spot(dst, row->base), arrived,
                  dst->residual);
}

/* From rank to rank: as it is, or as its code. */
static inline void local_carry(const struct local_rank *src, const struct exec_row *send,
                               const struct local_rank *dst, const struct exec_row *receive)
{
    if (!send->coded) {
        local_land(dst, receive, local_spot(src, send->from));
        return;
    }
    char *code = mem_new((size_t)send->wire_bytes, 1);
    exec_row_code(src->rows, send, code, local_spot(src, send->from), src->residual);
    local_land(dst, receive, code);
    mem_free(code);
}

static inline int local_try_row(struct local_rank *ranks, int me, int at)
{
    struct local_rank *src = &ranks[me];
    const struct exec_row *send = &src->rows->row[at];

    if (src->done[at] || send->kind == EXEC_RECV || !local_ready(src, send))
        return 0;
    if (send->kind == EXEC_LOCAL) {
        local_land(src, send, local_spot(src, send->from));
        local_finish(src, at);
        return 1;
    }
    struct local_rank *dst = &ranks[send->peer];
    int other = local_find_receive(dst, me, send);
    if (other < 0 || !local_ready(dst, &dst->rows->row[other]))
        return 0;
    local_carry(src, send, dst, &dst->rows->row[other]);
    local_finish(src, at);
    local_finish(dst, other);
    return 1;
}

static inline int local_run(struct local_rank *ranks, int n, struct err *why)
{
    int moved = 1, left = 0;

    while (moved) {
        moved = left = 0;
        for (int r = 0; r < n; r++)
            for (int i = 0; i < ranks[r].rows->rows; i++) {
                moved |= local_try_row(ranks, r, i);
                left += !ranks[r].done[i];
            }
    }
    return left ? err_set(why, ERR_MISMATCH, "%d rows wait for each other", left) : 0;
}

/* The i-th conversion between layouts: sums of any letter to any, copies to a finer one or the
 * same (to a coarser it is slicing), sums of what a micro-batch leaves.  Returns whether it
 * sums; *done: whose contributions the result has then, as a letter, LETTER_N of copies. */
enum { LOCAL_SUMS = 9, LOCAL_MICRO = 15, LOCAL_CONVERSIONS = 18 };
static inline int local_conversion(struct coll_spec *spec, int i, enum letter *done)
{
    static const enum letter copy[][2] = {{0, 0}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {2, 2}};

    if (i < LOCAL_SUMS) {
        spec->from = (enum letter)(i / 3);
        spec->to = (enum letter)(i % 3);
        spec->phases = layout_phases_sum(spec->from, spec->to);
        *done = LETTER_G;
    } else if (i < LOCAL_MICRO) {
        spec->from = copy[i - LOCAL_SUMS][0];
        spec->to = copy[i - LOCAL_SUMS][1];
        spec->phases = layout_phases_copy(spec->from, spec->to);
        *done = LETTER_N;
    } else {
        spec->from = LETTER_N;
        spec->to = *done = (enum letter)(i - LOCAL_MICRO);
        spec->phases = layout_phases_micro(spec->to);
    }
    return i < LOCAL_SUMS || i >= LOCAL_MICRO;
}

/* The conversion becomes a broadcast. */
static inline void local_broadcast(struct coll_spec *spec, int root)
{
    spec->phases = SCHEDULE_BROADCAST;
    spec->from = spec->to = LETTER_N;
    spec->root = root;
}

/* The i-th reduction: in every type each operation, all-reduce and reduce-scatter; the
   algorithms take turns. */
enum { LOCAL_OF_TYPE = 2 * DTYPE_OPS, LOCAL_REDUCTIONS = LOCAL_OF_TYPE * DTYPE_COUNT };
static inline struct coll_spec local_reduction(int i)
{
    enum letter to = i % 2 ? LETTER_G : LETTER_N;

    return (struct coll_spec)LIST(.phases = layout_phases_sum(LETTER_N, to), .from = LETTER_N,
                                  .to = to, .elems = 331,
                                  .type = (enum dtype)(i / LOCAL_OF_TYPE),
                                  .redop = (enum dtype_op)(i / 2 % DTYPE_OPS),
                                  .algo = (enum schedule_algo)(i % SCHEDULE_ALGOS),
                                  .chunk_bytes = 128);
}

/* A conversion on all ranks of a layout: their rows, and buffers that hold the whole vector. */
struct local {
    int ranks;
    struct exec_rows *rows;
    void **in, **out;
    float **residual;
};

static inline int local_open(struct local *l, const struct layout *layout,
                             const struct coll_spec *spec)
{
    size_t n = (size_t)layout->groups.ranks;

    *l = (struct local)LIST(.ranks = layout->groups.ranks, .rows = mem_new(n, sizeof *l->rows),
                            .in = mem_new(n, sizeof *l->in), .out = mem_new(n, sizeof *l->out),
                            .residual = mem_new(n, sizeof *l->residual));
    for (int r = 0; r < l->ranks; r++) {
        if (coll_rows(&(struct coll){.layout = *layout}, spec, r, &l->rows[r], &err))
            return -1;
        l->in[r] = mem_new((size_t)spec->elems + 1, 8);
        l->out[r] = mem_new((size_t)spec->elems + 1, 8);
        l->residual[r] = mem_new((size_t)l->rows[r].residual_elems, sizeof(float));
    }
    return 0;
}

static inline void local_close(struct local *l)
{
    for (int r = 0; r < l->ranks; r++) {
        exec_rows_release(&l->rows[r]);
        mem_free(l->in[r]);
        mem_free(l->out[r]);
        mem_free(l->residual[r]);
    }
    mem_free(l->rows);
    mem_free(l->in);
    mem_free(l->out);
    mem_free(l->residual);
}

/* keep: what codes lose stays in the residuals from run to run.  ERR_MISMATCH when the ranks
   wait for each other. */
static inline int exec_local_run(const struct local *l, int keep)
{
    struct local_rank *ranks = mem_new((size_t)l->ranks, sizeof *ranks);

    for (int r = 0; r < l->ranks; r++) {
        const struct exec_rows *rows = &l->rows[r];
        ranks[r].rows = rows;
        ranks[r].residual = keep ? l->residual[r] : NULL;
        ranks[r].done = mem_new((size_t)rows->rows, sizeof(int));
        ranks[r].writes = mem_new((size_t)rows->slots, sizeof(int));
        ranks[r].reads = mem_new((size_t)rows->slots, sizeof(int));
        ranks[r].base[EXEC_IN] = l->in[r];
        ranks[r].base[EXEC_OUT] = l->out[r];
        ranks[r].base[EXEC_SCRATCH] = mem_new((size_t)rows->scratch_bytes, 1);
        for (int i = 0; i < rows->selves; i++)
            memmove((char *)l->out[r] + rows->self[i].to, (char *)l->in[r] + rows->self[i].from,
                    (size_t)rows->self[i].bytes);
    }
    int rc = local_run(ranks, l->ranks, &err);
    for (int r = 0; r < l->ranks; r++) {
        mem_free(ranks[r].done);
        mem_free(ranks[r].writes);
        mem_free(ranks[r].reads);
        mem_free(ranks[r].base[EXEC_SCRATCH]);
    }
    mem_free(ranks);
    return rc;
}

#endif
