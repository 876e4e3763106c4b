/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how one rank's rows become work: what each row waits for, as two counts, and where it
 * reads and writes.  Does not know how bytes travel.
 */
#include "exec/exec.h"

#include <assert.h>

#include "base/mem.h"

void exec_places_init(struct exec_places *p, int chunks)
{
    *p = (struct exec_places){.chunks = chunks};
    p->elems = mem_new((size_t)chunks, sizeof(int64_t));
    p->in_at = mem_new((size_t)chunks, sizeof(int64_t));
    p->out_at = mem_new((size_t)chunks, sizeof(int64_t));
    for (int c = 0; c < chunks; c++)
        p->in_at[c] = p->out_at[c] = -1;
}

void exec_places_release(struct exec_places *p)
{
    mem_free(p->elems);
    mem_free(p->in_at);
    mem_free(p->out_at);
    *p = (struct exec_places){0};
}

/* Counts while the rows are gone through, by chunk. */
struct counts {
    int *writes, *reads; /* so far */
    int64_t *scratch_at; /* bytes, -1: none yet */
    int after, barriers; /* own rows before the last barrier passed, and barriers passed */
};

static struct exec_spot accumulator(struct exec_rows *r, const struct exec_places *p,
                                    struct counts *n, int c, int size)
{
    if (p->out_at[c] >= 0)
        return (struct exec_spot){EXEC_OUT, p->out_at[c] * size};
    if (n->scratch_at[c] < 0) {
        n->scratch_at[c] = r->scratch_bytes;
        r->scratch_bytes += (p->elems[c] * size + 63) / 64 * 64;
    }
    return (struct exec_spot){EXEC_SCRATCH, n->scratch_at[c]};
}

/* What a send or a first add reads: `in` while nothing was written there. */
static int current(struct exec_rows *r, const struct exec_places *p, struct counts *n, int c,
                   int size, struct exec_spot *out, struct err *err)
{
    if (n->writes[c]) {
        *out = accumulator(r, p, n, c, size);
        return 0;
    }
    if (p->in_at[c] < 0)
        return err_set(err, ERR_MISMATCH,
                       "the schedule reads chunk %d, which is not in the input", c);
    *out = (struct exec_spot){EXEC_IN, p->in_at[c] * size};
    return 0;
}

static int add_row(struct exec_rows *r, const struct schedule *s,
                   const struct schedule_row *row, int rank, const struct exec_places *p,
                   struct counts *n, int size, struct err *err)
{
    int c = row->chunk, send = row->src == rank, peer = send ? row->dst : row->src;
    struct exec_row *new = &r->row[r->rows];

    *new = (struct exec_row){.lane = row->lane,
                             .peer = peer,
                             .chunk = c,
                             .send = send,
                             .op = row->op,
                             .wrote = n->writes[c],
                             .read = n->reads[c],
                             .bytes = p->elems[c] * size};
    new->after = n->after;
    if (send || row->op == SCHEDULE_ADD)
        if (current(r, p, n, c, size, &new->from, err))
            return -1;
    if (!send)
        new->to = accumulator(r, p, n, c, size);
    *(send ? &n->reads[c] : &n->writes[c]) += 1;
    if (new->bytes > r->most_bytes)
        r->most_bytes = new->bytes;
    if (s->groups.group_of[peer] != s->groups.group_of[rank])
        *(send ? &r->slow_bytes : &r->slow_in_bytes) += new->bytes;
    else if (send)
        r->fast_bytes += new->bytes;
    r->rows++;
    return 0;
}

static void add_selves(struct exec_rows *r, const struct exec_places *p, const struct counts *n,
                       int size)
{
    for (int c = 0; c < p->chunks; c++)
        if (p->elems[c] && p->in_at[c] >= 0 && p->out_at[c] >= 0 && n->writes[c] == 0)
            r->self[r->selves++] =
                (struct exec_self){p->in_at[c] * size, p->out_at[c] * size, p->elems[c] * size};
}

int exec_rows_init(struct exec_rows *r, const struct schedule *s, int rank,
                   const struct exec_places *places, enum dtype type, struct err *err)
{
    struct exec_rows new = {.chunks = places->chunks};
    size_t chunks = (size_t)places->chunks;
    struct counts n = {mem_new(chunks, sizeof(int)), mem_new(chunks, sizeof(int)),
                       mem_new(chunks, sizeof(int64_t)), 0, 0};
    int rc = 0;

    assert(places->chunks == s->chunks);
    for (int c = 0; c < places->chunks; c++)
        n.scratch_at[c] = -1;
    new.row = mem_new((size_t)s->rows, sizeof *new.row);
    new.self = mem_new(chunks, sizeof *new.self);
    for (int64_t i = 0; rc == 0 && i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        for (; n.barriers < s->barriers && row->step >= s->barrier[n.barriers]; n.barriers++)
            n.after = new.rows;
        if ((row->src == rank || row->dst == rank) && places->elems[row->chunk])
            rc = add_row(&new, s, row, rank, places, &n, dtype_bytes(type), err);
    }
    add_selves(&new, places, &n, dtype_bytes(type));
    mem_free(n.writes);
    mem_free(n.reads);
    mem_free(n.scratch_at);
    if (rc == 0)
        *r = new;
    else
        exec_rows_release(&new);
    return rc;
}

void exec_rows_release(struct exec_rows *r)
{
    mem_free(r->row);
    mem_free(r->self);
    *r = (struct exec_rows){0};
}
