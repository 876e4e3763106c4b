/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of the rows of steps, and proves and draws what it accepts. */
#include "request_fuzz.h"

#include "plan/plan_rows.h"

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct err err = {0};

    char *text = fuzz_copy(data, bytes), *out = NULL;
    size_t out_bytes = 0;
    FILE *f = mem_stream(&out, &out_bytes);

    int rc = plan_steps_verify(FUZZ_NAME, text, (int64_t)bytes, 0, f, &err);
    if (rc < 0)
        fuzz_judge(rc, &err);
    if (rc == 0) {
        rc =
            plan_steps_draw(FUZZ_NAME, text, (int64_t)bytes, "synth:2x1,flops=1e9", 0, f, &err);
        assert(rc == 0 || err.code == ERR_INPUT);
        rc = 0;
    }
    fclose(f);
    free(out);
    mem_free(text);
    return rc >= 0;
}

/* Rows as paro-plan prints them, as text and as JSON. */
static void add_answers(fuzz_add_f *add)
{
    struct plan_request request = PLAN_REQUEST_INIT;

    request.model = "params=1e6";
    request.topo = "synth:2x1,flops=1e9";
    request.what = PLAN_REQUEST_STEPS;
    for (request.json = 0; request.json < 2; request.json++)
        request_fuzz_add(add, &request);
}

FUZZ_SET(.name = "steps", .longest = 8192, .cases = 3000, .ends = " \n:,[]",
         .words = FUZZ_LIST("0", "-1", "-", "1", "2", "99", "2147483647", "gather", "compute",
                            "update", "norm", "forward", "sync", "null", "[]", "{", "}", "all",
                            "rows", "slots", "format", "plan", "\n\n", "\"", "2147483648",
                            "reduce", "embed"),
         .more = add_answers);
