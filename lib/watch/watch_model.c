/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds tables from the records of calls, and determines how long each process worked between
 * its calls and the offsets of the hosts' clocks.  Leaves judging lateness to watch_late.c.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "watch/watch_parts.h"

struct watch_place {
    uint64_t key;
    enum watch_what what;
    int index; /* 0: empty slot */
};

int *watch_place(struct watch *w, enum watch_what what, uint64_t key)
{
    /* At most WATCH_RANKS_MAX of each of three kinds */
    const uint64_t places = 8 * WATCH_RANKS_MAX;
    uint64_t at = fnv_mix(key, what) * 0x9e3779b97f4a7c15 % places;

    _Static_assert(WATCH_COMMS_MAX <= WATCH_RANKS_MAX, "the table is large enough");
    if (!w->place)
        w->place = mem_new(places, sizeof *w->place);
    while (w->place[at].index && (w->place[at].what != what || w->place[at].key != key))
        at = (at + 1) % places;
    w->place[at].what = what;
    w->place[at].key = key;
    return &w->place[at].index;
}

static int model_host_of(struct watch *w, const char *name)
{
    int *index = watch_place(w, WATCH_HOST, fnv_bytes(name, strnlen(name, METER_HOST - 1)));

    if (*index)
        return *index - 1;
    w->host = mem_grow(w->host, &w->host_space, (size_t)w->hosts + 1, sizeof *w->host);
    struct watch_host *h = &w->host[w->hosts];
    *h = (struct watch_host){.error_s = -1};
    snprintf(h->name, sizeof h->name, "%s", name);
    /* Another program wrote the name, and it is printed in lines, tables and labels: restrict
       its characters. */
    for (char *c = h->name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-._:", *c) &&
            !(c == h->name && *c == WATCH_NO_HOST))
            *c = '_';
    return (*index = ++w->hosts) - 1;
}

int watch_process(struct watch *w, uint64_t key, int rank, const char *host)
{
    int *index = watch_place(w, WATCH_PROCESS, key);

    if (*index)
        return *index - 1;
    if (w->processes == WATCH_RANKS_MAX)
        return -1;
    int h = model_host_of(w, host);
    w->process =
        mem_grow(w->process, &w->process_space, (size_t)w->processes + 1, sizeof *w->process);
    w->process[w->processes] = (struct watch_process){.key = key, .rank = rank, .host = h};
    return (*index = ++w->processes) - 1;
}

void watch_rank(struct watch *w, int process, int rank, int ranks)
{
    struct watch_process *p = &w->process[process];

    if (ranks > p->widest) {
        p->widest = ranks;
        p->rank = rank;
        w->ranks = ranks > w->ranks ? ranks : w->ranks;
    }
}

int watch_comm(struct watch *w, uint64_t id, int size)
{
    if (size < 1 || size > WATCH_RANKS_MAX)
        return -1;
    int *index = watch_place(w, WATCH_COMM, fnv_mix(id, (uint64_t)size));
    if (*index)
        return *index - 1;
    if (w->comms == WATCH_COMMS_MAX || w->members + size > WATCH_MEMBERS_MAX)
        return -1;
    w->members += size;
    w->comm = mem_grow(w->comm, &w->comm_space, (size_t)w->comms + 1, sizeof *w->comm);
    struct watch_comm *c = &w->comm[w->comms];
    *c = (struct watch_comm){.id = id, .size = size, .first = -1};
    c->process = mem_new((size_t)size, sizeof *c->process);
    c->last = mem_new((size_t)size, sizeof *c->last);
    for (int i = 0; i < size; i++)
        c->process[i] = c->last[i] = -1;
    return (*index = ++w->comms) - 1;
}

void watch_join(struct watch *w, int comm, int member, int process)
{
    struct watch_comm *c = &w->comm[comm];

    c->members += c->process[member] < 0;
    c->process[member] = process;
}

void watch_add(struct watch *w, const struct watch_call *c)
{
    struct watch_comm *m = &w->comm[c->comm];

    w->call = mem_grow(w->call, &w->call_space, (size_t)w->calls + 1, sizeof *w->call);
    w->call[w->calls++] = *c;
    watch_join(w, c->comm, c->member, c->process);
    if (c->sequence > m->last[c->member])
        m->last[c->member] = c->sequence;
    if (m->first < 0 || c->sequence < m->first)
        m->first = c->sequence;
}

void watch_raise_times(struct watch *w, enum watch_times times)
{
    w->times = times > w->times ? times : w->times;
}

const struct watch_cell *watch_row(const struct watch_comm *c, int64_t row)
{
    return &c->cell[row * c->size];
}

/* ---- tables ---- */

static int by_arrival(const void *a, const void *b)
{
    const struct watch_call *p = a, *q = b;
    int c = MEM_ORDER(p, q, process);

    c = c ? c : MEM_ORDER(p, q, arrived_ns);
    return c ? c : MEM_ORDER(p, q, sequence);
}

/* Rings are read in the order of arrival, so this sorts only processes with several files. */
static void sort_calls(struct watch *w)
{
    int sorted = 1;

    for (int64_t i = 1; i < w->calls && sorted; i++)
        sorted = by_arrival(&w->call[i - 1], &w->call[i]) <= 0;
    if (!sorted)
        qsort(w->call, (size_t)w->calls, sizeof *w->call, by_arrival);
    for (int64_t i = w->calls; i-- > 0;) {
        struct watch_process *p = &w->process[w->call[i].process];
        p->first_call = i;
        p->calls++;
    }
}

/* Sizes tables from the first to the last call known of any member.  Keeps the latest rows if a
   member is far behind the others, or if tables would be too large. */
static void size_tables(struct watch *w)
{
    const int64_t fit = WATCH_CELLS_MAX / (w->members ? w->members : 1),
                  most = fit < METER_RECORDS ? fit : METER_RECORDS;

    for (int i = 0; i < w->comms; i++) {
        struct watch_comm *c = &w->comm[i];
        int64_t last = -1;
        for (int m = 0; m < c->size; m++)
            last = c->last[m] > last ? c->last[m] : last;
        c->calls = last < 0 ? 0 : last - c->first + 1;
        c->calls = c->calls < most ? c->calls : most;
        c->first = last - c->calls + 1;
        c->cell = mem_new((size_t)(c->calls * c->size) + 1, sizeof *c->cell);
        c->complete = mem_new((size_t)c->calls + 1, 1);
    }
}

static struct watch_cell *cell_of(struct watch *w, const struct watch_call *c)
{
    struct watch_comm *m = &w->comm[c->comm];
    int64_t row = c->sequence - m->first;

    return row < 0 || row >= m->calls ? NULL : &m->cell[row * m->size + c->member];
}

/* `free_ns`: completion of the last of the earlier calls.  A call that arrives within a
   hundredth of the previous call's time after it was queued: its rank may have worked in
   between. */
static void fill_cells(struct watch *w)
{
    int64_t free_ns = 0;

    for (int64_t i = 0; i < w->calls; i++) {
        const struct watch_call *c = &w->call[i];
        struct watch_cell *cell = cell_of(w, c);
        if (i == 0 || c->process != c[-1].process)
            free_ns = 0;
        int64_t gap_ns = free_ns ? c->arrived_ns - free_ns : -1;
        if (free_ns && gap_ns < (free_ns - c[-1].arrived_ns) / 100)
            gap_ns = gap_ns < 0 ? -1 : -2;
        if (cell)
            *cell = (struct watch_cell){.arrived_ns = c->arrived_ns,
                                        .completed_ns = c->completed_ns,
                                        .gap_ns = gap_ns,
                                        .work_ns = c->work_ns,
                                        .bytes = c->bytes,
                                        .op = c->op,
                                        .there = 1};
        if (c->completed_ns == 0)
            free_ns = INT64_MAX;
        else if (c->completed_ns > free_ns)
            free_ns = c->completed_ns;
    }
}

/* Whether all members have completed the same synchronising call. */
static int is_complete(const struct watch_comm *c, int64_t row)
{
    const struct watch_cell *cell = watch_row(c, row);

    for (int m = 0; m < c->size; m++)
        if (!cell[m].completed_ns || cell[m].op != cell[0].op)
            return 0;
    return c->size > 1 && meter_op_synchronises((enum meter_op)cell[0].op);
}

/* ---- clocks ----
 *
 * No rank leaves a synchronising call before all have arrived.  So if b's clock is x ahead of
 * a's,
 *
 *     completed_b - arrived_a >= x >= arrived_b - completed_a
 *
 * for every pair of ranks on the two hosts and every call.  The estimate is the middle of the
 * closest bounds, its error half their distance.
 */
struct clock_bounds {
    double low, high;
};

static void bound_clocks(const struct watch *w, const struct watch_comm *c, int64_t row,
                         struct clock_bounds *b)
{
    const struct watch_cell *cell = watch_row(c, row);
    double in = 0, out = INFINITY; /* on host 0: the last arrival, the first completion */

    for (int m = 0; m < c->size; m++)
        if (w->process[c->process[m]].host == 0) {
            in = fmax(in, (double)cell[m].arrived_ns);
            out = fmin(out, (double)cell[m].completed_ns);
        }
    for (int m = 0; m < c->size && !isinf(out); m++) {
        struct clock_bounds *h = &b[w->process[c->process[m]].host];
        h->low = fmax(h->low, (double)cell[m].arrived_ns - out);
        h->high = fmin(h->high, (double)cell[m].completed_ns - in);
    }
}

static void set_clocks(struct watch *w)
{
    struct clock_bounds *b = mem_new((size_t)w->hosts, sizeof *b);

    for (int h = 0; h < w->hosts; h++)
        b[h] = (struct clock_bounds){-INFINITY, INFINITY};
    for (int i = 0; i < w->comms && w->hosts > 1 && w->times == WATCH_TIMES; i++)
        for (int64_t row = 0; row < w->comm[i].calls; row++)
            if (w->comm[i].complete[row])
                bound_clocks(w, &w->comm[i], row, b);
    w->host[0].error_s = 0;
    for (int h = 1; h < w->hosts; h++) {
        double error_s = 0.5e-9 * (b[h].high - b[h].low);
        if (isinf(error_s) || error_s < 0) /* no bounds, or a clock was changed */
            continue;
        w->host[h].offset_s = 0.5e-9 * (b[h].high + b[h].low);
        w->host[h].error_s = error_s;
    }
    mem_free(b);
}

/* This host's clock offset is known if it has records; else its clock is used as the first
   host's. */
double watch_time_s(const struct watch *w, int process, int64_t ns)
{
    return 1e-9 * (double)ns - w->host[w->process[process].host].offset_s;
}

static double now_s(const struct watch *w)
{
    char host[METER_HOST] = "";
    double offset_s = 0;

    gethostname(host, sizeof host - 1);
    for (int h = 0; h < w->hosts; h++)
        if (strncmp(w->host[h].name, host, METER_HOST - 1) == 0)
            offset_s = w->host[h].offset_s;
    return 1e-9 * (double)w->now_ns - offset_s;
}

int watch_index(struct watch *w, struct err *err)
{
    int lost = 0;

    for (int p = 0; p < w->processes; p++)
        lost |= w->process[p].ended_by != NULL;
    if (w->calls == 0 && !lost)
        return err_set(err, ERR_INPUT,
                       "no calls of collectives in the records of %d processes%s%s",
                       w->processes, w->skipped ? ": " : "", w->skipped ? w->skipped : "");
    sort_calls(w);
    size_tables(w);
    fill_cells(w);
    for (int i = 0; i < w->comms; i++)
        for (int64_t row = 0; row < w->comm[i].calls; row++)
            w->comm[i].complete[row] = is_complete(&w->comm[i], row);
    set_clocks(w);
    w->start_s = INFINITY;
    w->end_s = -INFINITY;
    for (int64_t i = 0; i < w->calls; i++) {
        const struct watch_call *c = &w->call[i];
        int64_t end = c->completed_ns ? c->completed_ns : c->arrived_ns;
        if (!cell_of(w, c))
            continue;
        w->start_s = fmin(w->start_s, watch_time_s(w, c->process, c->arrived_ns));
        w->end_s = fmax(w->end_s, watch_time_s(w, c->process, end));
    }
    w->now_s = fmax(now_s(w), w->end_s);
    if (isinf(w->end_s))
        w->start_s = w->end_s = w->now_s;
    return 0;
}

void watch_release(struct watch *w)
{
    for (int i = 0; i < w->comms; i++) {
        MEM_FREE(w->comm[i].process, w->comm[i].rank, w->comm[i].last, w->comm[i].cell,
                 w->comm[i].complete);
    }
    MEM_FREE(w->comm, w->process, w->host, w->call, w->place);
    *w = (struct watch){0};
}
