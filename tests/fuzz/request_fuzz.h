/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REQUEST_FUZZ_H
#define REQUEST_FUZZ_H

#include "reader_fuzz.h"

#include "plan/plan_request.h"

/* What paro-plan prints, as a seed. */
static inline void request_fuzz_add(fuzz_add_f *add, const struct plan_request *request)
{
    struct err err;
    char *text = NULL, note[PLAN_NOTE];
    size_t bytes = 0;
    int found = 0;
    FILE *f = mem_stream(&text, &bytes);
    int rc = plan_request_answer(request, f, note, &found, &err);

    assert(rc == 0);
    fclose(f);
    add(text, bytes);
    free(text);
}

#endif
