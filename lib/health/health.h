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
 * Checks whether the network of these hosts is healthy.  Measurements are in health_data.h,
 * expectations in health_baseline.h, conclusions in health_verdict.h, the memory between runs
 * in health_memory.h.  This header has the functions that a command calls: measure
 * (health_check), inspect the links of one host (health_quick), or judge a record again
 * (health_replay); all three end in health_answer.
 */
struct health_options {
    struct health_rules rules; /* rules.baseline is read from `baseline`, unless it is set
                                  already */
    double deadline_s;         /* seconds from start_s (tick_now_s) */
    double start_s;
    enum health_level level;
    int64_t now_s;               /* since 1970; a measured run uses its own time */
    char host[HEALTH_HOST_NAME]; /* this host */
    const char *device;   /* messages are in its memory; operand of device_open; NULL: cpu */
    const char *baseline; /* file or NULL; with `learn` the output */
    const char *record;   /* file for the measurements, or NULL */
    const char *prom;     /* file or NULL */
    const char *svg;      /* file, "-": on `out` instead of the line, or NULL */
    const char *state;    /* folder; NULL: nothing is remembered */
    struct health_memory *memory; /* borrowed; opened by the check if `state` is set */
    const char *sys, *proc;       /* "/sys", "/proc" */
    const char *jobs;             /* number of this job (Slurm's), or NULL */
    struct health_config config;
    int64_t cap_bytes; /* most bytes that a port carries in the run; 0: no cap */
    double max_load;   /* per core, over the last minute; 0: any */
    double remind_s;   /* with notify: interval of printing known problems again; 0: never */
    int learn, json;
    int notify;  /* 1: print changes only */
    int verbose; /* 0 to 3 */
    int suggest; /* print the scheduler's line */
    int accept;  /* 1: accept the current state as the expected one */
    int force;   /* 1: measure while a job runs, and under any load */
};
void health_options_init(struct health_options *o);
/* Parses "change" or "change,remind=12h". */
int health_parse_notify(struct health_options *o, const char *text, struct err *err);

/*
 * Collective.  Measures, judges and prints on `out` (rank 0).  *state is set on rank 0 only.
 * *lost is set if some host does not answer, in which case world_close would block.  `where` is
 * set to the current stage, for a watchdog.
 */
int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *lost, struct err *err);

/*
 * Checks one host without MPI: its links and counters, as o->sys and o->proc show them, against
 * the remembered values (o->state) and the expected ones (o->config).
 */
int health_quick(const struct health_options *o, FILE *out, enum health_state *state,
                 struct err *err);

/* Judges a record instead of a fabric: writes the same bytes to `out` as the recorded run. */
int health_replay(const struct health_options *o, const char *path, FILE *out,
                  enum health_state *state, struct err *err);

/*
 * Judges and reports: record, line or JSON, node_exporter's text.  With o->learn it writes the
 * baseline instead, to `out` or to o->baseline; ERR_MISMATCH if there are findings or a file of
 * that name may not be replaced.
 */
int health_answer(const struct health_data *d, const struct health_options *o, FILE *out,
                  enum health_state *state, struct err *err);

/* Writes node_exporter's text.  t NULL: no verdict; reports UNKNOWN, and the last success that
   the file at `path` records. */
struct health_report; /* health_parts.h */
int health_write_prom(const struct health_report *t, const char *path, int64_t now_s,
                      struct err *err);

#endif
