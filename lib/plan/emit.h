/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_EMIT_H
#define PLAN_EMIT_H

#include "plan/plan.h"

/* A plan in the words of other tools, and what they have no words for. */
enum plan_target {
    PLAN_DEEPSPEED, /* JSON, comments under "_comment" */
    PLAN_FSDP,      /* PyTorch FSDP2, Python */
    PLAN_MEGATRON,  /* Megatron-LM, flags */
    PLAN_TARGETS
};

/*
 * What the target shall run in place of the best: the best itself where it can; else, of those
 * that it can run and that fit, the one with the fewest steps from N to I to G between them,
 * and of these the best; else (nothing of it fits) the one that needs least memory.
 */
int plan_emit_nearest(const struct plan_search *s, enum plan_target target);

/* Of a search with a best. */
void plan_emit(const struct plan_search *s, enum plan_target target, FILE *out);
/* The same text in paro.plan.emit/1, with what was planned and what runs. */
void plan_emit_json(const struct plan_search *s, enum plan_target target, FILE *out);

#endif
