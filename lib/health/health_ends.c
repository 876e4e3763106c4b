/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds which ends of streams are slow, for any kind of stream.
 *
 * Ends are judged worst first; streams of an end found slow no longer count for their other
 * ends:
 *
 *     3 hosts, host 1 slow both ways     0>1 50   0>2 100   1>0 50   1>2 50   2>0 100   2>1 50
 *     1 out: 50 50   1 in: 50 50         slow, all partners see it
 *     0 out: (50) 100                    the 50 is host 1's: 100 is left
 *
 * Nor do streams of an excused end: its partners are not to blame.  An end is slow if all of
 * these hold:
 *
 *     practical    the median m of its n samples is outside the requested range.
 *
 *     statistical  |100 - m| is more than z standard errors, 1.2533 s / sqrt(n).  The
 *                  deviation s of a sample is a MAD over the residuals of all ends together,
 *                  unless this end's own, or the baseline's, is larger than chance explains.
 *                  z is such that HEALTH_ALARMS of healthy fabrics accuse any end
 *                  (health_accusing_z): 4.4 for 8 ports, 4.8 for 64, 5.6 for 4096.  Medians
 *                  that differ among healthy ends by more than that count with their own
 *                  deviation.
 *
 *     seen         three partners in four see half of it at least: the best quarter of P
 *                  values of deviation s lies 0.67 s above their median by chance, and that
 *                  much is allowed.  And it is not all one partner's (is_a_pairs).
 *
 *     again        the confirmation, where there was one, sees half of it too, 3 standard
 *                  errors off by itself.
 *
 * The power of this test: 15 samples of 2 % have a median of 0.65 %, 27 of 0.48 %; an end
 * slowed by 5 % is then outside 96: with probability 0.94 and 0.98.  Hence a suspicion is
 * looser than a verdict (2 standard errors outside the range, z of 3), and the verdict is over
 * all samples together.
 */
#include "health/health_analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

/* The upper quartile of a normal value, in deviations. */
static const double quartile = 0.6745;

struct health_exchanges { /* one sample of an end */
    int partner;
    double value;
};

void health_ends_add(struct health_ends *e, int src, int dst, double value, int again)
{
    for (int from = 0; from < (e->ways == 2 ? 1 : 2); from++) {
        e->sample =
            mem_grow(e->sample, &e->sample_space, (size_t)e->samples + 1, sizeof *e->sample);
        e->sample[e->samples++] =
            (struct health_ends_sample){{from ? dst : src, from ? src : dst}, value, again};
    }
}

static void drop_index(struct health_ends *e)
{
    for (int way = 0; way < 2; way++) {
        mem_free(e->first[way]);
        mem_free(e->place[way]);
        e->first[way] = e->place[way] = NULL;
    }
    MEM_FREE(e->end, e->space, e->met);
    e->end = NULL;
    e->space = NULL;
    e->met = NULL;
}

/* Builds the index of each end's samples, so that judging an end reads only its own. */
void health_ends_index(struct health_ends *e)
{
    drop_index(e);
    e->end = mem_new((size_t)e->ends, sizeof *e->end);
    e->space = mem_new((size_t)e->samples + 1, sizeof *e->space);
    e->met = mem_new((size_t)e->samples + 1, sizeof *e->met);
    for (int way = 0; way < e->ways; way++) {
        int *first = e->first[way] = mem_new((size_t)e->ends + 2, sizeof *first);
        e->place[way] = mem_new((size_t)e->samples + 1, sizeof(int));
        for (int i = 0; i < e->samples; i++)
            first[e->sample[i].end[way] + 2]++;
        for (int k = 0; k < e->ends; k++)
            first[k + 2] += first[k + 1];
        for (int i = 0; i < e->samples; i++)
            e->place[way][first[e->sample[i].end[way] + 1]++] = i;
    }
}

void health_ends_release(struct health_ends *e)
{
    drop_index(e);
    mem_free(e->sample);
    e->sample = NULL;
    e->samples = 0;
    e->sample_space = 0;
}

/* ---- statistics ---- */

double health_normal_z(double q)
{
    double lo = 0, hi = 40;

    for (int i = 0; i < 60; i++) {
        double z = (lo + hi) / 2;
        if (erfc(z / sqrt(2)) / 2 > q)
            lo = z;
        else
            hi = z;
    }
    return (lo + hi) / 2;
}

double health_student_z(double q, double freedom)
{
    double z = health_normal_z(q);

    return z * (1 + (z * z + 1) / (4 * freedom));
}

double health_binomial_above(int n, int k, double p)
{
    double sum = 0;

    if (k <= 0 || p >= 1)
        return k <= n;
    if (p <= 0)
        return 0;
    for (int i = n; i >= k; i--)
        sum += exp(lgamma(n + 1.0) - lgamma(i + 1.0) - lgamma(n - i + 1.0) + i * log(p) +
                   (n - i) * log1p(-p));
    return fmin(1, sum);
}

double health_accusing_z(double tests, double residuals)
{
    return health_student_z(HEALTH_ALARMS / fmax(1, tests), fmax(1, 0.37 * residuals));
}

double health_median_error(double sigma, int n)
{
    return sqrt(acos(-1) / 2) * sigma / sqrt(n);
}

double health_deviation(double own, int n, double pooled)
{
    return own > pooled * (1 + 3 * 1.17 / sqrt(n)) ? own : pooled;
}

/* ---- samples of an end ---- */

static int is_pair_of_ends(const struct health_ends *e) /* each stream belongs to both */
{
    return e->ends == 2 && e->ways == 2;
}

static int other_way(const struct health_ends *e, int way)
{
    return e->ways == 2 ? !way : 0;
}

/* COUNTING: samples whose other end is not known to be at fault; AGAIN: of these, the ones from
   the confirmation. */
enum which { COUNTING, AGAIN, ALL };

/* Collects an end's samples in e->met and returns their number. */
static int ends_collect(struct health_ends *e, int k, int way, enum which which)
{
    int n = 0;

    for (int at = e->first[way][k]; at < e->first[way][k + 1]; at++) {
        const struct health_ends_sample *s = &e->sample[e->place[way][at]];
        int partner = s->end[!way];
        int counts =
            !e->end[partner][other_way(e, way)].slow && !(e->excused && e->excused[partner]);
        if (which == ALL || (counts && (which == COUNTING || s->again)))
            e->met[n++] = (struct health_exchanges){partner, s->value};
    }
    return n;
}

/* Returns the median of the collected values, and leaves the values in e->space. */
static double ends_median_of(struct health_ends *e, int n)
{
    for (int i = 0; i < n; i++)
        e->space[i] = e->met[i].value;
    return n ? stats_median(e->space, n) : NAN;
}

static int by_partner(const void *a, const void *b)
{
    const struct health_exchanges *x = a, *y = b;
    int c = MEM_ORDER(x, y, partner);

    return c ? c : MEM_ORDER(x, y, value);
}

/* Returns the end of the next partner's group among n sorted samples, and its median. */
static int next_partner(const struct health_exchanges *met, int from, int n, double *median)
{
    int to = from;

    while (to < n && met[to].partner == met[from].partner)
        to++;
    *median = (met[(from + to - 1) / 2].value + met[(from + to) / 2].value) / 2;
    return to;
}

/* Writes the median with each partner to e->space; returns the number of partners; sets
   *samples. */
static int collect_partners(struct health_ends *e, int k, int way, int *samples)
{
    int n = ends_collect(e, k, way, COUNTING), partners = 0;

    if (n)
        qsort(e->met, (size_t)n, sizeof *e->met, by_partner);
    for (int i = 0; i < n;)
        i = next_partner(e->met, i, n, &e->space[partners++]);
    *samples = n;
    return partners;
}

/* Returns the nearest rank: the best of up to four partners, one in four of more. */
static double best_quarter(struct health_ends *e, int partners)
{
    return stats_percentile(e->space, partners, partners < 4 ? 100 : 76);
}

double health_ends_level(struct health_ends *e, int k, int way, int *n)
{
    if (!e->few)
        return ends_median_of(e, *n = ends_collect(e, k, way, COUNTING));
    int partners = collect_partners(e, k, way, n);
    return partners ? best_quarter(e, partners) : NAN;
}

double health_ends_percentile(struct health_ends *e, double p)
{
    double *each = mem_new((size_t)e->ends * 2 + 1, sizeof *each), v = 0;
    int known = 0, n;

    for (int way = 0; way < e->ways; way++)
        for (int k = 0; k < e->ends; k++) {
            each[known] = health_ends_level(e, k, way, &n);
            known += n > 0;
        }
    if (known)
        v = p < 50 ? stats_percentile(each, known, p) : stats_median(each, known);
    mem_free(each);
    return v;
}

/*
 * Collects an end's residuals from its median, or, if pairs have three samples each (few ends,
 * so that slow ones are a large part of the others' samples), from the pair's median.  With an
 * odd number the sample that is the median has no residual.
 */
static int collect_residuals(struct health_ends *e, int k, int way, double *residual)
{
    int count = ends_collect(e, k, way, ALL), n = 0;
    int added = e->samples * e->ways / 2; /* with one way each sample was added twice */
    int pairs = e->few || added / 3 / e->ends >= e->ends - 1;

    for (int i = 0; !pairs && i < count; i++)
        e->met[i].partner = 0;
    if (count)
        qsort(e->met, (size_t)count, sizeof *e->met, by_partner);
    for (int from = 0, to; from < count; from = to) {
        double median;
        to = next_partner(e->met, from, count, &median);
        for (int i = from; i < to; i++)
            if ((to - from) % 2 == 0 || i != (from + to) / 2)
                residual[n++] = fabs(e->met[i].value - median);
    }
    return n;
}

static double deviation_of(double *residual, int n)
{
    return n ? 1.4826 * stats_median(residual, n) : 0;
}

double health_ends_deviation(struct health_ends *e, int k, int way)
{
    double *residual = mem_new((size_t)e->samples + 1, sizeof *residual);
    double deviation = deviation_of(residual, collect_residuals(e, k, way, residual));

    mem_free(residual);
    return deviation;
}

/* Pools each sample once.  With one way samples count from both ends, which adds no
   certainty. */
static void pool(struct health_ends *e)
{
    double *residual = mem_new((size_t)e->samples + 1, sizeof *residual);
    int n = 0;

    for (int k = 0; k < e->ends; k++)
        n += collect_residuals(e, k, 0, residual + n);
    e->pooled = deviation_of(residual, n);
    e->z = health_accusing_z((double)e->ends * e->ways, n * e->ways / 2.0);
    mem_free(residual);
}

/* ---- estimates ---- */

static void estimate(struct health_ends *e, int k, int way)
{
    struct health_end *out = &e->end[k][way];
    double spread = e->spread ? e->spread[k][way] : 0;

    out->n = ends_collect(e, k, way, COUNTING);
    out->median = ends_median_of(e, out->n);
    out->z = NAN;
    if (out->n == 0)
        return;
    double mad = stats_mad(e->space, out->n, out->median);
    out->own = health_deviation(fmax(mad, spread), out->n, e->pooled);
    double error = fmax(HEALTH_SIGMA_LEAST, health_median_error(out->own, out->n));
    out->sigma = fmax(error, e->peers[way]);
    out->z = fabs(100 - out->median) / out->sigma;
}

/*
 * Returns how much the medians of healthy ends differ beyond chance: computed from those above
 * the median, since slow ends not found yet lie below it.
 */
static double spread_of_peers(struct health_ends *e, int way)
{
    double *each = mem_new((size_t)e->ends * 3, sizeof *each), *copy = each + e->ends,
           *error = copy + e->ends, spread = 0;
    int n = 0, above = 0;

    for (int k = 0; k < e->ends; k++)
        if (!e->end[k][way].slow && e->end[k][way].n) {
            error[n] = health_median_error(e->end[k][way].own, e->end[k][way].n);
            each[n++] = e->end[k][way].median;
        }
    if (n >= 5) {
        memcpy(copy, each, (size_t)n * sizeof *copy);
        double chance = stats_median(error, n), middle = stats_median(copy, n);
        for (int i = 0; i < n; i++)
            if (each[i] > middle)
                copy[above++] = each[i] - middle;
        if (above)
            spread = health_deviation(deviation_of(copy, above), above, chance);
        spread = spread > chance ? spread : 0;
    }
    mem_free(each);
    return spread;
}

static void estimate_all(struct health_ends *e)
{
    for (int way = 0; way < e->ways; way++)
        for (int again = 0; again < 2; again++) {
            e->peers[way] = again ? spread_of_peers(e, way) : 0;
            for (int k = 0; k < e->ends; k++)
                if (!e->end[k][way].slow)
                    estimate(e, k, way);
        }
}

/* ---- slow ends ---- */

/* Returns whether three partners in four see it; sets best, partners and saw. */
static int ends_is_seen(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];
    double low = end->median < 100 ? 1 : -1, half = (100 + end->median) / 2;
    int n, partners = collect_partners(e, k, way, &n);

    end->partners = partners;
    end->saw = 0;
    for (int i = 0; i < partners; i++) {
        end->saw += low * (half - e->space[i]) > 0;
        e->space[i] *= low;
    }
    end->best = low * best_quarter(e, partners);
    double each = partners < n ? health_median_error(end->own, n / partners) : end->own;
    double chance = partners > 1 ? quartile * each : 0;
    return low * (half - end->best) + chance > 0;
}

/*
 * One of few partners can lower the median: with three, a pair at 80 % shifts it to the lower
 * quartile of the others' samples, and 97 % becomes 96 %.  If a partner's median differs from
 * the others' by more than z of its errors and the end is healthy without it, the pair is at
 * fault.
 */
static int is_a_pairs(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];
    double low = end->median < 100 ? 1 : -1;
    int n, worst = 0, partners = collect_partners(e, k, way, &n);

    if (partners < 3)
        return 0;
    for (int i = 1; i < partners; i++)
        if (low * (e->space[worst] - e->space[i]) > 0)
            worst = i;
    double odd = e->space[worst], error = health_median_error(end->own, n / partners);
    e->space[worst] = e->space[partners - 1];
    double others = stats_median(e->space, partners - 1);
    return low * (others - odd) > e->z * error && !e->alerts(e->rules, others);
}

static void estimate_again(struct health_ends *e, int k, int way)
{
    e->end[k][way].again = ends_collect(e, k, way, AGAIN);
    e->end[k][way].again_median = ends_median_of(e, e->end[k][way].again);
}

/* Returns whether there was a confirmation that contradicts. */
static int is_denied(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    estimate_again(e, k, way);
    end->confirmed = 0;
    if (end->again < HEALTH_AGAIN_LEAST)
        return 0;
    double off = (100 - end->again_median) * (end->median < 100 ? 1 : -1);
    double error = fmax(fmax(HEALTH_SIGMA_LEAST, e->peers[way]),
                        health_median_error(end->own, end->again));
    end->confirmed = off > fabs(100 - end->median) / 2 && off > 3 * error;
    return !end->confirmed;
}

/*
 * Returns the number of samples with which transients, 2 % of samples on a busy fabric, make
 * the median low no more often than false alarms may occur: 7 for 8 ports, 13 for 4096.  A
 * measurement that ended early has fewer.
 */
static int samples_least(const struct health_ends *e)
{
    const double transients = 0.02;
    int n = 1;

    while (e->ends * e->ways * health_binomial_above(n, (n + 1) / 2, transients) >
           HEALTH_ALARMS)
        n += 2;
    return n;
}

/* Returns why an end outside the range is not slow; NULL: it is slow. */
static const char *find_pardon(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    if (end->n < e->least)
        return "too few samples to judge";
    if (end->z <= e->z)
        return "within its noise";
    if (!ends_is_seen(e, k, way))
        return "not with most partners";
    if (is_a_pairs(e, k, way))
        return "with one partner only";
    end->denied = is_denied(e, k, way);
    return end->denied ? "not when measured again" : NULL;
}

/* Marks an end as slow and estimates its partners again without it. */
static void mark(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    end->slow = 1;
    if (is_pair_of_ends(e)) {
        e->end[!k][!way] = *end;
        return;
    }
    for (int at = e->first[way][k]; at < e->first[way][k + 1]; at++) {
        int other = e->sample[e->place[way][at]].end[!way], to = other_way(e, way);
        if (!e->end[other][to].slow)
            estimate(e, other, to);
    }
}

/* Finds the worst candidate not examined since its samples changed. */
static int worst(const struct health_ends *e, const unsigned char *passed, int *k, int *way)
{
    double most = -1;

    for (int w = 0; w < e->ways; w++)
        for (int i = 0; i < e->ends; i++) {
            const struct health_end *end = &e->end[i][w];
            double off = fabs(100 - end->median);
            if (end->slow || passed[i * 2 + w] || end->n == 0 || off <= most ||
                end->z <= e->z || !e->alerts(e->rules, end->median))
                continue;
            most = off;
            *k = i;
            *way = w;
        }
    return most >= 0;
}

/* Sets for an end that is not slow: whether it may turn out slow, and why it is not if it is
   outside the range. */
static void explain(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    if (end->slow || end->n == 0)
        return;
    /* It may turn out outside the range, and chance does not explain its deviation. */
    double away = end->median < 100 ? -2 * end->sigma : 2 * end->sigma;
    if (!end->denied && end->z > 3 && e->alerts(e->rules, end->median + away)) {
        end->suspect = ends_is_seen(e, k, way);
        estimate_again(e, k, way);
    }
    if (e->alerts(e->rules, end->median))
        end->pardon = find_pardon(e, k, way);
}

void health_ends_judge(struct health_ends *e)
{
    unsigned char *passed = mem_new((size_t)e->ends * 2 + 1, 1);
    int k = 0, way = 0, found = 0;

    e->least = samples_least(e);
    health_ends_index(e);
    pool(e);
    estimate_all(e);
    while (worst(e, passed, &k, &way)) {
        if (find_pardon(e, k, way)) {
            passed[k * 2 + way] = 1;
            continue;
        }
        mark(e, k, way);
        /* The remaining ends differ less.  At doubling counts only, because it estimates
           all. */
        found++;
        if ((found & (found - 1)) == 0 && !is_pair_of_ends(e))
            estimate_all(e);
        memset(passed, 0, (size_t)e->ends * 2);
    }
    for (way = 0; way < e->ways; way++)
        for (k = 0; k < e->ends; k++)
            explain(e, k, way);
    mem_free(passed);
}
