/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_EMIT_PARTS_H
#define PLAN_EMIT_PARTS_H

/* Inside plan/: what emit.c gives the texts of single targets. */
#include "plan/emit.h"

enum { PLAN_REMARKS = 16 };

struct plan_emission {
    const struct plan_search *search; /* borrowed */
    const struct plan_price *runs;    /* what the target runs */
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
