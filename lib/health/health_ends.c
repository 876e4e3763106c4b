/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which ends of streams are slow.  Does not know what the streams are.
 *
 * Ends are judged worst first; the streams of an end that was found slow say nothing of their
 * other ends any more:
 *
 *     3 hosts, host 1 slow both ways     0>1 50   0>2 100   1>0 50   1>2 50   2>0 100   2>1 50
 *     1 out: 50 50   1 in: 50 50         slow, all partners see it
 *     0 out: (50) 100                    the 50 is host 1's: 100 is left
 *
 * Nor do those of an end that is excused: whoever has it for a partner is not to blame.
 * An end is slow when all of this is so:
 *
 *     practical    the median m of its n samples is outside the range that was asked for.
 *
 *     statistical  |100 - m| is more than z standard errors, 1.2533 s / sqrt(n).  The
 *                  deviation s of a sample is a MAD over the residuals of all ends together,
 *                  unless this end's own, or the baseline's, is larger than chance explains.
 *                  z is such that HEALTH_ALARMS of healthy fabrics accuse any of their ends
 *                  (health_accusing_z): 4.4 for 8 ports, 4.8 for 64, 5.6 for 4096.  Medians
 *                  that differ among healthy ends by more than that count with their own
 *                  deviation.
 *
 *     seen         three partners in four see half of it at least: the best quarter of P
 *                  values of deviation s lies 0.67 s above their median by chance, and that
 *                  much is allowed.  And it is not all one partner's (is_a_pairs).
 *
 *     again        the second look, where there was one, sees half of it too, 3 standard
 *                  errors off by itself.
 *
 * What power this has: 15 samples of 2 % have a median of 0.65 %, 27 of 0.48 %; an end slowed
 * by 5 % is then outside 96: with probability 0.94 and 0.98.  Hence a suspicion is looser than
 * a verdict (2 standard errors beside the range, z of 3), and the verdict is over both looks
 * together.
 */
#include "health/health_ends.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "health/health_chance.h"

/* The upper quartile of a normal value, in deviations. */
static const double quartile = 0.6745;

static int end_at(const struct health_ends *e, int i, int way)
{
    return e->pair[i][way];
}

/* The other end of the sample; with one way alone either end may be asked. */
static int partner_of(const struct health_ends *e, int i, int k, int way)
{
    if (e->ways == 2)
        return e->pair[i][!way];
    return e->pair[i][0] == k ? e->pair[i][1] : e->pair[i][0];
}

static const struct health_end *other_end(const struct health_ends *e, int i, int k, int way)
{
    return &e->end[partner_of(e, i, k, way)][e->ways == 2 ? !way : 0];
}

/* Whether a sample says something of the end: not where its other end is known to be at fault.
 */
static int counts(const struct health_ends *e, int i, int k, int way)
{
    return !other_end(e, i, k, way)->slow &&
           !(e->excused && e->excused[partner_of(e, i, k, way)]);
}

/* The places of each end, so that judging costs no more than there are samples. */
void health_ends_index(struct health_ends *e)
{
    int sides = e->ways == 2 ? 1 : 2; /* of a sample that a way has */

    e->end = mem_new((size_t)e->ends, sizeof *e->end);
    e->room = mem_new((size_t)e->samples * 2 + 1, sizeof *e->room);
    for (int way = 0; way < e->ways; way++) {
        int *first = mem_new((size_t)e->ends + 2, sizeof *first);
        for (int i = 0; i < e->samples; i++)
            for (int side = 0; side < sides; side++)
                first[end_at(e, i, way ^ side) + 2]++;
        for (int k = 0; k < e->ends; k++)
            first[k + 2] += first[k + 1];
        e->place[way] = mem_new((size_t)e->samples * (size_t)sides + 1, sizeof(int));
        for (int i = 0; i < e->samples; i++)
            for (int side = 0; side < sides; side++)
                e->place[way][first[end_at(e, i, way ^ side) + 1]++] = i;
        e->first[way] = first;
    }
}

void health_ends_release(struct health_ends *e)
{
    for (int way = 0; way < 2; way++) {
        mem_free(e->first[way]);
        mem_free(e->place[way]);
        e->first[way] = e->place[way] = NULL;
    }
    mem_free(e->end);
    mem_free(e->room);
    e->end = NULL;
    e->room = NULL;
}

/* Into e->room: `value` of the end's samples that count; those of the second look alone. */
static int collect(struct health_ends *e, int k, int way, const double *value, int again)
{
    int n = 0;

    for (int at = e->first[way][k]; at < e->first[way][k + 1]; at++) {
        int i = e->place[way][at];
        if (counts(e, i, k, way) && (!again || (e->again && e->again[i])))
            e->room[n++] = value[i];
    }
    return n;
}

double health_ends_median(struct health_ends *e, int k, int way, const double *value, int *n)
{
    *n = collect(e, k, way, value, 0);
    return *n ? stats_median(e->room, *n) : NAN;
}

struct met {
    int partner;
    double value;
};

static int by_partner(const void *a, const void *b)
{
    const struct met *x = a, *y = b;

    if (x->partner != y->partner)
        return x->partner < y->partner ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* Into e->room: the median with each partner, and how many samples are behind all of them. */
static int collect_partners(struct health_ends *e, int k, int way, const double *value,
                            int *samples)
{
    int begin = e->first[way][k], all = e->first[way][k + 1] - begin, n = 0, partners = 0;
    struct met *met = mem_new((size_t)all + 1, sizeof *met);

    for (int at = begin; at < begin + all; at++) {
        int i = e->place[way][at];
        if (counts(e, i, k, way))
            met[n++] = (struct met){partner_of(e, i, k, way), value[i]};
    }
    if (n)
        qsort(met, (size_t)n, sizeof *met, by_partner);
    for (int from = 0, to; from < n; from = to) {
        for (to = from; to < n && met[to].partner == met[from].partner; to++)
            ;
        int half = (to - from) / 2;
        e->room[partners++] = (to - from) % 2
                                  ? met[from + half].value
                                  : (met[from + half - 1].value + met[from + half].value) / 2;
    }
    mem_free(met);
    *samples = n;
    return partners;
}

/* Nearest rank: the best of up to four partners, one in four of more. */
double health_ends_best(struct health_ends *e, int k, int way, const double *value, int *n)
{
    int samples, partners = collect_partners(e, k, way, value, &samples);

    *n = samples;
    return partners ? stats_percentile(e->room, partners, partners < 4 ? 100 : 76) : NAN;
}

/* ---- deviations ---- */

static void add_residuals(double *room, int *n, const double *v, int count, double *copy)
{
    memcpy(copy, v, (size_t)count * sizeof *copy);
    double median = stats_median(copy, count);
    int left_out = 0;

    /* The one that is the median of an odd number has no residual. */
    for (int i = 0; i < count; i++) {
        double r = fabs(v[i] - median);
        if (count % 2 && !left_out && r <= 0)
            left_out = 1;
        else
            room[(*n)++] = r;
    }
}

/*
 * Of one end: residuals from its median, or where pairs have three samples each (ends are few,
 * and slow ones a large part of the others' samples) from that of the pair.
 */
static int collect_residuals(struct health_ends *e, int k, int way, const double *value,
                             double *residual)
{
    int count = e->first[way][k + 1] - e->first[way][k], n = 0;
    int pairs = e->few || e->samples / 3 / e->ends >= e->ends - 1;
    struct met *met = mem_new((size_t)count + 1, sizeof *met);
    double *v = mem_new((size_t)count * 2 + 1, sizeof *v);

    for (int i = 0; i < count; i++) {
        int at = e->place[way][e->first[way][k] + i];
        met[i] = (struct met){pairs ? partner_of(e, at, k, way) : 0, value[at]};
    }
    if (count)
        qsort(met, (size_t)count, sizeof *met, by_partner);
    for (int i = 0; i < count; i++)
        v[i] = met[i].value;
    for (int from = 0, to; from < count; from = to) {
        for (to = from; to < count && met[to].partner == met[from].partner; to++)
            ;
        add_residuals(residual, &n, v + from, to - from, v + count);
    }
    mem_free(met);
    mem_free(v);
    return n;
}

double health_ends_deviation(struct health_ends *e, int k, int way, const double *value)
{
    double *residual = mem_new((size_t)e->samples + 1, sizeof *residual);
    int n = collect_residuals(e, k, way, value, residual);
    double deviation = n ? 1.4826 * stats_median(residual, n) : 0;

    mem_free(residual);
    return deviation;
}

/* Each sample once; with one way alone at both of its ends, which makes it no more certain. */
static void pool(struct health_ends *e)
{
    int sides = e->ways == 2 ? 1 : 2, n = 0;
    double *residual = mem_new((size_t)e->samples * (size_t)sides + 1, sizeof *residual);

    for (int k = 0; k < e->ends; k++)
        n += collect_residuals(e, k, 0, e->value, residual + n);
    e->pooled = n ? 1.4826 * stats_median(residual, n) : 0;
    e->z = health_accusing_z((double)e->ends * e->ways, (double)n / sides);
    mem_free(residual);
}

/* ---- estimates ---- */

static void look_again(struct health_ends *e, int k, int way, struct health_end *out)
{
    out->again = collect(e, k, way, e->value, 1);
    out->again_median = out->again ? stats_median(e->room, out->again) : NAN;
}

static void estimate(struct health_ends *e, int k, int way)
{
    struct health_end *out = &e->end[k][way];
    double spread = e->spread ? e->spread[k][way] : 0;

    out->n = collect(e, k, way, e->value, 0);
    if (out->n == 0) {
        out->median = out->z = NAN;
        return;
    }
    out->median = stats_median(e->room, out->n);
    double mad = stats_mad(e->room, out->n, out->median);
    out->own = health_deviation(fmax(mad, spread), out->n, e->pooled);
    double error = fmax(e->sigma_least, health_median_error(out->own, out->n));
    out->sigma = fmax(error, e->peers[way]);
    out->z = fabs(100 - out->median) / out->sigma;
}

/*
 * How much the medians of ends that are well differ, where chance does not explain it: from
 * those above their median, since slow ends that are not found yet lie below it.
 */
static void spread_of_peers(struct health_ends *e, int way)
{
    double *each = mem_new((size_t)e->ends * 3, sizeof *each), *copy = each + e->ends,
           *error = copy + e->ends;
    int n = 0, above = 0;

    for (int k = 0; k < e->ends; k++)
        if (!e->end[k][way].slow && e->end[k][way].n) {
            error[n] = health_median_error(e->end[k][way].own, e->end[k][way].n);
            each[n++] = e->end[k][way].median;
        }
    e->peers[way] = 0;
    if (n >= 5) {
        memcpy(copy, each, (size_t)n * sizeof *copy);
        double chance = stats_median(error, n), middle = stats_median(copy, n);
        for (int i = 0; i < n; i++)
            if (each[i] > middle)
                copy[above++] = each[i] - middle;
        double spread = above ? 1.4826 * stats_median(copy, above) : 0;
        double beyond = health_deviation(spread, above, chance);
        e->peers[way] = above && beyond > chance ? beyond : 0;
    }
    mem_free(each);
}

static void estimate_all(struct health_ends *e)
{
    for (int way = 0; way < e->ways; way++) {
        e->peers[way] = 0;
        for (int again = 0; again < 2; again++) {
            for (int k = 0; k < e->ends; k++)
                if (!e->end[k][way].slow)
                    estimate(e, k, way);
            if (!again)
                spread_of_peers(e, way);
        }
    }
}

/* ---- who is slow ---- */

/* Three partners in four see it; sets best, partners and saw. */
static int is_seen(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];
    double low = end->median < 100 ? 1 : -1, half = (100 + end->median) / 2;
    int n, partners = collect_partners(e, k, way, e->value, &n);

    end->partners = partners;
    end->saw = 0;
    for (int i = 0; i < partners; i++) {
        end->saw += low * (half - e->room[i]) > 0;
        e->room[i] *= low;
    }
    end->best = low * stats_percentile(e->room, partners, partners < 4 ? 100 : 76);
    double each = partners < n ? health_median_error(end->own, n / partners) : end->own;
    double chance = partners > 1 ? quartile * each : 0;
    return low * (half - end->best) + chance > 0;
}

/*
 * Of few partners one alone can bring the median down: with three, a pair at 80 % makes it what
 * the quarter of the others' samples are, and 97 % is then 96 %.  A partner whose median is off
 * the others' by more than z of its errors is that pair's matter, if the end is well without.
 */
static int is_a_pairs(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];
    double low = end->median < 100 ? 1 : -1;
    int n, worst = 0, partners = collect_partners(e, k, way, e->value, &n);

    if (partners < 3)
        return 0;
    for (int i = 1; i < partners; i++)
        if (low * (e->room[worst] - e->room[i]) > 0)
            worst = i;
    double odd = e->room[worst], error = health_median_error(end->own, n / partners);
    e->room[worst] = e->room[partners - 1];
    double others = stats_median(e->room, partners - 1);
    return low * (others - odd) > e->z * error && !e->alerts(e->rules, others);
}

/* The second look, where there was one. */
static int is_denied(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    look_again(e, k, way, end);
    end->confirmed = 0;
    if (end->again < HEALTH_AGAIN_LEAST)
        return 0;
    double off = (100 - end->again_median) * (end->median < 100 ? 1 : -1);
    double error =
        fmax(fmax(e->sigma_least, e->peers[way]), health_median_error(end->own, end->again));
    end->confirmed = off > fabs(100 - end->median) / 2 && off > 3 * error;
    return !end->confirmed;
}

/*
 * So many samples that their median is not one of those that something else cut short, 2 % of
 * them on a busy fabric, more often than false alarms may be: 7 for 8 ports, 13 for 4096.  A
 * measurement that was ended early has fewer.
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

/* Why an end outside the range is not slow; NULL: it is. */
static const char *find_pardon(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    if (end->n < e->least)
        return "too few samples to judge";
    if (end->z <= e->z)
        return "within its noise";
    if (!is_seen(e, k, way))
        return "not with most partners";
    if (is_a_pairs(e, k, way))
        return "with one partner only";
    end->denied = is_denied(e, k, way);
    return end->denied ? "not when measured again" : NULL;
}

/* Its partners are estimated without it.  Of two ends each stream is both's. */
static void mark(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    end->slow = 1;
    if (e->ends == 2 && e->ways == 2) {
        e->end[!k][!way] = *end;
        return;
    }
    for (int at = e->first[way][k]; at < e->first[way][k + 1]; at++) {
        int other = partner_of(e, e->place[way][at], k, way), to = e->ways == 2 ? !way : 0;
        if (!e->end[other][to].slow)
            estimate(e, other, to);
    }
}

/* The worst end that may be slow and was not looked at since its samples changed. */
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

/* It may turn out outside the range, and is not well by chance. */
static void suspect(struct health_ends *e, int k, int way)
{
    struct health_end *end = &e->end[k][way];

    if (end->slow || end->denied || end->n == 0)
        return;
    double away = end->median < 100 ? -2 * end->sigma : 2 * end->sigma;
    end->suspect = end->z > 3 && e->alerts(e->rules, end->median + away);
    if (end->suspect) {
        end->suspect = is_seen(e, k, way);
        look_again(e, k, way, end);
    }
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
        /* The rest differ less among themselves.  In doubling steps: it is work for all. */
        found++;
        if ((found & (found - 1)) == 0 && !(e->ends == 2 && e->ways == 2))
            estimate_all(e);
        memset(passed, 0, (size_t)e->ends * 2);
    }
    for (way = 0; way < e->ways; way++)
        for (k = 0; k < e->ends; k++)
            suspect(e, k, way);
    for (way = 0; way < e->ways; way++)
        for (k = 0; k < e->ends; k++) {
            struct health_end *end = &e->end[k][way];
            if (!end->slow && end->n && e->alerts(e->rules, end->median))
                end->pardon = find_pardon(e, k, way);
        }
    mem_free(passed);
}
