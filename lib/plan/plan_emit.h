/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_EMIT_H
#define PLAN_PLAN_EMIT_H

#include "plan/plan.h"
#include "plan/plan_settings.h"

/* Expresses a plan in the settings of other tools, with remarks on the differences. */

/*
 * Returns the index of the strategy that the target shall run: the best if the target can run
 * it.  Otherwise, of the strategies that it can run and that fit, the one with the fewest steps
 * from N to I to G between them, and of these the best.  If none of them fits: the one that
 * needs least memory.
 */
int plan_emit_closest(const struct plan_search *s, enum plan_target target);

/* Prints the target's settings.  The search must have a best. */
void plan_emit(const struct plan_search *s, enum plan_target target, FILE *out);
/* Prints that text as paro.plan.emit/1, with the planned strategy and the one that runs. */
void plan_emit_json(const struct plan_search *s, enum plan_target target, FILE *out);

/* ---- internal: passed from plan_emit.c to the single targets ---- */

enum { PLAN_REMARKS = 16 };

struct plan_emission {
    const struct plan_search *search; /* borrowed */
    const struct plan_price *runs;    /* the strategy that the target runs */
    char remark[PLAN_REMARKS][200];   /* comments, a line each */
    int remarks;
};

void plan_emit_remark(struct plan_emission *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Returns whether the strategy that runs matches a pattern like "I?G", '?' for any letter. */
int plan_emit_is(const struct plan_emission *e, const char *pattern);

/* Each target adds its remarks and writes the whole text, comments first. */
void plan_emit_deepspeed(struct plan_emission *e, FILE *out);
void plan_emit_fsdp(struct plan_emission *e, FILE *out);
void plan_emit_megatron(struct plan_emission *e, FILE *out);

#endif
