/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of plans (YAML, and the config.json in it). */
#include "request_fuzz.h"

#include "plan/plan.h"

static int parse(struct plan *p, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(plan_parse(p, FUZZ_NAME, text, (int64_t)bytes, &err), &err);

    mem_free(text);
    return rc;
}

static char *print(const struct plan *p, int json, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    (json ? plan_print_json : plan_print)(p, f);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct plan p = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0, json_bytes = 0;

    if (parse(&p, data, bytes))
        return 0;
    char *first = print(&p, 0, &first_bytes);
    free(print(&p, 1, &json_bytes));
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0);
    char *again = print(&back, 0, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    plan_release(&p);
    plan_release(&back);
    return 1;
}

/* Plans as paro-plan prints them. */
static void add_answers(fuzz_add_f *add)
{
    struct plan_request request = PLAN_REQUEST_INIT;

    request.model = "examples/models/llama-tiny.json";
    request.topo = "synth:[2,1],memory=1e9,flops=1e11";
    request_fuzz_add(add, &request);
    request.model = "params=1e9";
    request.topo = "synth:2x2,memory=80e9";
    request_fuzz_add(add, &request);
    request.mtbf_h = 10;
    request_fuzz_add(add, &request);
}

FUZZ_SET(.name = "plan", .longest = 8192, .cases = 3000, .ends = " \n:,[]",
         .words = FUZZ_LIST("0", "-1", "1e999", "nan", "12abc", "1e3", "4294967296", "IIG",
                            "XYZ", "ring", "f32", "bf16", "int8", "same", "all", "yes", "\"",
                            "|", "config", "params", "ranks", "[0]", "[1]", "~", "{", "}",
                            "llama", "1e15", "paro-plan/2"),
         .more = add_answers);
