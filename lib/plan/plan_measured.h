/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_MEASURED_H
#define PLAN_PLAN_MEASURED_H

#include "plan/plan_log.h"
#include "plan/plan.h"
#include "plan/plan_timeline.h"

/* Measurements in a run's log, compared with the predictions of its plan. */
struct plan_check {
    struct plan_strategy strategy;
    int64_t steps; /* steps compared: all but the first and the skipped ones */
    int exact;     /* sums are exact: the payload is f64, not the planned type */
    double predicted[PLAN_LOSS], measured[PLAN_LOSS]; /* medians; NAN: unknown */
    double bound_s;   /* the plan's (plan_timeline.h); 0: unknown */
    unsigned differs; /* bit i: measure i, in bytes, differs by more than PLAN_CHECK_PART */
    /* The part (computing, updating or a wait) whose time differs most from the timeline of the
       plan's fabric; -1: unknown, because the log or the plan lacks it. */
    int wrong;
    double wrong_s, wrong_was_s;
    char rates_of[PLAN_RATES_OF], doubt[TOPO_SOURCE_BYTES]; /* the plan's */
    const char *own; /* strategy of the plan that the run used, if it is another; or NULL */
};

#define PLAN_CHECK_PART 0.01

/*
 * log: a log, or a run's folder with a log.jsonl.  plan: a file, or NULL for the plan.yaml next
 * to the log.
 */
int plan_check(const char *log, const char *plan, struct plan_check *out, struct err *err);
/* Only if c->differs: sets err to one line about it; returns -1. */
int plan_check_refuse(const struct plan_check *c, struct err *err);
/* log and plan: as passed to plan_check. */
void plan_check_print(const struct plan_check *c, const char *log, const char *plan, FILE *out);
void plan_check_print_json(const struct plan_check *c, FILE *out); /* paro.plan.check/1 */

/* Returns whether two plans differ in a setting, including groups and strategy. */
int plan_differ(const struct plan *a, const struct plan *b);
/*
 * Prints two plans next to each other: the settings that differ, and all predictions; as a
 * table for people, or as paro.plan.compare/1.  names: the files, for the heading.
 */
void plan_compare_print(const struct plan p[2], char *const names[2], FILE *out);
void plan_compare_print_json(const struct plan p[2], char *const names[2], FILE *out);

#endif
