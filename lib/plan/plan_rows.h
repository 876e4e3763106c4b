/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_ROWS_H
#define PLAN_PLAN_ROWS_H

#include "plan/plan.h"
#include "plan/plan_cost.h"

/* The rows of a step (step/step.h), and the shape they were generated from. */
struct plan_rows {
    struct step step;
    struct step_shape shape;
    char *trains; /* owned, referenced by the shape */
};

/* Generates the rows of one strategy with `micros` micro-steps. */
void plan_rows_init(struct plan_rows *r, const struct plan_cost *b, int micros);
void plan_rows_release(struct plan_rows *r);
/* Prints the verified rows of a search's best, which must exist, as a table or as
   paro.plan.steps/1; and the plan, so that verifying and drawing need no other file. */
int plan_rows_print(const struct plan_search *s, int json, FILE *out, struct err *err);

/* These take text or JSON that plan_rows_print wrote. */
int plan_rows_are(const char *text); /* 1: step rows; 0: a schedule */
/* Prints "proven: ..." or "wrong: ...", or paro.sched.verify/1.  Returns 1 if wrong. */
int plan_steps_verify(const char *name, const char *text, int64_t bytes, int json, FILE *out,
                      struct err *err);
/* Draws the rows on a fabric, as SVG or paro.plan.timeline/1; ERR_MISMATCH if they are
   wrong. */
int plan_steps_draw(const char *name, const char *text, int64_t bytes, const char *topo,
                    int json, FILE *out, struct err *err);

#endif
