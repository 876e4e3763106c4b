/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_PARTS_H
#define HEALTH_HEALTH_PARTS_H

/* Inside health/ and its tests: the steps of a check. */
#include "health/health.h"
#include "health/health_look.h"
#include "health/health_ops.h"

/* What there is to tell; all borrowed. */
struct health_told {
    const struct health_data *d;
    const struct health_verdict *v;
    const struct health_options *o;
    const struct health_ops *ops;
    const struct health_memory *memory; /* NULL: nothing is remembered; so is the news */
    const struct health_news *news;
    int ignored;  /* findings that are known noise */
    int measured; /* 0: the run could not look */
};

/*
 * Settles what was judged with what is remembered (ops->memory) and tells it: the files, and on
 * `out` the line or JSON, unless only news are wanted and there are none.
 */
int health_say(const struct health_data *d, struct health_verdict *v,
               const struct health_options *o, FILE *out, enum health_state *state,
               struct err *err);

void health_print_line(const struct health_told *t, FILE *out);
void health_print_json(const struct health_told *t, FILE *out);
int health_write_prom(const struct health_told *t, const char *path, struct err *err);
void health_draw(const struct health_told *t, FILE *out);
int health_draw_write(const struct health_told *t, const char *path, struct err *err);

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
