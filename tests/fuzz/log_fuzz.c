/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a run's log that stands behind 'paro-plan --check'. */
#include "reader_fuzz.h"

#include <math.h>

#include "plan/check.h"

static int parse(struct plan_log *l, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(plan_log_parse(l, FUZZ_NAME, text, (int64_t)bytes, &err), &err);

    mem_free(text);
    return rc;
}

/* A first step, which is not counted, and those that were. */
static char *print(const struct plan_log *l, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    for (int64_t s = -1; s < l->steps; s++) {
        fprintf(f, "{\"step\":%d", (int)s);
        for (int i = 0; i < PLAN_MEASURES; i++)
            fprintf(f, ",\"%s\":%.17g", plan_measure_key((enum plan_measure)i),
                    s < 0 ? 0 : l->v[i][s]);
        fputs("}\n", f);
    }
    int rc = fclose(f);
    assert(rc == 0);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct plan_log l = {0}, back = {0};
    size_t printed = 0;

    if (bytes > FUZZ_MAX || parse(&l, data, bytes))
        return 0;
    assert(l.steps <= l.lines);
    char *text = print(&l, &printed);
    int rc = parse(&back, text, printed);
    assert(rc == 0 && back.steps == l.steps && back.lines == l.steps + 1);
    for (int i = 0; i < PLAN_MEASURES; i++)
        for (int64_t s = 0; s < l.steps; s++)
            assert(isfinite(l.v[i][s]) && l.v[i][s] >= 0 && l.v[i][s] == back.v[i][s]);
    free(text);
    int counted = l.steps > 0;
    plan_log_release(&l);
    plan_log_release(&back);
    return counted;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
