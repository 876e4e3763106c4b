/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a run's log that stands behind 'paro-plan --check' and
 * 'paro-train --svg'. */
#include "reader_fuzz.h"

#include <math.h>

#include "plan/plan_log.h"

/* A stream over no bytes at all is none to fmemopen. */
static int parse(struct plan_log *l, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    FILE *f = bytes ? fmemopen(text, bytes, "r") : fopen("/dev/null", "r");

    assert(f);
    int rc = fuzz_judge(plan_log_read_stream(l, f, FUZZ_NAME, &err), &err);
    fclose(f);
    mem_free(text);
    return rc;
}

static void put_loss(FILE *f, const char *key, double v)
{
    if (isnan(v))
        fprintf(f, ",\"%s\":null", key);
    else
        fprintf(f, ",\"%s\":%.17g", key, v);
}

static char *print(const struct plan_log *l, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    for (int64_t s = 0; s < l->steps; s++) {
        fprintf(f, "{\"step\":%.0f,\"skipped\":%s", l->v[PLAN_STEP][s],
                l->skipped[s] ? "true" : "false");
        for (int i = 0; i < PLAN_MEASURES; i++)
            fprintf(f, ",\"%s\":%.17g", plan_measure_key((enum plan_measure)i), l->v[i][s]);
        for (int i = PLAN_MEASURES; i <= PLAN_EVAL_LOSS; i++)
            put_loss(f, plan_measure_key((enum plan_measure)i), l->v[i][s]);
        fputs("}\n", f);
    }
    fclose(f);
    return text;
}

static int is_same(double a, double b)
{
    return isnan(a) ? isnan(b) : isfinite(a) && a == b;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct plan_log l = {0}, back = {0};
    size_t printed = 0;

    if (parse(&l, data, bytes))
        return 0;
    char *text = print(&l, &printed);
    int rc = parse(&back, text, printed);
    assert(rc == 0 && back.steps == l.steps);
    for (int64_t s = 0; s < l.steps; s++) {
        assert(l.skipped[s] == back.skipped[s]);
        for (int i = 0; i < PLAN_LOG_COLUMNS; i++)
            assert(is_same(l.v[i][s], back.v[i][s]) && (i >= PLAN_MEASURES || l.v[i][s] >= 0));
        assert(l.v[PLAN_STEP][s] > (s ? l.v[PLAN_STEP][s - 1] : 0));
    }
    free(text);
    int counted = l.steps > 0;
    plan_log_release(&l);
    plan_log_release(&back);
    return counted;
}

/* clang-format off */
#define STEP(n, skipped)                                                                       \
    "{\"step\":" n ",\"loss\":5.5,\"grad_norm\":1,\"lr\":3e-06,\"tokens\":512,"                \
    "\"step_s\":0.25,\"tokens_per_s\":2048,\"compute_s\":0.125,\"exposed_comm_s\":0.125,"      \
    "\"slow_bytes\":1048576,\"fast_bytes\":2097152,\"state_bytes\":999999,"                    \
    "\"skipped\":" skipped "}\n"
/* clang-format on */

static const char three[] = STEP("1", "false") STEP("2", "true") STEP("3", "false");
static const char cut[] = STEP("1", "false") STEP("2", "false") "{\"step\":3,\"lo";

FUZZ_SET(.name = "log", .cases = 8000, .ends = " \n:,{}",
         .words = FUZZ_LIST("0", "-1", "1e308", "1e999", "null", "NaN", "true", "[", "]", "{",
                            "}", "\"", ",", "\n", "\"step_s\"", "\"skipped\"", "\\u0000",
                            "\xff", "9223372036854775808", "\"state_hash\":\"0\","),
         .text = {FUZZ_TEXT(three), FUZZ_TEXT(cut)});
