/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_H
#define HEALTH_HEALTH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "health/health_baseline.h"
#include "health/health_data.h"
#include "health/health_record.h"
#include "health/health_verdict.h"
#include "world/world.h"

/*
 * Is the network of these hosts as it should be?  What is measured is in health_data.h, what is
 * expected in health_baseline.h, what is concluded in health_verdict.h; here are the doors that
 * a command calls: measure (health_check), look at the links of one host (health_quick), or
 * conclude again from a record (health_replay); all three end in health_speak.
 */
struct health_ops; /* health_ops.h */

struct health_options {
    struct health_rules rules; /* its baseline is read from `baseline`, unless it is there */
    double deadline_s;         /* from start_s (tick_now_s) */
    double start_s;
    enum health_level level;
    const char *baseline; /* file or NULL; with `learn` it is written */
    const char *prom;     /* file or NULL */
    const char *record;   /* file or NULL: what was measured is written there */
    const char *device;   /* whose memory messages are of, as device_open takes it; NULL: cpu */
    int64_t cap_bytes;    /* that a port may be asked to carry, all in all; 0: no cap */
    int learn, json;
    const struct health_ops *ops; /* borrowed; NULL: nothing is remembered, no file is drawn */
};
void health_options_init(struct health_options *o);

/*
 * Collective.  Measures, judges and prints on `out` (rank 0).  *state is right on rank 0 alone.
 * *gone: some host does not answer, so that world_close would wait in vain.  `where` is told
 * what goes on, for whoever watches the clock.
 */
int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *gone, struct err *err);

/*
 * One host, without MPI: its links and their counters, as ops->sys and ops->proc show them,
 * against what is remembered (ops->state) and what ops->config says.
 */
int health_quick(const struct health_options *o, FILE *out, enum health_state *state,
                 struct err *err);

/* For node_exporter, when there is no verdict: UNKNOWN now, and the last success that `path`
 * has. */
int health_write_prom_unknown(const char *path, int64_t now_s, struct err *err);

/* A record instead of a fabric: the same bytes on `out` as the run that wrote it. */
int health_replay(const struct health_options *o, const char *path, FILE *out,
                  enum health_state *state, struct err *err);

/*
 * Judges and tells: record, line or JSON, node_exporter's text; with o->learn the baseline
 * instead, on `out` or in o->baseline, or ERR_MISMATCH where something was found or a file of
 * that name is not to be replaced.
 */
int health_speak(const struct health_data *d, const struct health_options *o, FILE *out,
                 enum health_state *state, struct err *err);

#endif
