/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a collective should take by the closed forms of paro.md section 5.  With q = M/n,
 * tau_e = alpha_e + q/B and tau_i = alpha_i + q/B' they are, for equal groups,
 *
 *   ho-ring     (m-1) tau_i + (g-1) max(tau_e, (m-1) tau_i)
 *   two-level   (g-1) tau_e + g (m-1) tau_i
 *   ring        (n-1) max(tau_i, alpha_e + q/R)            R: the crossing flow's rate
 *
 * and twice that for an all-reduce.  Here (g-1) q/B is written as the bytes through the busiest
 * port over its rate, and g (m-1) q as the bytes that the busiest rank sends inside its group:
 * the same for equal groups, and right for ragged ones and partial moves too.  The first term
 * of ho-ring, the fill, is that of one sub-chunk.
 */
#include <math.h>

#include "bench/bench_parts.h"

static double larger(double a, double b)
{
    return a > b ? a : b;
}

double bench_model_s(const struct topo *t, const struct coll_handle *h, int subchunks)
{
    const struct topo_level *in = &t->level[0], *out = &t->level[1];
    double n = t->groups.ranks, g = t->groups.count, m = groups_largest(&t->groups);
    double passes = coll_phases(&h->spec) == SCHEDULE_ALL_REDUCE ? 2 : 1;
    double bytes = (double)h->spec.elems * dtype_bytes(h->spec.type);
    double port = g > 1 ? topo_slowest_port_Bps(t) : INFINITY;

    if (h->spec.algo == SCHEDULE_RING) {
        double hop_i = in->latency_s + bytes / n / in->port_Bps;
        double flow = g > 1 ? fmin(port, out->flow_Bps) : INFINITY;
        double hop_e = g > 1 ? out->latency_s + bytes / n / flow : 0;
        return passes * (n - 1) * larger(m > 1 ? hop_i : 0, hop_e);
    }
    double slow = (double)h->slow_bytes / port + passes * (g - 1) * out->latency_s;
    double fast =
        (double)h->fast_bytes_rank / in->port_Bps + passes * g * (m - 1) * in->latency_s;
    if (h->spec.algo == SCHEDULE_TWO_LEVEL || g < 2)
        return slow + fast;
    double fill = passes * (m - 1) * (in->latency_s + bytes / n / subchunks / in->port_Bps);
    return fill + larger(slow, fast * (g - 1) / g);
}
