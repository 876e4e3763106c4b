/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include "plan/plan.h"

/* What a run's log (paro-train(1)) tells, beside what its plan has promised. */
enum plan_measure {
    PLAN_STEP_S, /* rank 0's */
    PLAN_COMPUTE_S,
    PLAN_EXPOSED_S, /* step less compute, as predicted */
    PLAN_TOKENS_PER_S,
    PLAN_SLOW_BYTES,
    PLAN_FAST_BYTES,
    PLAN_STATE_BYTES, /* rank 0's */
    PLAN_MEASURES
};

struct plan_check {
    struct plan_strategy strategy;
    int64_t steps; /* compared: all but the first and those that were skipped */
    int exact;     /* exact sums: what travels is f64 and not as planned */
    double predicted[PLAN_MEASURES], measured[PLAN_MEASURES]; /* medians */
    unsigned differs; /* 1 << measure: bytes, by more than PLAN_CHECK_PART */
};

#define PLAN_CHECK_PART 0.01
enum { PLAN_CHECK_LINE_MAX = 1 << 16, PLAN_CHECK_STEPS_MAX = 1 << 24 };

/* The steps of a log that are compared. */
struct plan_log {
    double *v[PLAN_MEASURES]; /* [steps], owned; finite, from 0 on */
    size_t room[PLAN_MEASURES];
    int steps;
    int64_t lines; /* of steps: those that are not compared as well */
    int exact;     /* a hash stands beside a step: its sums were exact */
};
/* JSON Lines; a last line without its end is left out: the run may go on. */
int plan_log_read(struct plan_log *l, const char *path, struct err *err);
int plan_log_parse(struct plan_log *l, const char *name, const char *text, int64_t bytes,
                   struct err *err);
void plan_log_release(struct plan_log *l);
const char *plan_measure_key(enum plan_measure measure); /* "step_s": in a log */

/*
 * log: a log, or the folder of a run, whose log.jsonl it is.  plan: a file, or NULL for the
 * plan.yaml beside the log.
 */
int plan_check(const char *log, const char *plan, struct plan_check *out, struct err *err);
/* Where bytes differ: sets err to one line that says so; returns -1. */
int plan_check_refuse(const struct plan_check *c, struct err *err);
void plan_check_print(const struct plan_check *c, FILE *out);
void plan_check_print_json(const struct plan_check *c, FILE *out); /* paro.plan.check/1 */

#endif
