/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who arrives late at collectives, by how much, and in which pattern.  No clock of another host
 * is needed: what counts is how long a rank worked between two calls, or, where calls overlap
 * (a call that began before the one before it had ended), how long it waited in one.
 *
 *     rank 0   work  |wait.....|  work  |wait.....|     gap = work; the others' median is taken
 *     rank 1   work  |wait.....|  work  |wait.....|     from it: what is left is the rank's own
 *     rank 2   work work work  |  work work work  |     lateness in that call
 *                              ^ all leave
 *
 * Lateness adds up over a BLOCK, one of WATCH_BLOCKS equal stretches of time, and is compared
 * with the rest of the block: percent, by which the rank makes the run longer.  In overlapping
 * calls it does not add up, for nobody waits between them: there the largest of each step of
 * the program counts (a step: as many calls as it takes until operations and sizes repeat).
 *
 * A rank is late when the median over the blocks is outside the range, AND chance does not
 * explain it in so many ranks (health_accusing_z, from how much the blocks differ), AND, where
 * five or more are compared, neither does how far healthy ranks differ, AND three quarters of
 * its blocks have at least half of it, as health_ends.c has it of a port's partners.  So a
 * disturbance of one block, however large, accuses nobody.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_analysis.h"
#include "watch/watch_parts.h"

enum {
    CALLS_LEAST = 2 * WATCH_BLOCKS, /* two a block, or a block is chance */
    STEP_MOST = 512,                /* calls of a step that are tried */
    EXACT_MOST = 64,                /* ranks; of more, one's share in the median is nothing */
    LUMPS_LEAST = 5                 /* that have a rhythm */
};

struct late {
    const struct watch *w;
    double start_s, block_s;
    double (*sum)[WATCH_BLOCKS];      /* [processes] s of lateness */
    double (*overlap)[WATCH_BLOCKS];  /* the same of overlapping calls, of one communicator */
    double (*overlaps)[WATCH_BLOCKS]; /* the most of any */
    double *most;                     /* [processes] of one communicator, and which */
    int *comm;
    double *value, *room, *of_comm; /* [the largest communicator] */
    double *top;
    int64_t rows[WATCH_BLOCKS];
};

/* ---- one call ---- */

static int downwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x < y) - (x > y);
}

/* The k-th smallest; reorders v. */
static double select_kth(double *v, int n, int k)
{
    int lo = 0, hi = n - 1;

    while (lo < hi) {
        double pivot = v[lo + (hi - lo) / 2];
        int i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot)
                i++;
            while (v[j] > pivot)
                j--;
            if (i <= j) {
                double t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return v[k];
}

/* v[i] less the median of the others. */
static void subtract_others(double *v, int n, double *room)
{
    if (n > EXACT_MOST) {
        memcpy(room, v, (size_t)n * sizeof *v);
        double middle = select_kth(room, n, n / 2);
        for (int i = 0; i < n; i++)
            v[i] -= middle;
        return;
    }
    memcpy(room, v, (size_t)n * sizeof *v);
    qsort(room, (size_t)n, sizeof *room, downwards);
    for (int i = 0; i < n; i++) {
        int at = 0, lower = (n - 2) / 2, upper = (n - 1) / 2; /* of n - 1 others */
        while (room[at] > v[i])
            at++;
        v[i] -= (room[lower + (lower >= at)] + room[upper + (upper >= at)]) / 2;
    }
}

/* Of a complete row the lateness of each member, s.  1: of overlapping calls. */
static int row_lateness(const struct late *l, const struct watch_comm *c, int64_t row,
                        double *out)
{
    const struct watch_cell *cell = watch_row(c, row);
    int overlap = l->w->times != WATCH_TIMES;

    for (int m = 0; m < c->size; m++)
        overlap |= cell[m].gap_ns < 0;
    for (int m = 0; m < c->size; m++)
        out[m] = 1e-9 *
                 (double)(overlap ? cell[m].arrived_ns - cell[m].completed_ns : cell[m].gap_ns);
    subtract_others(out, c->size, l->room);
    return overlap;
}

static double completed_s(const struct watch *w, const struct watch_comm *c, int64_t row)
{
    return 1e-9 * (double)watch_row(c, row)->completed_ns -
           w->host[w->process[c->process[0]].host].offset_s;
}

/* Calls until operations and sizes of a communicator repeat; 0: they do not. */
static int step_calls(const struct watch_comm *c)
{
    int64_t most = c->calls / 4 < STEP_MOST ? c->calls / 4 : STEP_MOST;

    for (int p = 1; p <= most; p++) {
        int64_t differ = 0, bound = (c->calls - p) / 20; /* what is out of the rhythm: 5 % */
        for (int64_t k = 0; k + p < c->calls && differ <= bound; k++) {
            const struct watch_cell *a = watch_row(c, k), *b = watch_row(c, k + p);
            differ += a->op != b->op || a->bytes != b->bytes;
        }
        if (differ <= bound)
            return p;
    }
    return 0;
}

/* ---- all calls ---- */

static int block_of(const struct late *l, double at_s)
{
    int b = (int)((at_s - l->start_s) / l->block_s);

    return b < 0 ? 0 : b >= WATCH_BLOCKS ? WATCH_BLOCKS - 1 : b;
}

static void add_comm(struct late *l, int which)
{
    const struct watch_comm *c = &l->w->comm[which];
    int step = step_calls(c);

    memset(l->of_comm, 0, (size_t)c->size * sizeof *l->of_comm);
    for (int64_t row = 0; row < c->calls; row++) {
        if (row % (step ? step : 1) == 0)
            memset(l->top, 0, (size_t)c->size * sizeof *l->top);
        if (!watch_is_complete(c, row))
            continue;
        int overlap = row_lateness(l, c, row, l->value);
        int b = block_of(l, completed_s(l->w, c, row));
        l->rows[b]++;
        for (int m = 0; m < c->size; m++) {
            int p = c->process[m];
            double v = overlap ? fmax(0, l->value[m] - l->top[m]) : l->value[m];
            l->top[m] = overlap ? fmax(l->top[m], l->value[m]) : 0;
            (overlap ? l->overlap : l->sum)[p][b] += v;
            l->of_comm[m] += v;
        }
    }
    for (int m = 0; m < c->size; m++) {
        int p = c->process[m];
        if (p < 0)
            continue;
        for (int b = 0; b < WATCH_BLOCKS; b++) {
            l->overlaps[p][b] = fmax(l->overlaps[p][b], l->overlap[p][b]);
            l->overlap[p][b] = 0;
        }
        if (l->comm[p] < 0 || l->of_comm[m] > l->most[p]) {
            l->comm[p] = which;
            l->most[p] = l->of_comm[m];
        }
    }
}

/* When the first and the last call that count were over; how many there are. */
static int64_t span(const struct watch *w, double *start_s, double *end_s)
{
    int64_t n = 0;

    *start_s = INFINITY;
    *end_s = -INFINITY;
    for (int i = 0; i < w->comms; i++)
        for (int64_t row = 0; row < w->comm[i].calls; row++)
            if (watch_is_complete(&w->comm[i], row)) {
                double at = completed_s(w, &w->comm[i], row);
                *start_s = fmin(*start_s, at);
                *end_s = fmax(*end_s, at);
                n++;
            }
    return n;
}

/* Percent of lateness, by blocks, of each process. */
static void fill_blocks(struct late *l, struct watch_verdict *v)
{
    int n = l->w->processes;
    double *all = mem_new((size_t)n, sizeof *all), *room = mem_new((size_t)n, sizeof *room);

    for (int b = 0; b < WATCH_BLOCKS; b++) {
        for (int p = 0; p < n; p++)
            all[p] = l->overlaps[p][b];
        if (n > 1) /* chance alone makes the largest of a step positive, everywhere */
            subtract_others(all, n, room);
        for (int p = 0; p < n; p++) {
            double late_s = l->sum[p][b] + all[p], rest_s = l->block_s - fmax(late_s, 0);
            v->late[p].block[b] =
                l->rows[b] ? 100 * late_s / fmax(rest_s, l->block_s / 100) : NAN;
        }
        v->blocks += l->rows[b] > 0;
    }
    mem_free(all);
    mem_free(room);
}

static int known_blocks(const struct watch_late *x, double *out)
{
    int n = 0;

    for (int b = 0; b < WATCH_BLOCKS; b++)
        if (!isnan(x->block[b]))
            out[n++] = x->block[b];
    return n;
}

static void fill_medians(const struct watch *w, struct watch_verdict *v)
{
    double *mad = mem_new((size_t)w->processes, sizeof *mad), each[WATCH_BLOCKS];

    for (int p = 0; p < w->processes; p++) {
        int n = known_blocks(&v->late[p], each);
        v->late[p].percent = stats_median(each, n);
        mad[p] = stats_mad(each, n, v->late[p].percent);
    }
    double *copy = mem_new((size_t)w->processes, sizeof *copy);
    memcpy(copy, mad, (size_t)w->processes * sizeof *copy);
    double pooled = stats_median(copy, w->processes);
    for (int p = 0; p < w->processes; p++) {
        double own = health_deviation(mad[p], v->blocks, pooled);
        double error = health_median_error(fmax(own, 1e-3), v->blocks);
        v->late[p].z = v->late[p].percent / error;
    }
    mem_free(copy);
    mem_free(mad);
}

/* ---- the verdict ---- */

/* How far healthy ranks differ: the deviation of their medians, where there are enough. */
static double peers_deviation(const struct watch *w, const struct watch_verdict *v)
{
    double *each = mem_new((size_t)w->processes, sizeof *each);

    for (int p = 0; p < w->processes; p++)
        each[p] = v->late[p].percent;
    double middle = stats_median(each, w->processes);
    double mad = w->processes >= HEALTH_PEERS_LEAST ? stats_mad(each, w->processes, middle) : 0;
    mem_free(each);
    return mad;
}

static int is_late(const struct watch_rules *r, const struct watch_verdict *v, int p, double z,
                   double peers)
{
    const struct watch_late *x = &v->late[p];
    int n = 0, saw = 0;

    for (int b = 0; b < WATCH_BLOCKS; b++) {
        n += !isnan(x->block[b]);
        saw += x->block[b] >= x->percent / 2;
    }
    return watch_rules_state(r, x->percent) != HEALTH_OK && x->z > z &&
           x->percent > z * peers && 4 * saw >= 3 * n;
}

/* ---- the pattern ---- */

struct pattern {
    int lumps, step;
    int rhythm;                    /* calls from one to the next, of most; 0: there is none */
    double every_s;                /* s, of nearly all; 0: none */
    double share, percent;         /* of the calls of the commonest operation; of the run */
    const struct watch_cell *cell; /* of that operation */
};

/* The calls with the most lateness that have half of it all are typical: half of their median.
 */
static double lump_threshold(double *sorted, int n)
{
    double sum = 0, part = 0;
    int k = 0;

    qsort(sorted, (size_t)n, sizeof *sorted, downwards);
    for (int i = 0; i < n && sorted[i] > 0; i++)
        sum += sorted[i];
    while (k < n && part < sum / 2)
        part += sorted[k++];
    return k ? sorted[k / 2] / 2 : INFINITY;
}

/*
 * In calls: four lumps of five, and as many as there could be, are at one place of the
 * commonest interval.  In seconds: intervals differ by less than a tenth (their MAD), as the
 * periods of a scheduler do and those of work do not.
 */
static void find_rhythm(struct pattern *t, const int64_t *row, const double *at_s)
{
    int n = t->lumps - 1, most = 0, there = 0;
    double *s = mem_new((size_t)t->lumps, sizeof *s);
    int64_t every = 1;

    for (int i = 0; i < n; i++) {
        int same = 0;
        for (int j = 0; j < n; j++)
            same += row[j + 1] - row[j] == row[i + 1] - row[i];
        if (same > most) {
            most = same;
            every = row[i + 1] - row[i];
        }
        s[i] = at_s[i + 1] - at_s[i];
    }
    for (int i = 0; i <= n; i++) {
        int same = 0;
        for (int j = 0; j <= n; j++)
            same += (row[j] - row[i]) % every == 0;
        there = same > there ? same : there;
    }
    if (5 * there >= 4 * t->lumps && 5 * (int64_t)there * every >= 4 * (row[n] - row[0]))
        t->rhythm = (int)every;
    double middle = stats_median(s, n);
    t->every_s = stats_mad(s, n, middle) < 0.1 * middle ? middle : 0;
    mem_free(s);
}

static void find_pattern(struct late *l, int process, struct pattern *t)
{
    const struct watch_comm *c = &l->w->comm[l->comm[process]];
    double *v = mem_new((size_t)c->calls, sizeof *v),
           *at = mem_new((size_t)c->calls, sizeof *at);
    double *sorted = mem_new((size_t)c->calls, sizeof *sorted), late_s = 0;
    int64_t *row = mem_new((size_t)c->calls, sizeof *row), of[METER_OPS] = {0};
    int64_t lumps[METER_OPS] = {0};
    int n = 0, member = 0, op = 0;

    *t = (struct pattern){.step = step_calls(c)};
    while (c->process[member] != process)
        member++;
    for (int64_t k = 0; k < c->calls; k++)
        if (watch_is_complete(c, k)) {
            row_lateness(l, c, k, l->value);
            row[n] = k;
            at[n] = completed_s(l->w, c, k);
            sorted[n] = v[n] = l->value[member];
            n++;
        }
    double threshold = lump_threshold(sorted, n);
    for (int i = 0; i < n; i++) {
        int o = watch_row(c, row[i])->op;
        of[o]++;
        if (v[i] < threshold)
            continue;
        lumps[o]++;
        op = lumps[o] > lumps[op] ? o : op;
        late_s += v[i];
        at[t->lumps] = at[i];
        row[t->lumps++] = row[i];
    }
    for (int i = 0; i < t->lumps; i++)
        if (watch_row(c, row[i])->op == op)
            t->cell = watch_row(c, row[i]);
    t->share = of[op] ? (double)lumps[op] / (double)of[op] : 0;
    t->percent = 100 * late_s / fmax(WATCH_BLOCKS * l->block_s - late_s, l->block_s);
    if (t->lumps >= LUMPS_LEAST && t->lumps <= 4096)
        find_rhythm(t, row, at);
    mem_free(v);
    mem_free(at);
    mem_free(sorted);
    mem_free(row);
}

/* What is late at every step, or in most calls, is compute. */
static enum watch_kind kind_of(const struct pattern *t)
{
    if (t->rhythm && t->step && t->rhythm > t->step && t->rhythm % t->step == 0)
        return WATCH_PERIODIC;
    if (t->share >= 0.5 || (t->rhythm && t->rhythm == t->step))
        return WATCH_LATE;
    if (t->rhythm && !t->step)
        return WATCH_PERIODIC;
    return t->every_s > 0 ? WATCH_PAUSED : WATCH_UNSTEADY;
}

static void accuse(const struct late *l, const struct watch_rules *r, struct watch_verdict *v,
                   int p, const struct pattern *t, double percent)
{
    char name[160], call[80];
    struct units u;
    enum watch_kind kind = kind_of(t);
    int steps = t->step ? t->rhythm / t->step : t->rhythm;

    watch_name(l->w, p, name, sizeof name);
    snprintf(call, sizeof call, "%s", t->cell ? meter_op_names[t->cell->op] : "collective");
    struct watch_finding *f =
        kind == WATCH_LATE ? watch_find(v, kind, watch_rules_state(r, percent), p,
                                        "%s is %.0f %% late in %.0f %% of %ss: its own compute",
                                        name, percent, 100 * t->share, call)
        : kind == WATCH_PERIODIC
            ? watch_find(v, kind, watch_rules_state(r, percent), p,
                         "%s is %.0f %% late, by a stall every %d %s: its input", name, percent,
                         steps, t->step ? "steps" : "calls")
        : kind == WATCH_PAUSED
            ? watch_find(v, kind, watch_rules_state(r, percent), p,
                         "%s is %.0f %% late, by a pause every %s: a limit of its processor",
                         name, percent, units_time(&u, t->every_s))
            : watch_find(v, kind, watch_rules_state(r, percent), p,
                         "%s is %.0f %% late, without a rhythm: its compute or its host", name,
                         percent);
    f->host = l->w->process[p].host;
    f->percent = percent;
    f->z = v->late[p].z;
    f->share = t->share;
    f->period = kind == WATCH_PERIODIC ? steps : kind == WATCH_PAUSED ? t->every_s : NAN;
}

/* A host all of whose ranks are late is named once. */
static void merge_hosts(const struct watch *w, struct watch_verdict *v)
{
    for (int h = 0; h < w->hosts; h++) {
        int all = 0, first = -1, last = -1, n = 0;
        double least = INFINITY;
        for (int p = 0; p < w->processes; p++)
            all += w->process[p].host == h;
        for (int i = 0; i < v->findings; i++)
            if (v->finding[i].process >= 0 && v->finding[i].host == h) {
                n++;
                least = fmin(least, v->finding[i].percent);
                first = first < 0 ? i : first;
            }
        if (all < 2 || n < all || all == w->processes)
            continue;
        struct watch_finding *f = &v->finding[first];
        for (int i = last = first + 1; i < v->findings; i++)
            if (v->finding[i].process < 0 || v->finding[i].host != h)
                v->finding[last++] = v->finding[i];
        v->findings = last;
        f->process = -1;
        f->percent = least;
        snprintf(f->text, sizeof f->text,
                 "%s: all of its %d ranks are %.0f %% late or more: the host", w->host[h].name,
                 all, least);
    }
}

static void judge_processes(struct late *l, const struct watch_rules *r,
                            struct watch_verdict *v)
{
    int n = l->w->processes;
    double z = health_accusing_z(n, (double)n * v->blocks), peers = peers_deviation(l->w, v);
    struct pattern t;

    for (int p = 0; p < n; p++) {
        double each[WATCH_BLOCKS], mean = 0;
        int blocks = known_blocks(&v->late[p], each);
        for (int b = 0; b < blocks; b++)
            mean += each[b] / blocks;
        v->late[p].share = NAN;
        if (watch_rules_state(r, fmax(mean, v->late[p].percent)) == HEALTH_OK || l->comm[p] < 0)
            continue;
        find_pattern(l, p, &t);
        v->late[p].share = t.share;
        /* A rhythm of the program's own steps is no chance, however rare it is. */
        if (is_late(r, v, p, z, peers))
            accuse(l, r, v, p, &t, v->late[p].percent);
        else if (kind_of(&t) == WATCH_PERIODIC && watch_rules_state(r, t.percent) != HEALTH_OK)
            accuse(l, r, v, p, &t, t.percent);
    }
    merge_hosts(l->w, v);
}

void watch_judge_late(const struct watch *w, const struct watch_rules *r,
                      struct watch_verdict *v)
{
    struct late l = {.w = w};
    size_t n = (size_t)w->processes, most = 1;
    double end_s;

    v->judged = span(w, &l.start_s, &end_s);
    l.block_s = (end_s - l.start_s) / WATCH_BLOCKS;
    v->why = w->times == WATCH_ORDER ? "the records have no times"
             : w->processes < 2      ? "records of one process"
             : v->judged < CALLS_LEAST || !(l.block_s > 0)
                 ? "fewer than 40 calls that all of their ranks completed"
                 : NULL;
    if (v->why)
        return;
    for (int i = 0; i < w->comms; i++)
        most = (size_t)w->comm[i].size > most ? (size_t)w->comm[i].size : most;
    l.sum = mem_new(n, sizeof *l.sum);
    l.overlap = mem_new(n, sizeof *l.overlap);
    l.overlaps = mem_new(n, sizeof *l.overlaps);
    l.most = mem_new(n, sizeof *l.most);
    l.comm = mem_new(n, sizeof *l.comm);
    l.value = mem_new(4 * most, sizeof *l.value);
    l.room = l.value + most;
    l.of_comm = l.room + most;
    l.top = l.of_comm + most;
    for (size_t p = 0; p < n; p++)
        l.comm[p] = -1;
    for (int i = 0; i < w->comms; i++)
        add_comm(&l, i);
    fill_blocks(&l, v);
    fill_medians(w, v);
    judge_processes(&l, r, v);
    mem_free(l.sum);
    mem_free(l.overlap);
    mem_free(l.overlaps);
    mem_free(l.most);
    mem_free(l.comm);
    mem_free(l.value);
}
