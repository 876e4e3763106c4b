/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_STREAMS_H
#define HEALTH_HEALTH_STREAMS_H

#include "health/health_verdict.h"

/* What the streams of each measured pair came to, from src to dst; by src, then dst. */
struct health_stream {
    int src, dst; /* hosts */
    int samples;
    double Bps, percent; /* medians; percent of what is expected of both ends, or NaN */
    double latency_s;    /* of the pair, the same both ways; NaN: not measured */
};
struct health_streams {
    int count;
    struct health_stream *at; /* owned */
};
void health_streams_of(const struct health_data *d, const struct health_verdict *v,
                       struct health_streams *out);
void health_streams_release(struct health_streams *p);

#endif
