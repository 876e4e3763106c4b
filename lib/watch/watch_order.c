/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who waits in a call, who has not come to it, and who called something else instead.  Of a
 * hang that spreads over communicators the rank is named that waits nowhere itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "watch/watch_parts.h"

/* Where a process waits, if it does. */
struct wait {
    int comm; /* -1: nowhere */
    int64_t row;
};

struct ranks { /* of a list, for people: "ranks 0-6, 9 and 3 more" */
    char text[96];
};

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void name_ranks(const struct watch *w, const int *process, int n, struct ranks *out)
{
    int *rank = mem_new((size_t)n + 1, sizeof *rank), at = 0, parts = 0;
    const int room = sizeof out->text;

    for (int i = 0; i < n; i++)
        rank[i] = w->process[process[i]].rank;
    qsort(rank, (size_t)n, sizeof *rank, by_number);
    at = snprintf(out->text, (size_t)room, "rank%s", n == 1 ? "" : "s");
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && rank[j] == rank[j - 1] + 1; j++)
            ;
        if (parts++ == 6) {
            snprintf(out->text + at, (size_t)(room - at), " and %d more", n - i);
            break;
        }
        at += snprintf(out->text + at, (size_t)(room - at), "%s %d", i ? "," : "", rank[i]);
        if (j - i > 1)
            at += snprintf(out->text + at, (size_t)(room - at), "-%d", rank[j - 1]);
    }
    mem_free(rank);
}

/* The host, where there is but one rank to name. */
static void add_host(const struct watch *w, const int *process, int n, struct ranks *out)
{
    if (n == 1)
        watch_name(w, process[0], out->text, sizeof out->text);
}

/* ---- who called what ---- */

/* Of other operations each rank has a size of its own: the root, or an uneven all-to-all. */
static int has_one_size(int op)
{
    return op == METER_ALL_GATHER || op == METER_REDUCE_SCATTER || op == METER_ALL_REDUCE ||
           op == METER_BROADCAST || op == METER_REDUCE;
}

static int same_call(const struct watch_cell *a, const struct watch_cell *b)
{
    return a->op == b->op && (a->bytes == b->bytes || !has_one_size(a->op));
}

/* The first row of a communicator in which calls differ; -1: none. */
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

/* What most have called is taken for right. */
static void name_mismatch(const struct watch *w, const struct watch_comm *c, int64_t row,
                          struct watch_verdict *v)
{
    const struct watch_cell *cell = watch_row(c, row), *right = NULL, *wrong = NULL;
    int *who = mem_new((size_t)c->size, sizeof *who), most = 0, n = 0, tried = 0;
    char call[2][64];
    struct ranks name;

    /* Of many ranks some are enough to know the majority. */
    for (int m = 0; m < c->size && (c->size <= 1024 || tried <= 64); m++) {
        int alike = 0;
        tried += cell[m].there;
        for (int k = 0; k < c->size && cell[m].there; k++)
            alike += cell[k].there && same_call(&cell[m], &cell[k]);
        if (alike > most) {
            most = alike;
            right = &cell[m];
        }
    }
    for (int m = 0; m < c->size; m++)
        if (cell[m].there && !same_call(right, &cell[m])) {
            wrong = wrong ? wrong : &cell[m];
            who[n++] = c->process[m];
        }
    name_ranks(w, who, n, &name);
    add_host(w, who, n, &name);
    watch_find(v, WATCH_MISMATCH, HEALTH_CRITICAL, n == 1 ? who[0] : -1,
               "mismatch: call %lld: %s called %s, the others %s", (long long)(c->first + row),
               name.text, watch_call_name(wrong, call[0], sizeof call[0]),
               watch_call_name(right, call[1], sizeof call[1]));
    mem_free(who);
}

/* ---- who waits ---- */

static int is_waiting(const struct watch_cell *cell)
{
    return cell->there && cell->completed_ns == 0;
}

/* A member with records has not come to a row; those of an older call may be gone. */
static int is_absent(const struct watch_comm *c, int64_t row, int m)
{
    return !watch_row(c, row)[m].there && c->process[m] >= 0 && c->last[m] < c->first + row;
}

/* The row hangs: somebody waits since long, or, where a hang made others dump their records,
 * for a rank that has not come. */
static int hangs(const struct watch *w, const struct watch_comm *c, int64_t row,
                 const struct watch_rules *r, double *waited_s)
{
    const struct watch_cell *cell = watch_row(c, row);
    double latest_s = -INFINITY;
    int absent = 0;

    for (int m = 0; m < c->size; m++) {
        if (is_waiting(&cell[m]))
            latest_s = fmax(latest_s, 1e-9 * (double)cell[m].arrived_ns -
                                          w->host[w->process[c->process[m]].host].offset_s);
        absent |= is_absent(c, row, m);
    }
    *waited_s = w->now_s - latest_s;
    return !isinf(latest_s) && (*waited_s > r->hang_s || (w->dumped && absent));
}

/* What the missing rank did last, in any communicator. */
static void last_call(const struct watch *w, int process, char *text, size_t room)
{
    const struct watch_process *p = &w->process[process];
    char call[64];

    snprintf(text, room, "it called nothing before");
    if (p->calls == 0)
        return;
    const struct watch_call *c = &w->call[p->first_call + p->calls - 1];
    struct watch_cell cell = {.op = c->op, .bytes = c->bytes};
    snprintf(text, room, "its last call was %s %lld", watch_call_name(&cell, call, sizeof call),
             (long long)c->sequence);
}

/* Dumps are mostly of a hang, but may be of a running program: a long wait is certain. */
static void name_hang(const struct watch *w, const struct watch_rules *r, int which,
                      int64_t row, double waited_s, const struct wait *wait,
                      struct watch_verdict *v)
{
    const int certain = waited_s > r->hang_s;
    const struct watch_comm *c = &w->comm[which];
    const struct watch_cell *cell = watch_row(c, row), *one = NULL;
    int *in = mem_new((size_t)c->size, sizeof *in),
        *out = mem_new((size_t)c->size, sizeof *out);
    int ins = 0, outs = 0, idle = 0, unknown = 0;
    char call[64], last[96] = "";
    struct ranks here, gone;
    struct units u;

    for (int m = 0; m < c->size; m++) {
        if (is_waiting(&cell[m])) {
            in[ins++] = c->process[m];
            one = &cell[m];
        } else if (c->process[m] < 0) {
            unknown++;
        } else if (is_absent(c, row, m)) {
            out[outs++] = c->process[m];
            idle += wait[c->process[m]].comm < 0;
        }
    }
    for (int i = 0; idle && i < outs; i++) /* those who wait elsewhere are no cause */
        if (wait[out[i]].comm >= 0)
            out[i--] = out[--outs];
    name_ranks(w, in, ins, &here);
    watch_call_name(one, call, sizeof call);
    units_time(&u, waited_s);
    if (outs) {
        name_ranks(w, out, outs, &gone);
        add_host(w, out, outs, &gone);
        last_call(w, out[0], last, sizeof last);
        watch_find(v, WATCH_HUNG, certain ? HEALTH_CRITICAL : HEALTH_WARNING,
                   outs == 1 ? out[0] : -1,
                   "hung%s: %s wait%s in %s %lld (for %s), %s never arrived%s, %s",
                   certain ? "" : ", or dumped while it ran", here.text, ins == 1 ? "s" : "",
                   call, (long long)(c->first + row), u.text, gone.text,
                   idle ? "" : " but waits elsewhere", last);
    } else if (unknown) {
        watch_find(v, WATCH_HUNG, HEALTH_CRITICAL, -1,
                   "hung: %s wait%s in %s %lld (for %s), %d of %d ranks have no records",
                   here.text, ins == 1 ? "s" : "", call, (long long)(c->first + row), u.text,
                   unknown, c->size);
    } else {
        watch_find(
            v, WATCH_STUCK, HEALTH_CRITICAL, -1,
            "stuck: %s wait%s in %s %lld (for %s), to which all have come: the network or"
            " a rank that is gone",
            here.text, ins == 1 ? "s" : "", call, (long long)(c->first + row), u.text);
    }
    mem_free(in);
    mem_free(out);
}

/* The first waiting row of each communicator, and which one to report: one whose missing rank
 * waits nowhere. */
static int find_hang(const struct watch *w, const struct watch_rules *r, struct wait *wait,
                     int64_t *row, double *waited_s)
{
    int found = -1, found_idle = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < w->comms; i++) {
            const struct watch_comm *c = &w->comm[i];
            for (int64_t k = 0; k < c->calls; k++) {
                double s;
                int idle = 0;
                if (!hangs(w, c, k, r, &s))
                    continue;
                for (int m = 0; m < c->size; m++) {
                    const struct watch_cell *cell = &watch_row(c, k)[m];
                    if (is_waiting(cell))
                        wait[c->process[m]] = (struct wait){i, k};
                    idle |= is_absent(c, k, m) && wait[c->process[m]].comm < 0;
                }
                if (pass && (found < 0 || (idle && !found_idle))) {
                    found = i;
                    found_idle = idle;
                    *row = k;
                    *waited_s = s;
                }
                break;
            }
        }
    return found;
}

void watch_judge_order(const struct watch *w, const struct watch_rules *r,
                       struct watch_verdict *v)
{
    struct wait *wait = mem_new((size_t)w->processes, sizeof *wait);
    int64_t row = 0;
    double waited_s = 0;

    for (int p = 0; p < w->processes; p++)
        wait[p].comm = -1;
    for (int i = 0; i < w->comms; i++) {
        int64_t at = find_mismatch(&w->comm[i]);
        if (at >= 0) {
            name_mismatch(w, &w->comm[i], at, v);
            break; /* what follows in others may follow from it */
        }
    }
    int which = v->findings ? -1 : find_hang(w, r, wait, &row, &waited_s);
    if (which >= 0)
        name_hang(w, r, which, row, waited_s, wait, v);
    mem_free(wait);
}
