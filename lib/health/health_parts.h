/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_PARTS_H
#define HEALTH_HEALTH_PARTS_H

/* Internal to health/ and its tests: from a verdict to a report. */
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

/* Changes since the last time that something was printed. */
struct health_news {
    int changed, due;          /* changed: there are changes; due: none, but a reminder is
                                  due */
    struct health_words fresh; /* "WARNING HC-204 ...", new or changed problems */
    struct health_words clear; /* "HC-201 ... (since ..., 25 min)", cleared ones */
};
void health_news_release(struct health_news *n);

/* An unconfirmed CRITICAL needs two runs; nothing is cleared sooner than this. */
enum { HEALTH_STICKY_S = 600 };

/*
 * Reconciles a run with those before it: v's findings get their reported states; problems
 * reported before and not seen now are added for HEALTH_STICKY_S.  measured 0: the run could
 * not measure, and clears nothing.
 */
void health_reconcile(struct health_memory *m, const struct health_data *d,
                      struct health_verdict *v, const struct health_options *o, int measured,
                      struct health_news *news);
/* Marks the verdict as printed. */
void health_reconcile_printed(struct health_memory *m, const struct health_verdict *v,
                              int64_t now_s);

/* Removes disabled checks and known noise; returns the number of the latter. */
int health_filter(const struct health_data *d, struct health_verdict *v,
                  const struct health_config *c);

/* ---- the report ---- */

/* Input of a report; borrowed except for news. */
struct health_report {
    const struct health_data *d;
    const struct health_verdict *v;
    const struct health_options *o;
    const struct health_memory *memory; /* NULL: no memory; there are no news */
    struct health_news news;
    int ignored;  /* number of findings that are known noise */
    int measured; /* 0: the run could not measure */
};

/*
 * Reconciles the verdict with the memory (o->memory) and reports it: writes the files, and on
 * `out` the line or JSON, unless only changes are requested and there are none.
 */
int health_report(const struct health_data *d, struct health_verdict *v,
                  const struct health_options *o, FILE *out, enum health_state *state,
                  struct err *err);

/* Writes "scontrol update NodeName=..."; -1 if nobody should be drained for this. */
int health_suggest(const struct health_data *d, const struct health_finding *f, char *to,
                   size_t space);
void health_print_line(const struct health_report *t, FILE *out);
void health_print_json(const struct health_report *t, FILE *out);
void health_draw(const struct health_report *t, FILE *out);

/* The streams of each measured pair, from src to dst; sorted by src, then dst. */
struct health_stream {
    int src, dst; /* hosts */
    int samples;
    double Bps, percent; /* medians; percent of both ends' expectation, or NaN */
    double latency_s;    /* the pair's, equal in both directions; NaN: not measured */
};
/* Returns the number; *out is owned by the caller (mem_free). */
int health_streams_of(const struct health_data *d, const struct health_verdict *v,
                      struct health_stream **out);

#endif
