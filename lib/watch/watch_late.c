/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds which ranks arrive late at collectives, by how much, and in which pattern.  Clocks of
 * different hosts need not agree.  The measure is the time that a rank worked between two
 * calls, or, if calls overlap (a call began before the previous one ended), the time that it
 * waited in a call.
 *
 *     rank 0   work  |wait.....|  work  |wait.....|     gap = work; minus the others' median
 *     rank 1   work  |wait.....|  work  |wait.....|     it is the rank's own lateness
 *     rank 2   work work work  |  work work work  |     in that call
 *                              ^ all leave
 *
 * Lateness is summed over a BLOCK, one of WATCH_BLOCKS equal stretches of time, and divided by
 * the rest of the block: the percentage by which the rank makes the run longer.  It is
 * ambiguous if ranks work while calls are in progress: an apparent wait may be work, and one
 * delay makes a rank late in all later calls.  So lateness counts once in a chain of such
 * calls, on any communicators: the largest value, a lower bound of the rank's lateness.
 * Lateness compares the ranks' work times, if recorded, but is at most the time that the others
 * waited: work that nobody waits for does not lengthen the run.
 *
 * A rank is late if the median over the blocks is outside the range, AND chance does not
 * explain it among this many ranks (health_accusing_z, from the spread of its shares of the
 * blocks), AND, with five or more ranks, the spread of healthy ranks does not explain it, AND
 * three quarters of its blocks have at least half of it (as in health_ends.c for a port's
 * partners).  So a disturbance of one block, however large, accuses nobody.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_analysis.h"
#include "watch/watch_parts.h"

/* Lateness of calls with known work, the others' waiting time, and lateness of chains. */
enum { WORKED, WAITED, CHAINED, SUMS };

enum {
    CALLS_LEAST = 2 * WATCH_BLOCKS, /* at least two per block: one call is chance */
    STEP_MOST = 512,                /* most calls of a step that are tried */
    SAMPLE = 48,                    /* ranks; the median of more ranks is that of a sample */
    LUMPS_LEAST = 5                 /* fewest lumps with a rhythm */
};

struct first {
    /* The latest chain on this communicator, and its first call here */
    int64_t chain, sequence;
    int process; /* index + 1 of the process whose lateness on it is total_s */
    double total_s;
};

struct late {
    const struct watch *w;
    double start_s, block_s;
    double (*sum)[SUMS][WATCH_BLOCKS]; /* [processes] s */
    double **call; /* [comms][rows][members + 1] s; last: calls of a step if calls overlap */
    struct first *first; /* [comms] of the process being added */
    int64_t chain;       /* number of the latest chain of all processes, from 1 */
    int *step;           /* [comms] calls until they repeat; 0: they do not */
    /* [processes] a call of the communicator with most of the lateness; NULL: no call counts */
    const struct watch_call **typical;
    int64_t rows[WATCH_BLOCKS]; /* calls in each block */
};

/* ---- one call ---- */

/* Subtracts from v[i] the median of the others. */
static void subtract_others(double *v, int n)
{
    double space[SAMPLE];
    int some = n < SAMPLE ? n : SAMPLE;

    /* A pseudo-random sample: every k-th rank may have the same role */
    for (int i = 0; i < some; i++)
        space[i] = v[n > some ? (int)((unsigned)i * 2654435761u % (unsigned)n) : i];
    stats_median(space, some); /* sorts */
    const double *low = &space[(some - 2) / 2], *high = &space[(some - 1) / 2];
    for (int i = 0; i < n; i++)
        v[i] -= (low[*low >= v[i]] + high[*high >= v[i]]) / 2;
}

static double completed_s(const struct watch *w, const struct watch_comm *c, int64_t row)
{
    return watch_time_s(w, c->process[0], watch_row(c, row)->completed_ns);
}

/* Number of calls until operations and sizes of a communicator repeat; 0: they do not. */
static int step_calls(const struct watch_comm *c)
{
    int64_t most = c->calls / 4 < STEP_MOST ? c->calls / 4 : STEP_MOST;

    for (int p = 1; p <= most; p++) {
        /* Calls out of the rhythm: at most 5 % */
        int64_t differ = 0, bound = (c->calls - p) / 20;
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

static int late_block_of(const struct late *l, const struct watch_comm *c, int64_t row)
{
    return (int)fmin((completed_s(l->w, c, row) - l->start_s) / l->block_s, WATCH_BLOCKS - 1);
}

/* v[members + 1] of a call.  step: calls until they repeat; 0: they do not. */
static void add_call(struct late *l, const struct watch_comm *c, int64_t row, int step,
                     double *v)
{
    const struct watch_cell *cell = watch_row(c, row);
    int apart = 1, recorded = l->w->times == WATCH_TIMES, n = c->size,
        b = late_block_of(l, c, row);

    for (int m = 0; m < n; m++) {
        apart &= cell[m].gap_ns >= 0;
        recorded &= cell[m].work_ns > 0;
    }
    for (int m = 0; m < n; m++)
        v[m] = 1e-9 * (double)(apart && !recorded && l->w->times == WATCH_TIMES
                                   ? cell[m].gap_ns
                                   : cell[m].arrived_ns - cell[m].completed_ns);
    subtract_others(v, n);
    for (int m = 0; m < n && (apart || recorded); m++)
        l->sum[c->process[m]][WAITED][b] += fmax(0, v[m]);
    v[n] = apart || recorded ? 0 : step ? step : INFINITY;
    for (int m = 0; m < n && recorded; m++)
        v[m] = 1e-9 * (double)cell[m].work_ns;
    if (recorded)
        subtract_others(v, n);
}

static void late_add_comm(struct late *l, int which)
{
    const struct watch_comm *c = &l->w->comm[which];
    double *v = mem_new((size_t)(c->calls * (c->size + 1)) + 1, sizeof *v);

    l->step[which] = step_calls(c);
    l->call[which] = v;
    for (int64_t row = 0; row < c->calls; row++, v += c->size + 1)
        if (c->complete[row])
            add_call(l, c, row, l->step[which], v);
}

/* A chain begins with a call that does not overlap and lasts at most a step: until a call that
   is a step later on its communicator than the chain's first call there. */
static void add_process(struct late *l, int p)
{
    const struct watch_call *x = &l->w->call[l->w->process[p].first_call];
    double chain_s = 0;

    l->chain++;
    for (int64_t i = 0; i < l->w->process[p].calls; i++, x++) {
        const struct watch_comm *c = &l->w->comm[x->comm];
        int64_t row = x->sequence - c->first;
        if (row < 0 || row >= c->calls || !c->complete[row])
            continue;
        const double *v = &l->call[x->comm][row * (c->size + 1)], late_s = v[x->member];
        int overlap = v[c->size] > 0, b = late_block_of(l, c, row);
        struct first *f = &l->first[x->comm];
        int same = f->chain == l->chain;
        if (!overlap || (same && (double)(x->sequence - f->sequence) >= v[c->size])) {
            l->chain++;
            chain_s = 0;
            same = 0;
        }
        if (!same)
            *f = (struct first){l->chain, x->sequence, f->process, f->total_s};
        l->rows[b]++;
        l->sum[p][overlap ? CHAINED : WORKED][b] +=
            overlap ? fmax(0, late_s - chain_s) : late_s;
        chain_s = fmax(chain_s, late_s);
        f->total_s = late_s + (f->process == p + 1 ? f->total_s : 0);
        f->process = p + 1;
        if (!l->typical[p] || f->total_s > l->first[l->typical[p]->comm].total_s)
            l->typical[p] = x;
    }
}

/* Completion times of the first and last call that count; returns their number. */
static int64_t span(const struct watch *w, double *start_s, double *end_s)
{
    int64_t n = 0;

    *start_s = INFINITY;
    *end_s = -INFINITY;
    for (int i = 0; i < w->comms; i++)
        for (int64_t row = 0; row < w->comm[i].calls; row++)
            if (w->comm[i].complete[row]) {
                double at = completed_s(w, &w->comm[i], row);
                *start_s = fmin(*start_s, at);
                *end_s = fmax(*end_s, at);
                n++;
            }
    return n;
}

/* Converts lateness in percent of the remaining time to a share of the total time, and back. */
static double late_share_of(double percent)
{
    return percent / (100 + fmax(percent, 0));
}

static double percent_of(double share)
{
    return 100 * share / (1 - fmin(fmax(share, 0), 0.99));
}

/* As shares: if little of a block remains, a percentage of it is mostly chance. */
static int known_blocks(const struct watch_late *x, double *share)
{
    int n = 0;

    for (int b = 0; b < WATCH_BLOCKS; b++)
        if (!isnan(x->block[b]))
            share[n++] = late_share_of(x->block[b]);
    return n;
}

/* Fills each process's percent of lateness by block, and the median. */
static void fill_late(struct late *l, struct watch_verdict *v)
{
    int n = l->w->processes;
    double *all = mem_new((size_t)n, sizeof *all), *mad = mem_new((size_t)n, sizeof *mad),
           *space = mem_new((size_t)n, sizeof *space), each[WATCH_BLOCKS];

    for (int b = 0; b < WATCH_BLOCKS; b++) {
        for (int p = 0; p < n; p++)
            all[p] = l->sum[p][CHAINED][b];
        subtract_others(all, n); /* sums of positive values are positive by chance alone */
        for (int p = 0; p < n && l->rows[b]; p++) {
            double late_s = fmin(l->sum[p][WORKED][b], l->sum[p][WAITED][b]) + all[p],
                   rest_s = l->block_s - fmax(late_s, 0);
            v->late[p].block[b] = 100 * late_s / fmax(rest_s, l->block_s / 100);
        }
        v->blocks += l->rows[b] > 0;
    }
    for (int p = 0; p < n; p++) {
        known_blocks(&v->late[p], each);
        all[p] = stats_median(each, v->blocks);
        v->late[p].percent = percent_of(all[p]);
        space[p] = mad[p] = stats_mad(each, v->blocks, all[p]);
    }
    double pooled = stats_median(space, n);
    double z = health_accusing_z(n, (double)n * v->blocks);
    for (int p = 0; p < n; p++) {
        v->late[p].chance = health_median_error(
            fmax(health_deviation(mad[p], v->blocks, pooled), 1e-5), v->blocks);
        v->late[p].z = all[p] / v->late[p].chance;
    }
    double peers = n >= HEALTH_PEERS_LEAST ? stats_mad(all, n, stats_median(all, n)) : 0;
    for (int p = 0; p < n; p++)
        v->late[p].chance = percent_of(z * fmax(v->late[p].chance, peers));
    MEM_FREE(all, mad, space);
}

/* ---- the pattern ---- */

struct pattern {
    int lumps, step;
    int rhythm;     /* calls between most lumps; 0: none */
    double every_s; /* seconds between nearly all lumps; 0: none */
    /* Share of the most frequent operation's calls; percent of the run */
    double share, percent;
    const char *op; /* that operation's name */
};

/* The largest latenesses that make up half of the total are typical; the threshold is half
   their median. */
static double lump_threshold(double *v, int n)
{
    double sum = 0, part = 0;
    int k = n;

    stats_median(v, n); /* sorts */
    for (int i = 0; i < n; i++)
        sum += fmax(v[i], 0);
    while (k > 0 && part < sum / 2)
        part += v[--k];
    return k < n ? v[n - 1 - (n - k) / 2] / 2 : INFINITY;
}

/*
 * In calls: two of three lumps are followed by another one at the median interval (additional
 * calls of the program now and then shift all later ones), and such intervals cover two thirds
 * of the calls.  In seconds: intervals differ by less than a tenth (their MAD), which is true
 * of scheduler periods but not of work.
 */
static void find_rhythm(struct pattern *t, const int64_t *row, const double *at_s)
{
    int n = t->lumps - 1, there = 0;
    double *s = mem_new((size_t)n, sizeof *s);

    for (int i = 0; i < n; i++)
        s[i] = (double)(row[i + 1] - row[i]);
    int64_t every = (int64_t)stats_median(s, n);
    for (int i = 0, j = 1; i < n; i++) {
        while (j <= n && row[j] < row[i] + every)
            j++;
        there += j <= n && row[j] == row[i] + every;
    }
    if (3 * there >= 2 * n && 3 * there * every >= 2 * (row[n] - row[0]))
        t->rhythm = (int)every;
    for (int i = 0; i < n; i++)
        s[i] = at_s[i + 1] - at_s[i];
    double middle = stats_median(s, n);
    t->every_s = stats_mad(s, n, middle) < 0.1 * middle ? middle : 0;
    mem_free(s);
}

static void find_pattern(const struct late *l, int process, struct pattern *t)
{
    const struct watch_call *x = l->typical[process];
    const struct watch_comm *c = &l->w->comm[x->comm];
    double *v = mem_new(3 * (size_t)c->calls, sizeof *v), *at = v + c->calls,
           *sorted = at + c->calls, late_s = 0;
    int64_t *row = mem_new((size_t)c->calls, sizeof *row);
    int n = 0, op = 0, of[METER_OPS] = {0}, lumps[METER_OPS] = {0};

    *t = (struct pattern){.step = l->step[x->comm]};
    for (int64_t k = 0; k < c->calls; k++)
        if (c->complete[k]) {
            row[n] = k;
            at[n] = completed_s(l->w, c, k);
            sorted[n] = v[n] = l->call[x->comm][k * (c->size + 1) + x->member];
            n++;
        }
    double threshold = lump_threshold(sorted, n);
    for (int i = 0; i < n; i++) {
        int o = watch_row(c, row[i])->op;
        of[o]++;
        if (v[i] < threshold)
            continue;
        op = ++lumps[o] > lumps[op] ? o : op;
        late_s += v[i];
        at[t->lumps] = at[i];
        row[t->lumps++] = row[i];
    }
    t->op = meter_op_names[op];
    t->share = of[op] ? (double)lumps[op] / of[op] : 0;
    t->percent = 100 * late_s / fmax(WATCH_BLOCKS * l->block_s - late_s, l->block_s);
    if (t->lumps >= LUMPS_LEAST)
        find_rhythm(t, row, at);
    mem_free(v);
    mem_free(row);
}

/* Lateness in every step, or in most calls, is caused by compute. */
static enum watch_kind late_kind_of(const struct pattern *t)
{
    if (t->rhythm && t->step && t->rhythm > t->step && t->rhythm % t->step == 0)
        return WATCH_PERIODIC;
    if (t->share >= 0.5 || (t->rhythm && t->rhythm == t->step))
        return WATCH_LATE;
    if (t->rhythm && !t->step)
        return WATCH_PERIODIC;
    return t->every_s > 0 ? WATCH_PAUSED : WATCH_UNSTEADY;
}

/* ---- the verdict ---- */

static void accuse(const struct late *l, const struct watch_rules *r, struct watch_verdict *v,
                   int p, const struct pattern *t, double percent)
{
    enum watch_kind kind = late_kind_of(t);
    int steps = t->step ? t->rhythm / t->step : t->rhythm;
    char name[160], how[96] = ", without a rhythm: its compute or its host";
    struct units u;

    if (kind == WATCH_LATE)
        snprintf(how, sizeof how, " in %.0f %% of %ss: its own compute", 100 * t->share, t->op);
    else if (kind == WATCH_PERIODIC)
        snprintf(how, sizeof how, ", by a stall every %d %s: its input", steps,
                 t->step ? "steps" : "calls");
    else if (kind == WATCH_PAUSED)
        snprintf(how, sizeof how, ", by a pause every %s: a limit of its processor",
                 units_time(&u, t->every_s));
    struct watch_finding *f =
        watch_find(l->w, v, kind, watch_rules_state(r, percent), p, "%s is %.0f %% late%s",
                   watch_name(l->w, p, name, sizeof name), percent, how);
    f->percent = percent;
    f->z = v->late[p].z;
    f->share = t->share;
    f->period = kind == WATCH_PERIODIC ? steps : kind == WATCH_PAUSED ? t->every_s : NAN;
}

static int is_late_on(const struct watch_finding *f, int host)
{
    return f->process >= 0 && f->host == host && !isnan(f->percent);
}

/* If all ranks of a host are late, names the host once. */
static void merge_hosts(const struct watch *w, struct watch_verdict *v)
{
    int *of = mem_new((size_t)w->hosts, sizeof *of);

    for (int p = 0; p < w->processes; p++)
        of[w->process[p].host]++;
    for (int h = 0; h < w->hosts; h++) {
        enum health_state worst = HEALTH_OK;
        int all = of[h], n = 0, kept = 0;
        double least = INFINITY;
        for (int i = 0; i < v->findings && all > 1; i++)
            if (is_late_on(&v->finding[i], h)) {
                n++;
                least = fmin(least, v->finding[i].percent);
                worst = health_worse(worst, v->finding[i].state);
            }
        if (all < 2 || n < all || all == w->processes)
            continue;
        for (int i = 0, seen = 0; i < v->findings; i++) {
            struct watch_finding *f = &v->finding[i];
            int is_one = is_late_on(f, h);
            if (is_one && seen++)
                continue;
            v->finding[kept++] = *f;
            if (!is_one)
                continue;
            f = &v->finding[kept - 1];
            f->process = f->rank = -1;
            f->state = worst;
            f->percent = least;
            snprintf(f->text, sizeof f->text,
                     "%s: all of its %d ranks are %.0f %% late or more: the host",
                     w->host[h].name, all, least);
        }
        v->findings = kept;
    }
    mem_free(of);
}

static void judge_processes(struct late *l, const struct watch_rules *r,
                            struct watch_verdict *v)
{
    int n = l->w->processes;
    double each[WATCH_BLOCKS];
    struct pattern t;

    for (int p = 0; p < n; p++) {
        struct watch_late *x = &v->late[p];
        double most = 0; /* the mean at first */
        int blocks = known_blocks(x, each), saw = 0;
        for (int b = 0; b < blocks; b++) {
            most += each[b] / blocks;
            saw += each[b] >= late_share_of(x->percent) / 2;
        }
        most = fmax(percent_of(most), x->percent);
        if (!l->typical[p] || watch_rules_state(r, most) == HEALTH_OK)
            continue;
        find_pattern(l, p, &t);
        t.percent = fmin(t.percent, most); /* the sum includes all calls of a chain */
        /* A rhythm of the program's own steps is not chance, however rare it is. */
        if (watch_rules_state(r, x->percent) != HEALTH_OK && x->percent > x->chance &&
            4 * saw >= 3 * blocks)
            accuse(l, r, v, p, &t, x->percent);
        else if (late_kind_of(&t) == WATCH_PERIODIC &&
                 watch_rules_state(r, t.percent) != HEALTH_OK)
            accuse(l, r, v, p, &t, t.percent);
    }
    merge_hosts(l->w, v);
}

void watch_judge_late(const struct watch *w, const struct watch_rules *r,
                      struct watch_verdict *v)
{
    struct late l = {.w = w};
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
    l.sum = mem_new((size_t)w->processes, sizeof *l.sum);
    l.typical = mem_new((size_t)w->processes, sizeof *l.typical);
    l.step = mem_new((size_t)w->comms, sizeof *l.step);
    l.first = mem_new((size_t)w->comms, sizeof *l.first);
    l.call = mem_new((size_t)w->comms, sizeof *l.call);
    for (int i = 0; i < w->comms; i++)
        late_add_comm(&l, i);
    for (int p = 0; p < w->processes; p++)
        add_process(&l, p);
    fill_late(&l, v);
    judge_processes(&l, r, v);
    watch_judge_inside(w, r, l.start_s, l.block_s, v);
    mem_free(l.sum);
    for (int i = 0; i < w->comms; i++)
        mem_free(l.call[i]);
    MEM_FREE(l.call, l.step, l.first, l.typical);
}
