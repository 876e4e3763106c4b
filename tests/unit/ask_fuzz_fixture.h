/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_ASK_FUZZ_FIXTURE_H
#define TESTS_UNIT_ASK_FUZZ_FIXTURE_H

/* What paro-plan prints, as a text that a reader of it begins from. */
#include "reader_fuzz_fixture.h"

#include "plan/ask.h"

static inline void add_answer(struct fuzz_texts *t, const struct plan_ask *ask)
{
    struct err err;
    char *text = NULL, note[PLAN_NOTE];
    size_t bytes = 0;
    int found = 0;
    FILE *f = open_memstream(&text, &bytes);

    if (plan_ask_answer(ask, f, note, &found, &err))
        fail_msg("%s", err.text);
    fclose(f);
    fuzz_add(t, text, bytes);
    free(text);
}

#endif
