/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures a level's latency and the rate of one flow: fits lines to the times of messages of
 * several sizes.  A message is sent one way, and its last word comes back (probe_message), so
 * its time is twice the latency plus the time of its bytes:
 *
 *     t(bytes) = 2 latency + bytes / rate
 *
 * Two lines are fitted, since ports are shaped by token buckets that pass some 256 KiB at once:
 * one over sizes too small to empty a bucket, whose alpha is the latency, and one over a
 * quarter of `most` (PROBE_BYTES_LEAST or more) to all of it, whose beta is the rate: the bytes
 * saved by a bucket are equal for all of them and change alpha only.
 */
#include <math.h>

#include "probe/probe_fit.h"
#include "probe/probe_parts.h"

enum { SMALL_TIMES = 60, LARGE_TIMES_MOST = 20, LARGE_TIMES_LEAST = 3 };

/* SMALL_TIMES messages of the largest have 240 KiB. */
static const double small[] = {0, 256, 512, 1024, 2048, 4096};
enum { SMALLS = sizeof small / sizeof *small };
/* Fractions of the most bytes. */
static const double large[] = {0.25, 0.4, 0.55, 0.7, 0.85, 1};
enum { LARGES = sizeof large / sizeof *large };

/* Fits a line through the median time of each size, on the first rank of each pair; zero on
   others. */
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
    /* A slope below 0 is noise: use the mean rate of the largest size, of unknown error (0). */
    if (took[0] > 0 && fit->beta_s <= 0)
        fit->beta_s = took[sizes - 1] / fmax(bytes[sizes - 1], 1), fit->beta_err_s = 0;
    if (took[0] > 0 && fit->alpha_s <= 0)
        fit->alpha_s = took[0], fit->alpha_err_s = 0;
    return 0;
}

int probe_line_latency(struct probe *p, const struct probe_flow *pair, int pairs,
                       struct topo_level *level, struct err *err)
{
    struct probe_fit f;
    struct probe_summary all;

    if (measure_line(p, pair, pairs, small, SMALLS, SMALL_TIMES, &f, err) ||
        probe_summarize(p->world, f.alpha_s / 2, f.alpha_err_s / 2, &all, err))
        return -1;
    level->latency_s = all.median;
    level->latency_err_s = all.error;
    return 0;
}

int probe_line_rate(struct probe *p, const struct probe_flow *pair, int pairs, int64_t most,
                    double seconds, struct topo_level *level, struct err *err)
{
    double bytes[LARGES], first_s = 0;
    struct probe_fit f;
    struct probe_summary all;

    if (probe_message(p, pair, pairs, most, 1, &first_s, err) ||
        probe_summarize(p->world, first_s, 0, &all, err))
        return -1;
    double times = all.median > 0 ? seconds / (LARGES * all.median) : LARGE_TIMES_LEAST;
    times = fmin(fmax(times, LARGE_TIMES_LEAST), LARGE_TIMES_MOST);
    for (int i = 0; i < LARGES; i++)
        bytes[i] = large[i] * (double)most;
    if (measure_line(p, pair, pairs, bytes, LARGES, (int)times, &f, err))
        return -1;
    double Bps = f.beta_s > 0 ? 1 / f.beta_s : 0;
    /* The first-order error of 1 / beta. */
    if (probe_summarize(p->world, Bps, f.beta_err_s * Bps * Bps, &all, err))
        return -1;
    level->flow_Bps = all.median;
    level->flow_err_Bps = all.error;
    return 0;
}
