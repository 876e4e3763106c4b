/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_MEASURED_H
#define PLAN_PLAN_MEASURED_H

#include "plan/plan_log.h"
#include "plan/plan.h"
#include "plan/plan_timeline.h"

/* Measurements in a run's log next to the predictions of its plan. */
struct plan_check {
    struct plan_strategy strategy;
    int64_t steps; /* compared: all but the first and those that were skipped */
    int exact;     /* exact sums: the payload is f64 and not as planned */
    double predicted[PLAN_LOSS], measured[PLAN_LOSS]; /* medians; NAN: unknown */
    unsigned differs; /* bit i: measure i, one of bytes, differs by more than PLAN_CHECK_PART */
    /* The part (computing, updating or a wait) whose time differs most from that in the
       timeline of the plan's fabric; -1: unknown from the log, or without a fabric. */
    int wrong;
    double wrong_s, wrong_was_s;
    char rates_of[PLAN_RATES_OF], doubt[TOPO_SOURCE_BYTES]; /* the plan's */
    const char *own; /* another plan, with which the run was made: its strategy; or NULL */
};

#define PLAN_CHECK_PART 0.01

/*
 * log: a log, or the folder of a run, whose log.jsonl it is.  plan: a file, or NULL for the
 * plan.yaml beside the log.
 */
int plan_check(const char *log, const char *plan, struct plan_check *out, struct err *err);
/* Only where c->differs: sets err to one line that says so; returns -1. */
int plan_check_refuse(const struct plan_check *c, struct err *err);
/* log and plan as they were given; plan NULL: the one next to the log. */
void plan_check_print(const struct plan_check *c, const char *log, const char *plan, FILE *out);
void plan_check_print_json(const struct plan_check *c, FILE *out); /* paro.plan.check/1 */

/* Whether two plans differ in a setting, groups and strategy among them. */
int plan_differ(const struct plan *a, const struct plan *b);
/*
 * Two plans side by side: the settings in which they differ, and everything predicted.  names:
 * the files, for the head; as a table for people, or as paro.plan.compare/1.
 */
void plan_compare_print(const struct plan p[2], char *const names[2], FILE *out);
void plan_compare_print_json(const struct plan p[2], char *const names[2], FILE *out);

#endif
