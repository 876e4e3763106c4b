/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_PARTS_H
#define HEALTH_HEALTH_PARTS_H

/* Inside health/ and its tests: declares what a verdict becomes. */
#include "health/health.h"
#include "health/health_analysis.h"

/* ---- earlier runs ---- */

struct health_words {
    struct health_word {
        char text[400];
    } * at; /* owned */
    int count;
    size_t space;
};

/* The news since the last time that something was printed. */
struct health_news {
    int changed, due;          /* something is; nothing is, and it is time for a reminder */
    struct health_words fresh; /* "WARNING HC-204 ...", new or changed */
    struct health_words clear; /* "HC-201 ... (since ..., 25 min)" */
};
void health_news_release(struct health_news *n);

/* A CRITICAL that was not confirmed needs two runs; nothing is cleared sooner. */
enum { HEALTH_STICKY_S = 600 };

/*
 * Settles the report of a run from those before it: v's findings get their reported
 * states, what was reported and is not seen any more is added for HEALTH_STICKY_S.  `measured`
 * 0: the run could not measure, and clears nothing.
 */
void health_reconcile(struct health_memory *m, const struct health_data *d,
                      struct health_verdict *v, const struct health_options *o, int measured,
                      struct health_news *news);
/* It has been printed. */
void health_reconcile_printed(struct health_memory *m, const struct health_verdict *v,
                              int64_t now_s);

/* Removes what is disabled or known noise; returns how many of the latter. */
int health_filter(const struct health_data *d, struct health_verdict *v,
                  const struct health_config *c);

/* ---- the report ---- */

/* The material of a report; borrowed but for the news. */
struct health_report {
    const struct health_data *d;
    const struct health_verdict *v;
    const struct health_options *o;
    const struct health_memory *memory; /* NULL: nothing is remembered; there are no news */
    struct health_news news;
    int ignored;  /* findings that are known noise */
    int measured; /* 0: the run could not measure */
};

/*
 * Settles what was judged with what is remembered (o->memory) and reports it: the files, and on
 * `out` the line or JSON, unless only news are wanted and there are none.
 */
int health_report(const struct health_data *d, struct health_verdict *v,
                  const struct health_options *o, FILE *out, enum health_state *state,
                  struct err *err);

/* "scontrol update NodeName=..."; -1 where nobody should be drained for this. */
int health_suggest(const struct health_data *d, const struct health_finding *f, char *to,
                   size_t space);
void health_print_line(const struct health_report *t, FILE *out);
void health_print_json(const struct health_report *t, FILE *out);
void health_draw(const struct health_report *t, FILE *out);

/* The streams of each measured pair, from src to dst; by src, then dst. */
struct health_stream {
    int src, dst; /* hosts */
    int samples;
    double Bps, percent; /* medians; percent of what is expected of both ends, or NaN */
    double latency_s;    /* of the pair, the same both ways; NaN: not measured */
};
/* How many; *out is owned by the caller (mem_free). */
int health_streams_of(const struct health_data *d, const struct health_verdict *v,
                      struct health_stream **out);

#endif
