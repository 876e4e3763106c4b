/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of schedules and to the verifier behind it. */
#include "reader_fuzz.h"

#include "layout/layout.h"
#include "schedule/schedule.h"

enum outcome { REFUSED, WRONG, PROVEN, OUTCOMES };

static int parse(struct schedule *s, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(schedule_parse(s, text, (int64_t)bytes, FUZZ_NAME, &err), &err);

    mem_free(text);
    return rc;
}

static char *print(const struct schedule *s, int json, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    (json ? schedule_print_json : schedule_print)(s, f);
    fclose(f);
    return text;
}

static enum outcome verify(const struct schedule *s)
{
    struct err err = {0};
    int rc = schedule_verify(s, &err);

    assert(rc == 0 || err.text[0]);
    return rc ? WRONG : PROVEN;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct schedule s = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0, json_bytes = 0;

    if (parse(&s, data, bytes))
        return REFUSED;
    enum outcome outcome = verify(&s);
    char *first = print(&s, 0, &first_bytes);
    free(print(&s, 1, &json_bytes));
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0);
    char *again = print(&back, 0, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    assert(verify(&back) == outcome);
    schedule_release(&s);
    schedule_release(&back);
    return (int)outcome;
}

/* Whole operations by every algorithm on the groups of a shape. */
static void add_shape(fuzz_add_f *add, const char *shape)
{
    static const unsigned phases[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                                      SCHEDULE_ALL_REDUCE, SCHEDULE_BROADCAST};
    struct groups g;
    struct layout l;
    struct err err;
    int rc = groups_parse(&g, shape, &err);

    assert(rc == 0);
    layout_init(&l, &g);
    groups_release(&g);
    for (int i = 0; i < 4 * SCHEDULE_ALGOS; i++) {
        struct schedule_spec spec = {.algo = (enum schedule_algo)(i / 4),
                                     .phases = phases[i % 4],
                                     .groups = &l.groups,
                                     .segments = l.segments,
                                     .holder = l.holder,
                                     .subchunks = 1 + i % 2};
        struct schedule s;
        size_t bytes = 0;
        rc = schedule_gen(&spec, -1, &s, &err);
        assert(rc == 0);
        char *text = print(&s, 0, &bytes);
        add(text, bytes);
        free(text);
        schedule_release(&s);
    }
    layout_release(&l);
}

static void add_shapes(fuzz_add_f *add)
{
    add_shape(add, "1x1");
    add_shape(add, "2x2");
    add_shape(add, "[3,1,2]");
}

FUZZ_SET(.name = "schedule", .outcomes = OUTCOMES, .cases = 4000, .part = 50, .ends = " \n",
         .words = FUZZ_LIST("0", "1", "2", "3", "4", "5", "7", "-1", "12", "63", "64", "1024",
                            "1025", "999999", "1e3", "1000000", "1048576", "2147483646",
                            "2147483647", "4>5", "0>99", "3>", ">", "copy", "add", "4294967296",
                            "end", "rows", "root", "planes", "barrier", "broadcast", "group",
                            "9e99", "18446744073709551616"),
         .more = add_shapes);
