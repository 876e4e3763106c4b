/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares one rank's rows: derives the rows that each waits for, as two counts, and the memory
 * it reads and writes.  Leaves the transfer of bytes to exec_mpi and exec_nccl.
 */
#include "exec/exec.h"

#include <assert.h>
#include <string.h>

#include "exec/exec_code.h"
#include "base/mem.h"

void exec_places_init(struct exec_places *p, int chunks, enum dtype type)
{
    *p = (struct exec_places){.chunks = chunks, .type = type, .elem_bytes = dtype_bytes(type)};
    p->elems = mem_new((size_t)chunks, sizeof(int64_t));
    p->in_at = mem_new((size_t)chunks, sizeof(int64_t));
    p->out_at = mem_new((size_t)chunks, sizeof(int64_t));
    for (int c = 0; c < chunks; c++)
        p->in_at[c] = p->out_at[c] = -1;
}

void exec_places_release(struct exec_places *p)
{
    MEM_FREE(p->elems, p->in_at, p->out_at);
    *p = (struct exec_places){0};
}

/* Counts per slot while the rows are visited in order. */
struct counts {
    const struct exec_places *p;
    int *writes, *reads; /* so far */
    int64_t *scratch_at; /* bytes, -1: none yet */
    int after, barriers; /* own rows before the last barrier passed, and barriers passed */
};

static int64_t elems_of(const struct counts *n, int slot)
{
    return n->p->elems[slot % n->p->chunks];
}

static struct exec_spot accumulator(struct exec_rows *r, struct counts *n, int slot)
{
    int64_t size = r->elem_bytes;

    if (slot < n->p->chunks && n->p->out_at[slot] >= 0)
        return (struct exec_spot){EXEC_OUT, n->p->out_at[slot] * size};
    if (n->scratch_at[slot] < 0) {
        n->scratch_at[slot] = r->scratch_bytes;
        r->scratch_bytes += elems_of(n, slot) * size;
    }
    return (struct exec_spot){EXEC_SCRATCH, n->scratch_at[slot]};
}

/* Finds the spot that a send or a first add reads: `in` while nothing was written there. */
static int current(struct exec_rows *r, struct counts *n, int slot, struct exec_spot *out,
                   struct err *err)
{
    if (n->writes[slot]) {
        *out = accumulator(r, n, slot);
        return 0;
    }
    if (slot >= n->p->chunks || n->p->in_at[slot] < 0)
        return err_set(err, ERR_MISMATCH,
                       "the schedule reads chunk %d, which is not in the input", slot);
    *out = (struct exec_spot){EXEC_IN, n->p->in_at[slot] * r->elem_bytes};
    return 0;
}

static int rows_add_row(struct exec_rows *r, const struct schedule_row *row, int rank,
                        struct counts *n, struct err *err)
{
    enum exec_kind kind = row->src != rank   ? EXEC_RECV
                          : row->dst != rank ? EXEC_SEND
                                             : EXEC_LOCAL;
    int slot = kind == EXEC_SEND ? row->chunk : row->into;
    struct exec_row *new = &r->row[r->rows];

    *new = (struct exec_row){.kind = kind,
                             .lane = row->lane,
                             .peer = kind == EXEC_SEND ? row->dst : row->src,
                             .step = row->step,
                             .slot = slot,
                             .source = row->chunk,
                             .op = row->op,
                             .wrote = n->writes[slot],
                             .read = n->reads[slot],
                             .source_wrote = n->writes[row->chunk],
                             .after = n->after,
                             .residual = -1,
                             .bytes = elems_of(n, slot) * r->elem_bytes};
    new->wire_bytes = new->bytes;
    if (kind != EXEC_RECV && current(r, n, row->chunk, &new->from, err))
        return -1;
    if (kind != EXEC_SEND && row->op == SCHEDULE_ADD && current(r, n, slot, &new->base, err))
        return -1;
    if (kind != EXEC_SEND) {
        new->to = accumulator(r, n, slot);
        n->writes[slot]++;
    }
    if (kind != EXEC_RECV)
        n->reads[row->chunk]++;
    r->rows++;
    return 0;
}

static void add_traffic(struct exec_rows *r, const struct groups *g, int rank)
{
    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        if (row->kind == EXEC_LOCAL)
            continue;
        if (g->group_of[row->peer] != g->group_of[rank])
            *(row->kind == EXEC_SEND ? &r->slow_bytes : &r->slow_in_bytes) += row->wire_bytes;
        else if (row->kind == EXEC_SEND)
            r->fast_bytes += row->bytes;
    }
}

/*
 * An add completes its sum if its slot is neither added to nor sent as a part of another sum
 * afterwards, before the schedule starts to copy complete sums.
 */
static void mark_complete(struct exec_rows *r, const struct schedule *s)
{
    char *later = mem_new((size_t)r->slots, 1);

    for (int i = r->rows - 1; i >= 0; i--) {
        struct exec_row *row = &r->row[i];
        if (row->step >= s->gather_step)
            continue;
        if (row->kind != EXEC_SEND) {
            row->complete = row->op == SCHEDULE_ADD && !later[row->slot];
            later[row->slot] = 1;
        }
        if (row->kind != EXEC_RECV)
            later[row->source] = 1;
    }
    mem_free(later);
}

static int rows_sums(const struct schedule *s)
{
    return (s->phases & SCHEDULE_REDUCE_SCATTER) != 0;
}

/* Marks the rows that carry codes and the sums that are rounded, and assigns residuals. */
static void mark_coded(struct exec_rows *r, const struct schedule *s, int rank)
{
    const int *group_of = s->groups.group_of;

    for (int i = 0; i < r->rows; i++) {
        struct exec_row *row = &r->row[i];
        int64_t elems = row->bytes / r->elem_bytes;
        row->coded = group_of[row->peer] != group_of[rank];
        row->rounded = row->complete && (s->phases & SCHEDULE_GATHER_ACROSS);
        if (row->coded)
            row->wire_bytes = exec_code_bytes(r->code, elems);
        int lossy = row->coded && row->kind == EXEC_SEND && row->op == SCHEDULE_ADD;
        if (lossy || row->rounded) {
            row->residual = r->residual_elems;
            r->residual_elems += elems;
        }
    }
}

static int check_code(const struct exec_places *p, const struct schedule *s, struct err *err)
{
    if (!p->code)
        return 0;
    if (p->type != DTYPE_F32 && p->type != DTYPE_BF16)
        return err_set(err, ERR_INPUT, "a code of %s, expected f32 or bf16",
                       dtype_name(p->type));
    if (rows_sums(s) && p->redop != DTYPE_SUM && p->redop != DTYPE_AVG)
        return err_set(err, ERR_INPUT, "a coded %s, expected a sum or an average",
                       dtype_op_name(p->redop));
    return 0;
}

int exec_rows_init(struct exec_rows *r, const struct schedule *s, int rank,
                   const struct exec_places *p, struct err *err)
{
    struct exec_rows new = {.slots = p->chunks * (1 + s->planes),
                            .ranks = s->groups.ranks,
                            .lanes = s->lanes,
                            .type = p->type,
                            .redop = p->redop,
                            .elem_bytes = p->elem_bytes,
                            .combine = p->combine,
                            .combine_arg = p->combine_arg};
    size_t slots = (size_t) new.slots;
    int64_t size = new.elem_bytes;
    struct counts n = {p,
                       mem_new(slots, sizeof(int)),
                       mem_new(slots, sizeof(int)),
                       mem_new(slots, sizeof(int64_t)),
                       0,
                       0};
    int rc = check_code(p, s, err);
    /* Only if the phases cross groups, and both ends of every row finish with equal values. */
    unsigned across = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS | SCHEDULE_BROADCAST;
    if (s->groups.count > 1 && s->phases & across && s->planes == 0)
        new.code = exec_code_of(p->code, p->type);

    assert(p->chunks == s->chunks);
    for (int c = 0; c < new.slots; c++) {
        int64_t bytes = elems_of(&n, c) * size;
        new.most_bytes = bytes > new.most_bytes ? bytes : new.most_bytes;
        n.scratch_at[c] = -1;
    }
    new.row = mem_new((size_t)s->rows, sizeof *new.row);
    new.self = mem_new((size_t)p->chunks, sizeof *new.self);
    for (int64_t i = 0; rc == 0 && i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        for (; n.barriers < s->barriers && row->step >= s->barrier[n.barriers]; n.barriers++)
            n.after = new.rows;
        if ((row->src == rank || row->dst == rank) && elems_of(&n, row->chunk))
            rc = rows_add_row(&new, row, rank, &n, err);
    }
    mark_complete(&new, s);
    if (new.code)
        mark_coded(&new, s, rank);
    if (new.code && !rows_sums(s)) {
        new.span = mem_new((size_t)p->chunks, sizeof *new.span);
        for (int c = 0; c < p->chunks; c++) {
            if (p->elems[c] == 0 || (p->in_at[c] < 0 && p->out_at[c] < 0))
                continue;
            new.span[new.spans++] = (struct exec_span){
                {p->in_at[c], p->out_at[c]}, p->elems[c], new.residual_elems};
            new.residual_elems += p->in_at[c] >= 0 ? p->elems[c] : 0;
        }
    }
    add_traffic(&new, &s->groups, rank);
    for (int c = 0; c < p->chunks; c++)
        if (p->elems[c] && p->in_at[c] >= 0 && p->out_at[c] >= 0 && n.writes[c] == 0)
            new.self[new.selves++] =
                (struct exec_self){p->in_at[c] * size, p->out_at[c] * size, p->elems[c] * size};
    MEM_FREE(n.writes, n.reads, n.scratch_at);
    if (rc == 0)
        *r = new;
    else
        exec_rows_release(&new);
    return rc;
}

void exec_rows_round(const struct exec_rows *r, enum exec_where where, void *buffer,
                     float *residual)
{
    assert(where == EXEC_IN || (where == EXEC_OUT && !residual));
    for (int i = 0; i < r->spans; i++) {
        const struct exec_span *span = &r->span[i];
        int64_t at = span->at[where];
        if (at >= 0)
            exec_code_round(r->code, (char *)buffer + at * r->elem_bytes, r->type,
                            residual ? residual + span->residual : NULL, span->elems);
    }
}

static void rows_add(const struct exec_rows *r, void *to, const void *base, const void *arrived,
                     int64_t n)
{
    if (!r->combine) {
        dtype_reduce(to, base, arrived, r->type, r->redop, n);
        return;
    }
    if (to != base)
        memcpy(to, base, (size_t)(n * r->elem_bytes));
    r->combine(to, arrived, n, r->combine_arg);
}

static float *rows_kept(const struct exec_row *row, float *residual)
{
    return residual && row->residual >= 0 ? residual + row->residual : NULL;
}

void exec_row_code(const struct exec_rows *r, const struct exec_row *row, void *code,
                   const void *from, float *residual)
{
    exec_code_encode(r->code, code, from, r->type, rows_kept(row, residual),
                     row->bytes / r->elem_bytes);
}

void exec_row_land(const struct exec_rows *r, const struct exec_row *row, void *to,
                   const void *base, const void *arrived, float *residual)
{
    int64_t n = row->bytes / r->elem_bytes;

    if (row->coded)
        exec_code_add(r->code, to, row->op == SCHEDULE_ADD ? base : NULL, r->type, arrived, n);
    else if (row->op == SCHEDULE_ADD)
        rows_add(r, to, base, arrived, n);
    else if (to != arrived)
        memcpy(to, arrived, (size_t)row->bytes);
    if (row->complete && r->redop == DTYPE_AVG)
        dtype_scale(to, r->type, r->ranks, n);
    if (row->rounded)
        exec_code_round(r->code, to, r->type, rows_kept(row, residual), n);
}

void exec_rows_release(struct exec_rows *r)
{
    MEM_FREE(r->row, r->self, r->span);
    *r = (struct exec_rows){0};
}
