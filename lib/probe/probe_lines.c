/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a level's latency and the rate of one flow: the lines through the times of messages of
 * several sizes.  A message goes one way, of which its last word comes back (probe_message), so
 * that its time is twice the latency and the time of its bytes:
 *
 *     t(bytes) = 2 latency + bytes / rate
 *
 * Two lines are laid, since ports are shaped by token buckets that let some 256 KiB through at
 * once: one over sizes so small that no bucket runs dry, whose alpha is the latency, and one
 * over a quarter of `most` (PROBE_BYTES_LEAST or more) to all of it, whose beta is the rate:
 * what a bucket gives away is the same for all of them, and changes alpha alone.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/stats.h"
#include "probe/probe_fit.h"
#include "probe/probe_parts.h"

enum { SMALL_TIMES = 60, LARGE_TIMES_MOST = 20, LARGE_TIMES_LEAST = 3 };

/* All SMALL_TIMES of the largest are 240 KiB. */
static const double small[] = {0, 256, 512, 1024, 2048, 4096};
enum { SMALLS = sizeof small / sizeof *small };
/* Parts of the most bytes. */
static const double large[] = {0.25, 0.4, 0.55, 0.7, 0.85, 1};
enum { LARGES = sizeof large / sizeof *large };

/* A line through the median time of each size, on the first rank of each pair; zero on others.
 */
static int measure_line(struct probe *p, const struct probe_flow *pair, int pairs,
                        const double *bytes, int sizes, int times, struct probe_fit *fit,
                        struct err *err)
{
    double took[PROBE_FIT_MOST];

    *fit = (struct probe_fit){0};
    for (int i = 0; i < sizes; i++)
        if (probe_message(p, pair, pairs, (int64_t)bytes[i], times, &took[i], err))
            return -1;
    if (took[0] > 0)
        probe_fit_line(bytes, took, sizes, fit);
    /* A slope below 0 is noise: the mean rate of the largest size, of unknown error (0). */
    if (took[0] > 0 && fit->beta_s <= 0)
        fit->beta_s = took[sizes - 1] / fmax(bytes[sizes - 1], 1), fit->beta_err_s = 0;
    if (took[0] > 0 && fit->alpha_s <= 0)
        fit->alpha_s = took[0], fit->alpha_err_s = 0;
    return 0;
}

/* Medians over the pairs of a figure and its error; mine is 0 on ranks that are first of none.
 */
static int gather_medians(struct probe *p, double mine, double mine_err, double *value,
                          double *error, struct err *err)
{
    struct {
        double value, error;
    } one = {mine, mine_err}, *all = mem_new((size_t)p->world->ranks, sizeof *all);
    double *v = mem_new((size_t)p->world->ranks * 2, sizeof *v), *e = v + p->world->ranks;
    int n = 0, rc = world_allgather(p->world, &one, sizeof one, all, err);

    for (int r = 0; rc == 0 && r < p->world->ranks; r++) {
        if (all[r].value <= 0)
            continue;
        v[n] = all[r].value;
        e[n++] = all[r].error;
    }
    *value = n ? stats_median(v, n) : 0;
    *error = n ? stats_median(e, n) : 0;
    mem_free(v);
    mem_free(all);
    return rc;
}

int probe_line_latency(struct probe *p, const struct probe_flow *pair, int pairs,
                       struct topo_level *level, struct err *err)
{
    struct probe_fit f;

    if (measure_line(p, pair, pairs, small, SMALLS, SMALL_TIMES, &f, err))
        return -1;
    return gather_medians(p, f.alpha_s / 2, f.alpha_err_s / 2, &level->latency_s,
                          &level->latency_err_s, err);
}

int probe_line_rate(struct probe *p, const struct probe_flow *pair, int pairs, int64_t most,
                    double seconds, struct topo_level *level, struct err *err)
{
    double bytes[LARGES], first_s = 0, none, Bps, Bps_err;
    struct probe_fit f;

    if (probe_message(p, pair, pairs, most, 1, &first_s, err) ||
        gather_medians(p, first_s, 0, &first_s, &none, err))
        return -1;
    double times = first_s > 0 ? seconds / (LARGES * first_s) : LARGE_TIMES_LEAST;
    times = fmin(fmax(times, LARGE_TIMES_LEAST), LARGE_TIMES_MOST);
    for (int i = 0; i < LARGES; i++)
        bytes[i] = large[i] * (double)most;
    if (measure_line(p, pair, pairs, bytes, LARGES, (int)times, &f, err))
        return -1;
    Bps = f.beta_s > 0 ? 1 / f.beta_s : 0;
    Bps_err = f.beta_err_s * Bps * Bps; /* of 1 / beta, to the first order */
    return gather_medians(p, Bps, Bps_err, &level->flow_Bps, &level->flow_err_Bps, err);
}
