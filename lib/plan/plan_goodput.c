/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prices failures (paro-method(7), FAILURES): the cost of a save under a strategy, the time of
 * a period of saves when nodes fail, and the intervals and copies that lose least.
 *
 *     shared save                                                shared save
 *     |--- segment ---|--- segment ---|x                  |--- ...  |
 *                     local save      failure: restart, the segment once more; or from the
 *                                     shared save, if all copies of some piece are lost
 */
#include "plan/plan_goodput.h"

#include <math.h>

#include "plan/plan_traffic.h"

/* A rank of two copied 80 MB in 10 ms (FIGURES.md, pause of a run for a checkpoint). */
static const double SNAPSHOT_BPS = 8e9;
/* Slowdown of steps while a save is written (FIGURES.md, the same run: 0.99). */
static const double DRAG = 0.01;
/* Minimal gain for which one more copy is made. */
static const double GAIN = 1e-4;

static double goodput_choose(int n, int k)
{
    double ways = 1;

    for (int i = 1; i <= k; i++)
        ways *= (double)(n - k + i) / i;
    return k > n ? 0 : ways;
}

/*
 * Counts subsets of `lost` nodes of a ring without copies + 1 in a row: each remaining node is
 * followed by 0 .. copies lost ones.  By inclusion and exclusion of those followed by more.
 */
static double harmless(int ring, int lost, int copies)
{
    double sum = 0;

    if (lost >= ring)
        return lost == 0;
    for (int j = 0, in = 0; in <= lost; j++, in = j * (copies + 1))
        sum += (j % 2 ? -1 : 1) * goodput_choose(ring - lost, j) *
               goodput_choose(ring - 1 - in, lost - in);
    return sum * ring / (ring - lost);
}

void plan_losses(int nodes, int ring, int copies, int most, double *l)
{
    double all[PLAN_FAILED_MAX + 2] = {1}, one[PLAN_FAILED_MAX + 2];
    int rings = nodes / ring;

    for (int k = 0; k <= most; k++)
        one[k] = k <= ring ? harmless(ring, k, copies) : 0;
    for (int r = 0; r < rings; r++)
        for (int k = most; k >= 0; k--) {
            double sum = 0;
            for (int i = 0; i <= k; i++)
                sum += one[i] * all[k - i];
            all[k] = sum;
        }
    for (int k = 0; k <= most; k++) {
        double share = k > rings * ring ? 0 : all[k] / goodput_choose(rings * ring, k);
        l[k] = k <= copies ? 0 : fmin(fmax(1 - share, l[k - 1]), 1);
    }
}

/* ---- the expected time of a period ---- */

/* An expected time: s seconds, plus `next` times the seconds from the end of this segment on,
   plus `shared` times the seconds of a restart from the shared folder. */
struct expected {
    double s, next, shared;
};

/* Expected seconds until a failure, at most w. */
static double until_s(double rate, double w)
{
    return rate > 0 ? -expm1(-rate * w) / rate : w;
}

/*
 * Expected time of a segment of w seconds.  After its first failure restart and segment are
 * tried until one passes: one[k] with k nodes lost, of which a failure hits another, or a
 * spare.
 */
static struct expected segment_of(const struct plan_survival *s, const double *l, double w)
{
    double rate = s->nodes / s->mtbf_s, fails = -expm1(-rate * w);
    double again_s = s->local_restart_s + w, fail = -expm1(-rate * again_s);
    int n = s->nodes / s->ring * s->ring, k = 1;
    struct expected e = {0, 0, 1};

    /* The probability of more failures before one segment passes is negligible. */
    for (double often = 1; k < PLAN_FAILED_MAX && l[k] < 1 && often > 1e-18; k++)
        often *= fail;
    for (; k > 0; k--) { /* from k - 1 lost nodes: the k-th loss is fatal with probability
                            `lost` */
        double lost = (l[k] - l[k - 1]) / (1 - l[k - 1]);
        struct expected then = {(1 - lost) * e.s, (1 - lost) * e.next,
                                lost + (1 - lost) * e.shared};
        if (k == 1) {
            e = then;
            break;
        }
        double hits = fail * (n - k + 1) / n, ends = 1 - fail + hits;
        e = (struct expected){(until_s(rate, again_s) + hits * then.s) / ends,
                              (1 - fail + hits * then.next) / ends, hits * then.shared / ends};
    }
    return (struct expected){until_s(rate, w) + fails * e.s, 1 - fails + fails * e.next,
                             fails * e.shared};
}

/* n segments of one kind and then the last; of a segment, next is 1 - shared. */
static struct expected chain(struct expected each, struct expected last, int64_t n)
{
    /* probability that one of n fails for good */
    double some = n > 0 ? -expm1((double)n * log1p(-each.shared)) : 0;
    /* expected segments before that */
    double passed = each.shared > 0 ? some / each.shared : (double)n;

    return (struct expected){(1 - some) * last.s + passed * each.s, 0,
                             (1 - some) * last.shared + some};
}

struct segments {                  /* segments of equal work */
    double work_s, each_s, last_s; /* seconds of work; with the pauses of a local save; and of a
                                      shared one */
    struct expected each, last;
};

static struct segments segments_of(const struct plan_survival *s, const double *l,
                                   double work_s)
{
    double each_s = work_s + (s->copies ? s->local_pause_s : 0), last_s = each_s + s->pause_s;

    return (struct segments){work_s, each_s, last_s, segment_of(s, l, each_s),
                             segment_of(s, l, last_s)};
}

/*
 * Returns the goodput of a period of `saves` segments.  After a restart from the shared folder
 * there is no local save until the first segment has ended: restart and segment are tried until
 * they pass (Daly's formula), then the remaining segments follow.
 */
static double goodput_of(const struct plan_survival *s, const struct segments *g, int64_t saves,
                         double *lost_share)
{
    double rate = s->nodes / s->mtbf_s;
    double again_s = s->restart_s + (saves > 1 ? g->each_s : g->last_s);
    struct expected all = chain(g->each, g->last, saves - 1), rest = {0, 0, 0};

    if (saves > 1)
        rest = chain(g->each, g->last, saves - 2);
    double passes = exp(-rate * again_s);
    double shared_s = (until_s(rate, again_s) / passes + rest.s) / (1 - rest.shared);
    double all_s = all.s + all.shared * shared_s, share = g->work_s * (double)saves / all_s;
    double restarts = all.shared / (1 - rest.shared) / passes;
    /* Rounding may give 1 + 2e-16. */
    *lost_share = !isfinite(share) ? 1 : rate > 0 ? fmin(restarts / (rate * all_s), 1) : 0;
    return isfinite(share) ? share : 0;
}

void plan_goodput(struct plan_survival *s, double step_s, int64_t every, int64_t saves)
{
    double l[PLAN_FAILED_MAX + 1];

    plan_losses(s->nodes, s->ring, s->copies, PLAN_FAILED_MAX, l);
    struct segments g = segments_of(s, l, step_s * (double)every);
    s->goodput = goodput_of(s, &g, saves, &s->lost_share);
}

/* ---- the best intervals ---- */

struct dial {
    const struct plan_survival *s;
    const double *l;
    double step_s;
    int64_t saves, least_shared;
    struct segments segments;
};

/* Returns the maximum's place of a function with one maximum, starting from `at`. */
static int64_t climb(struct dial *d, double (*of)(struct dial *, int64_t), int64_t lo,
                     int64_t hi, int64_t at)
{
    at = at < lo ? lo : at > hi ? hi : at;
    double here = of(d, at);

    for (int64_t by = at / 2 + 1; by > 0;) {
        int64_t side[] = {at - by < lo ? lo : at - by, at + by > hi ? hi : at + by};
        int64_t from = at;
        for (int i = 0; i < 2 && at == from; i++) {
            double there = of(d, side[i]);
            if (there > here) {
                here = there;
                at = side[i];
            }
        }
        by = at == from ? by / 2 : 2 * by;
    }
    return at;
}

static double at_saves(struct dial *d, int64_t saves)
{
    double ignored;

    return goodput_of(d->s, &d->segments, saves, &ignored);
}

/* Goodput when saving every `every` steps, with the best number of saves per shared save. */
static double at_every(struct dial *d, int64_t every)
{
    int64_t least = (d->least_shared + every - 1) / every;

    d->segments = segments_of(d->s, d->l, d->step_s * (double)every);
    d->saves = d->s->copies ? climb(d, at_saves, least, PLAN_EVERY_MAX / every, d->saves) : 1;
    return at_saves(d, d->saves);
}

void plan_intervals(struct plan_survival *s, double step_s, int64_t least_local,
                    int64_t least_shared)
{
    double l[PLAN_FAILED_MAX + 1], pause_s = s->copies ? s->local_pause_s : s->pause_s;
    /* Young's first-order interval: sqrt(2 * pause * mean time between failures). */
    double young = fmin(sqrt(2 * pause_s * s->mtbf_s / s->nodes) / step_s, PLAN_EVERY_MAX);
    struct dial d = {s, l, step_s, 1, least_shared, {.work_s = 0}};

    plan_losses(s->nodes, s->ring, s->copies, PLAN_FAILED_MAX, l);
    int64_t every = climb(&d, at_every, s->copies ? least_local : least_shared, PLAN_EVERY_MAX,
                          (int64_t)young);
    at_every(&d, every);
    s->local_every = s->copies ? (int)every : 0;
    s->save_every = (int)(every * d.saves);
    s->goodput = goodput_of(s, &d.segments, d.saves, &s->lost_share);
}

/* ---- goodput of a strategy ---- */

/* Seconds to send `bytes` from each member through the busiest port. */
static double port_s(const struct plan_case *c, const struct plan_traffic *t, double bytes)
{
    double s = 0;

    for (int k = 0; k < t->layout.groups.count; k++)
        s = fmax(s, t->layout.groups.members[k] * bytes / fmin(t->out_Bps[k], t->in_Bps[k]));
    return s / c->slow_rate;
}

/*
 * Prices one number of copies; -1 if so many cannot be made.  States under N and I exist in
 * each group and are copied in place.  `copies` pieces of the states under G, as they are in
 * memory (trained parameters are not sent, their masters are), cross the ports when steps do
 * not use them.  A save counts once all of it is stored.
 */
static int survive_with(const struct plan_case *c, const struct plan_traffic *t,
                        const struct plan_price *p, int copies, struct plan_survival *s)
{
    const struct plan_failures *f = &c->failures;
    struct plan_saved saved = plan_saved_of(c, t);
    double rank_bytes = saved.params + saved.optimizer, node_bytes = rank_bytes * f->node_ranks;
    double frozen = p->strategy.params == LETTER_G ? saved.frozen : 0;
    double sent = frozen + (p->strategy.optimizer == LETTER_G ? saved.optimizer : 0);
    double send_s = port_s(c, t, copies * sent), idle = fmax(1 - p->slow_s / p->step_s, 0);
    int groups = t->layout.groups.count, ring = f->nodes < groups ? f->nodes : groups;

    if (copies >= ring)
        return -1;
    double store_s =
               fmax((copies + 1) * node_bytes / f->local_Bps, send_s > 0 ? send_s / idle : 0),
           write_s = node_bytes / f->storage_Bps;
    double local = ceil(store_s / p->step_s), shared = ceil(write_s / p->step_s);
    if (local > PLAN_EVERY_MAX || shared > PLAN_EVERY_MAX)
        return -1;
    *s = (struct plan_survival){
        .mtbf_s = f->mtbf_s,
        .nodes = f->nodes,
        .ring = ring,
        .copies = copies,
        .local_pause_s =
            (rank_bytes + copies * (rank_bytes - sent)) / SNAPSHOT_BPS + DRAG * store_s,
        .pause_s = rank_bytes / SNAPSHOT_BPS + DRAG * write_s,
        .local_restart_s =
            f->restart_s + store_s + fmax(node_bytes / f->local_Bps, port_s(c, t, rank_bytes)),
        .restart_s = f->restart_s + 2 * write_s,
        .copy_bytes = copies ? 2 * (copies + 1) * rank_bytes : 0,
        .copy_slow_bytes = copies * sent * groups_largest(&t->layout.groups),
        .copy_memory =
            copies && c->device == DEVICE_CPU ? (copies + 1) * (saved.optimizer + frozen) : 0,
    };
    plan_intervals(s, p->step_s, local < 1 ? 1 : (int64_t)local,
                   shared < 1 ? 1 : (int64_t)shared);
    return 0;
}

void plan_survive(const struct plan_case *c, const struct plan_traffic *t, struct plan_price *p)
{
    int requested = c->failures.copies, any = requested == PLAN_COPIES_AUTO;
    double rest = c->memory_bytes > 0 ? c->memory_bytes - p->memory.total : INFINITY;
    struct plan_survival now;

    p->survival = (struct plan_survival){.mtbf_s = c->failures.mtbf_s};
    if (!(c->failures.mtbf_s > 0))
        return;
    for (int copies = any ? 0 : requested; copies <= (any ? PLAN_COPIES_TRIED : requested);
         copies++)
        if (survive_with(c, t, p, copies, &now) == 0 &&
            (!any || copies == 0 || now.copy_memory <= rest) &&
            now.goodput > p->survival.goodput * (1 + GAIN))
            p->survival = now;
    p->memory.buffers += p->survival.copy_memory;
    p->memory.total += p->survival.copy_memory;
    p->feasible = p->feasible && (p->survival.copy_memory <= rest || !p->survival.copies);
}

double plan_price_gross_s(const struct plan_price *p)
{
    /* Finite even if no step is ever completed, so that it can be compared. */
    return p->survival.mtbf_s > 0 ? p->step_s / fmax(p->survival.goodput, 1e-9) : p->step_s;
}

double plan_useful_rate(const struct plan_price *p)
{
    return p->survival.mtbf_s > 0 ? p->tokens_per_s * p->survival.goodput : p->tokens_per_s;
}
