/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_EMIT_H
#define PLAN_PLAN_EMIT_H

#include "plan/plan.h"

/* A plan in the words of other tools, and what they have no words for. */
enum plan_target {
    PLAN_DEEPSPEED, /* JSON, comments under "_comment" */
    PLAN_FSDP,      /* PyTorch FSDP2, Python */
    PLAN_MEGATRON,  /* Megatron-LM, flags */
    PLAN_TARGETS
};

/*
 * Returns the strategy that the target shall run in place of the best: the best itself where it
 * can; else, of those that it can run and that fit, the one with the fewest steps from N to I
 * to G between them, and of these the best; else (nothing of it fits) the one that needs least
 * memory.
 */
int plan_emit_closest(const struct plan_search *s, enum plan_target target);

/* Prints the target's settings for a search that has a best. */
void plan_emit(const struct plan_search *s, enum plan_target target, FILE *out);
/* The same text in paro.plan.emit/1, with what was planned and what runs. */
void plan_emit_json(const struct plan_search *s, enum plan_target target, FILE *out);

/* ---- inside: what plan_emit.c gives the texts of single targets ---- */

enum { PLAN_REMARKS = 16 };

struct plan_emission {
    const struct plan_search *search; /* borrowed */
    const struct plan_price *runs;    /* the strategy that the target runs */
    char remark[PLAN_REMARKS][200];   /* comments, a line each */
    int remarks;
};

void plan_emit_remark(struct plan_emission *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Is the letter that of the strategy that runs? "III", with '?' for any letter. */
int plan_emit_is(const struct plan_emission *e, const char *pattern);

/* Each adds remarks of its own and writes the whole text, comments first. */
void plan_emit_deepspeed(struct plan_emission *e, FILE *out);
void plan_emit_fsdp(struct plan_emission *e, FILE *out);
void plan_emit_megatron(struct plan_emission *e, FILE *out);

#endif
