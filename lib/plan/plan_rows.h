/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_ROWS_H
#define PLAN_PLAN_ROWS_H

#include "plan/plan.h"
#include "plan/plan_cost.h"

/* The rows of a step (step/step.h), and what they were made of. */
struct plan_rows {
    struct step step;
    struct step_shape shape;
    char *trains; /* owned, the shape's */
};

/* Makes the rows of one strategy, with so many micro-steps. */
void plan_rows_init(struct plan_rows *r, const struct plan_cost *b, int micros);
void plan_rows_release(struct plan_rows *r);
/* Prints the verified rows of the best of a search, which must have one, as a table or as
   paro.plan.steps/1; and the plan, so that nothing else is needed to verify the rows or to draw
   them. */
int plan_rows_print(const struct plan_search *s, int json, FILE *out, struct err *err);

/* For text or JSON that plan_rows_print wrote. */
int plan_rows_are(const char *text); /* rather than a schedule's */
/* Prints "proven: ..." or "wrong: ...", or paro.sched.verify/1.  1: wrong. */
int plan_steps_verify(const char *name, const char *text, int64_t bytes, int json, FILE *out,
                      struct err *err);
/* Draws them on a fabric, as SVG or paro.plan.timeline/1; ERR_MISMATCH where they are wrong. */
int plan_steps_draw(const char *name, const char *text, int64_t bytes, const char *topo,
                    int json, FILE *out, struct err *err);

#endif
