/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_H
#define HEALTH_HEALTH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "health/health_baseline.h"
#include "health/health_data.h"
#include "health/health_memory.h"
#include "health/health_verdict.h"
#include "world/world.h"

/*
 * Checks whether the network of these hosts is as it should be.  Measurements are in
 * health_data.h, expectations in health_baseline.h, conclusions in health_verdict.h, the memory
 * between runs in health_memory.h; here are the functions that a command calls: measure
 * (health_check), inspect the links of one host (health_quick), or conclude again from a record
 * (health_replay); all three end in health_answer.
 */
struct health_options {
    struct health_rules rules; /* its baseline is read from `baseline`, unless it is there */
    double deadline_s;         /* from start_s (tick_now_s) */
    double start_s;
    enum health_level level;
    int64_t now_s;               /* since 1970; of a run that was measured, its own counts */
    char host[HEALTH_HOST_NAME]; /* this one */
    const char *device;   /* whose memory messages are of, as device_open takes it; NULL: cpu */
    const char *baseline; /* file or NULL; with `learn` it is written */
    const char *record;   /* file or NULL: what was measured is written there */
    const char *prom;     /* file or NULL */
    const char *svg;      /* file, "-": instead of the line, or NULL */
    const char *state;    /* folder; NULL: nothing is remembered */
    struct health_memory *memory; /* borrowed; opened by who checks, where there is a folder */
    const char *sys, *proc;       /* "/sys", "/proc" */
    const char *jobs;             /* our own job's number (Slurm's), or NULL */
    struct health_config config;
    int64_t cap_bytes; /* that a port may be asked to carry, all in all; 0: no cap */
    double max_load;   /* per core, of the last minute; 0: any */
    double remind_s;   /* with notify: what is not new is printed so often; 0: never */
    int learn, json;
    int notify;  /* only what is new is printed */
    int verbose; /* 0 to 3 */
    int suggest; /* print the scheduler's line */
    int accept;  /* as things are now they should be */
    int force;   /* measure while a job runs, and under any load */
};
void health_options_init(struct health_options *o);
/* "change", "change,remind=12h" */
int health_parse_notify(struct health_options *o, const char *text, struct err *err);

/*
 * Collective.  Measures, judges and prints on `out` (rank 0).  *state is right on rank 0 alone.
 * *gone: some host does not answer, so that world_close would wait in vain.  `where` is set to
 * what goes on, for whoever watches the clock.
 */
int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *gone, struct err *err);

/*
 * One host, without MPI: its links and their counters, as o->sys and o->proc show them, against
 * what is remembered (o->state) and expected (o->config).
 */
int health_quick(const struct health_options *o, FILE *out, enum health_state *state,
                 struct err *err);

/* A record instead of a fabric: the same bytes on `out` as the run that wrote it. */
int health_replay(const struct health_options *o, const char *path, FILE *out,
                  enum health_state *state, struct err *err);

/*
 * Judges and reports: record, line or JSON, node_exporter's text; with o->learn the baseline
 * instead, on `out` or in o->baseline, or ERR_MISMATCH where something was found or a file of
 * that name is not to be replaced.
 */
int health_answer(const struct health_data *d, const struct health_options *o, FILE *out,
                  enum health_state *state, struct err *err);

/* For node_exporter; t NULL, without a verdict: UNKNOWN, and the last success that `path` has.
 */
struct health_report; /* health_parts.h */
int health_write_prom(const struct health_report *t, const char *path, int64_t now_s,
                      struct err *err);

#endif
