/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds ranks that wait in a call, ranks that are missing in it, and ranks that made a
 * different call.  In a hang that spreads over communicators names the rank that waits nowhere
 * itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "watch/watch_parts.h"

/* A list of ranks, for people: "ranks 0-6, 9 and 3 more", "rank 5 (node2)". */
enum { RANKS_TEXT = 160 };

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void list_ranks(int *rank, int n, char *text, size_t space)
{
    int parts = 0;

    qsort(rank, (size_t)n, sizeof *rank, by_number);
    int at = snprintf(text, space, n == 1 ? "rank" : "ranks");
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && rank[j] == rank[j - 1] + 1; j++)
            ;
        if (parts++ == 6) {
            snprintf(text + at, space - (size_t)at, " and %d more", n - i);
            break;
        }
        at += snprintf(text + at, space - (size_t)at, "%s %d", i ? "," : "", rank[i]);
        if (j - i > 1)
            at += snprintf(text + at, space - (size_t)at, "-%d", rank[j - 1]);
    }
}

void watch_name_ranks(const struct watch *w, const int *process, int n, char *text,
                      size_t space)
{
    int *rank = mem_new((size_t)n + 1, sizeof *rank);

    for (int i = 0; i < n; i++)
        rank[i] = w->process[process[i]].rank;
    list_ranks(rank, n, text, space);
    if (n == 1)
        watch_name(w, process[0], text, space);
    mem_free(rank);
}

/* ---- ranks without records ---- */

int watch_absent(const struct watch *w, const struct watch_comm *only, int **out)
{
    unsigned char *seen = mem_new(WATCH_RANKS_MAX, 1);
    int n = 0;

    for (int i = 0; i < w->comms && !w->counted; i++) /* in RAS reports a rank may have left */
        for (int m = 0; m < w->comm[i].size && (!only || only == &w->comm[i]); m++) {
            /* The rank of a member without records is known from a list, or in a communicator
               of all ranks. */
            const struct watch_comm *c = &w->comm[i];
            int rank = c->process[m] >= 0    ? -1
                       : c->rank             ? c->rank[m]
                       : c->size == w->ranks ? m
                                             : -1;
            if (rank >= 0 && rank < WATCH_RANKS_MAX)
                seen[rank] = 1;
        }
    for (int p = 0; p < w->processes; p++) /* it has records of another communicator */
        if (w->process[p].rank < WATCH_RANKS_MAX)
            seen[w->process[p].rank] = 0;
    *out = mem_new(WATCH_RANKS_MAX, sizeof **out);
    for (int rank = 0; rank < WATCH_RANKS_MAX; rank++)
        if (seen[rank])
            (*out)[n++] = rank;
    mem_free(seen);
    return n;
}

int watch_absent_text(const struct watch *w, const struct watch_comm *only, char *text,
                      size_t space, int *one)
{
    int *rank = NULL, n = watch_absent(w, only, &rank);
    char names[RANKS_TEXT];

    *text = 0;
    *one = n == 1 ? *rank : -1;
    if (n) {
        list_ranks(rank, n, names, sizeof names);
        snprintf(text, space, "%.90s ha%s no records", names, n == 1 ? "s" : "ve");
    }
    mem_free(rank);
    return n;
}

/* ---- comparing calls ---- */

/* In these operations all ranks have the same size; in others sizes differ at the root, or in
   an uneven all-to-all. */
static int same_call(const struct watch_cell *a, const struct watch_cell *b)
{
    int one_size = a->op == METER_ALL_GATHER || a->op == METER_REDUCE_SCATTER ||
                   a->op == METER_ALL_REDUCE || a->op == METER_BROADCAST ||
                   a->op == METER_REDUCE;

    return a->op == b->op && (a->bytes == b->bytes || !one_size);
}

/* The first row of a communicator with different calls; -1: none. */
static int64_t find_mismatch(const struct watch_comm *c)
{
    for (int64_t row = 0; row < c->calls; row++) {
        const struct watch_cell *cell = watch_row(c, row), *first = NULL;
        for (int m = 0; m < c->size; m++) {
            if (cell[m].there && first && !same_call(first, &cell[m]))
                return row;
            first = cell[m].there && !first ? &cell[m] : first;
        }
    }
    return -1;
}

/* The call of more than half of the ranks counts as right. */
static void name_mismatch(const struct watch *w, const struct watch_comm *c, int64_t row,
                          struct watch_verdict *v)
{
    const struct watch_cell *cell = watch_row(c, row), *right = NULL, *wrong = NULL;
    int *who = mem_new((size_t)c->size, sizeof *who), more = 0, n = 0;
    char call[2][64], number[40] = "", name[RANKS_TEXT];

    for (int m = 0; m < c->size; m++) /* Boyer-Moore majority vote */
        if (cell[m].there) {
            right = more ? right : &cell[m];
            more += same_call(right, &cell[m]) ? 1 : -1;
        }
    for (int m = 0; m < c->size; m++)
        if (cell[m].there && !same_call(right, &cell[m])) {
            wrong = wrong ? wrong : &cell[m];
            who[n++] = c->process[m];
        }
    watch_name_ranks(w, who, n, name, sizeof name);
    if (!w->counted) /* in RAS reports it is a sum that no other tool shows */
        snprintf(number, sizeof number, "call %lld: ", (long long)(c->first + row));
    watch_find(w, v, WATCH_MISMATCH, HEALTH_CRITICAL, n == 1 ? who[0] : -1,
               "mismatch: %s%s called %s, the others %s", number, name,
               watch_call_name(wrong->op, wrong->bytes, call[0], sizeof call[0]),
               watch_call_name(right->op, right->bytes, call[1], sizeof call[1]));
    mem_free(who);
}

/* ---- waiting ranks ---- */

struct hang {
    int comm;
    int64_t row;
    double waited_s;
};

static int is_waiting(const struct watch_cell *cell)
{
    return cell->there && cell->completed_ns == 0;
}

/* A member with records is missing in a row; rows of older calls may have been overwritten. */
static int is_absent(const struct watch_comm *c, int64_t row, int m)
{
    return !watch_row(c, row)[m].there && c->process[m] >= 0 && c->last[m] < c->first + row;
}

/* Whether the row hangs: a rank has waited for long, or, if a hang made ranks dump their
   records, waits for a missing rank. */
static int hangs(const struct watch *w, const struct watch_comm *c, int64_t row,
                 const struct watch_rules *r, double *waited_s)
{
    const struct watch_cell *cell = watch_row(c, row);
    double latest_s = -INFINITY;
    int absent = 0;

    for (int m = 0; m < c->size; m++) {
        if (is_waiting(&cell[m]))
            latest_s = fmax(latest_s, watch_time_s(w, c->process[m], cell[m].arrived_ns));
        absent |= is_absent(c, row, m);
    }
    *waited_s = w->now_s - latest_s;
    return !isinf(latest_s) && (*waited_s > r->hang_s || (w->dumped && absent));
}

/* Finds the first waiting row of each communicator; waits: [processes].  Returns their
   number. */
static int find_hangs(const struct watch *w, const struct watch_rules *r, char *waits,
                      struct hang *out)
{
    int n = 0;

    for (int i = 0; i < w->comms; i++) {
        const struct watch_comm *c = &w->comm[i];
        struct hang h = {.comm = i};
        while (h.row < c->calls && (c->complete[h.row] || !hangs(w, c, h.row, r, &h.waited_s)))
            h.row++;
        for (int m = 0; m < c->size && h.row < c->calls; m++)
            if (is_waiting(&watch_row(c, h.row)[m]))
                waits[c->process[m]] = 1;
        if (h.row < c->calls)
            out[n++] = h;
    }
    return n;
}

/* Number of members that are missing in a row and wait nowhere. */
static int idle_members(const struct watch_comm *c, int64_t row, const char *waits)
{
    int n = 0;

    for (int m = 0; m < c->size; m++)
        n += is_absent(c, row, m) && !waits[c->process[m]];
    return n;
}

/* Describes the last call in any communicator of a missing rank, or of each of several; op: the
   operation in which it is missing. */
static void last_call(const struct watch *w, int process, int op, int each, char *text,
                      size_t space)
{
    const char *it = each ? "each" : "it";
    const struct watch_process *p = &w->process[process];
    const struct watch_call *c = &w->call[p->first_call + p->calls - 1];
    char call[64];

    if (w->counted)
        snprintf(text, space, "%s has launched %lld %ss", it,
                 p->calls ? (long long)c->sequence : 0, meter_op_names[op]);
    else if (p->calls == 0)
        snprintf(text, space, "%s called nothing before", it);
    else
        snprintf(text, space, "%s last call was %s %lld", each ? "each one's" : "its",
                 watch_call_name(c->op, c->bytes, call, sizeof call), (long long)c->sequence);
}

/* Dumps are usually made in a hang, but may be of a running program: a long wait is certain. */
static void name_hang(const struct watch *w, const struct watch_rules *r, const struct hang *h,
                      const char *waits, struct watch_verdict *v)
{
    const struct watch_comm *c = &w->comm[h->comm];
    const struct watch_cell *cell = watch_row(c, h->row), *one = NULL;
    int *in = mem_new(2 * (size_t)c->size, sizeof *in), *out = in + c->size, ins = 0, outs = 0,
        idle = idle_members(c, h->row, waits), certain = h->waited_s > r->hang_s, records = 0,
        absent, same = 1;
    char call[64], last[96], other[96], why[400], none[128], lasted[40] = "", here[RANKS_TEXT],
                                                             missing[RANKS_TEXT];
    struct units u;

    for (int m = 0; m < c->size; m++) {
        records += c->process[m] >= 0;
        if (is_waiting(&cell[m])) {
            in[ins++] = c->process[m];
            one = &cell[m];
        } else if (is_absent(c, h->row, m) && !(idle && waits[c->process[m]])) {
            out[outs++] = c->process[m]; /* ranks that wait elsewhere are not the cause */
        }
    }
    if (watch_absent_text(w, c, none, sizeof none, &absent) == 0 && records < c->size)
        snprintf(none, sizeof none, "%d of %d ranks have no records", c->size - records,
                 c->size);
    enum watch_kind kind = outs || records < c->size ? WATCH_HUNG : WATCH_STUCK;
    int process = outs == 1 ? out[0] : kind == WATCH_STUCK && ins == 1 ? in[0] : -1;
    snprintf(why, sizeof why, "%s",
             kind == WATCH_HUNG ? none
             : process >= 0     ? "which the others have completed: it is stopped or gone"
                            : "to which all have come: the network, or one is stopped or gone");
    if (outs) {
        watch_name_ranks(w, out, outs, missing, sizeof missing);
        last_call(w, out[0], one->op, outs > 1, last, sizeof last);
        for (int i = 1; i < outs; i++) {
            last_call(w, out[i], one->op, 1, other, sizeof other);
            same &= strcmp(last, other) == 0;
        }
        snprintf(why, sizeof why, "%.90s never arrived%s%s%s%s%s", missing,
                 idle        ? ""
                 : outs == 1 ? " but waits elsewhere"
                             : " but wait elsewhere",
                 same ? ", " : "", same ? last : "", *none ? "; " : "", none);
    }
    watch_name_ranks(w, in, ins, here, sizeof here);
    if (h->waited_s > 0)
        snprintf(lasted, sizeof lasted, " (for %s)", units_time(&u, h->waited_s));
    struct watch_finding *f =
        watch_find(w, v, kind, certain ? HEALTH_CRITICAL : HEALTH_WARNING, process,
                   "%s%s: %.90s wait%s in %s %lld%s, %s", watch_kind_names[kind],
                   certain ? "" : ", or dumped while it ran", here, ins == 1 ? "s" : "",
                   watch_call_name(one->op, one->bytes, call, sizeof call),
                   (long long)(c->first + h->row), lasted, why);
    if (outs == 0)
        f->rank = process < 0 ? absent : f->rank;
    mem_free(in);
}

/* ---- ranks that make no more calls ---- */

/* Makes a finding for each reason.  Losses that may follow from others are reported only if
   there are no others. */
static void name_lost(const struct watch *w, struct watch_verdict *v)
{
    int *who = mem_new((size_t)w->processes + 1, sizeof *who);
    enum watch_loss worst = WATCH_ALIVE;
    char name[RANKS_TEXT];

    for (int p = 0; p < w->processes; p++)
        worst = w->process[p].loss > worst ? w->process[p].loss : worst;
    for (int p = 0; p < w->processes; p++) {
        const char *why = w->process[p].ended_by;
        int n = 0, again = !worst || w->process[p].loss != worst;
        for (int i = 0; i < v->findings; i++)
            again |= v->finding[i].why == why;
        for (int k = p; k < w->processes && !again; k++)
            if (w->process[k].ended_by == why)
                who[n++] = k;
        if (again)
            continue;
        watch_name_ranks(w, who, n, name, sizeof name);
        watch_find(w, v, WATCH_FAILED, HEALTH_CRITICAL, n == 1 ? p : -1, "failed: %s: %s", name,
                   why)
            ->why = why;
    }
    mem_free(who);
}

/* If a hang spreads over communicators, reports the one that explains most, and among those
   with a missing rank the one with the longest wait. */
void watch_judge_order(const struct watch *w, const struct watch_rules *r,
                       struct watch_verdict *v)
{
    struct hang *hang = mem_new((size_t)w->comms, sizeof *hang), *most = hang;
    char *waits = mem_new((size_t)w->processes, 1);
    int n = 0, heaviest = -1;

    name_lost(w, v);
    /* Hangs of other communicators after a mismatch may follow from it. */
    for (int i = 0; i < w->comms && v->findings == 0; i++) {
        int64_t row = find_mismatch(&w->comm[i]);
        if (row >= 0)
            name_mismatch(w, &w->comm[i], row, v);
    }
    if (v->findings == 0)
        n = find_hangs(w, r, waits, hang);
    for (int i = 0; i < n; i++) {
        /* explained by a rank that waits nowhere itself */
        int x = idle_members(&w->comm[hang[i].comm], hang[i].row, waits) > 0;
        if (x > heaviest || (x == heaviest && x && hang[i].waited_s > most->waited_s)) {
            heaviest = x;
            most = &hang[i];
        }
    }
    if (n)
        name_hang(w, r, most, waits, v);
    mem_free(hang);
    mem_free(waits);
}
