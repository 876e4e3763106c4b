/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of tables of choices (paro-tuning(5)). */
#include "reader_fuzz.h"

#include "pick/pick_table.h"

static int parse(struct pick_table *t, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);
    int rc = fuzz_judge(pick_table_parse(t, FUZZ_NAME, text, &err), &err);

    mem_free(text);
    return rc;
}

static char *print(const struct pick_table *t, enum pick_format format, size_t *bytes)
{
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    pick_table_print(t, format, f);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct pick_table t = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0, other_bytes = 0;

    if (parse(&t, data, bytes))
        return 0;
    char *first = print(&t, PICK_YAML, &first_bytes);
    free(print(&t, PICK_JSON, &other_bytes));
    free(print(&t, PICK_TEXT, &other_bytes));
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0);
    char *again = print(&back, PICK_YAML, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    pick_table_release(&t);
    pick_table_release(&back);
    return 1;
}

static const char made[] =
    "format: paro-tuning/1\nmembers: [2, 1]\nrules:\n"
    "  - op: all-gather\n    from_bytes: 0\n    below_bytes: 118784\n    algo: bruck\n"
    "    chunk_bytes: 61440\n    at_bytes: 1024\n    time_s: 1.202736e-05\n"
    "    runner_up: direct\n    runner_up_s: 1.202736e-05\n"
    "  - op: all-gather\n    from_bytes: 118784\n    algo: ho-ring\n    chunk_bytes: 65536\n"
    "  - op: reduce-scatter\n    from_bytes: 0\n    algo: two-level\n    chunk_bytes: 61440\n"
    "    at_bytes: 1024\n    time_s: 1.5e-05\n    timed: measured\n";
static const char least[] = "format: paro-tuning/1\nmembers: [2, 2]\nrules:\n"
                            "  - op: all-reduce\n    from_bytes: 0\n"
                            "    algo: ring\n    chunk_bytes: whole\n";

FUZZ_SET(.name = "tuning", .longest = 8192, .cases = 6000, .ends = " \n:,[]",
         .words = FUZZ_LIST("0", "-1", "1e999", "nan", "12abc", "1e3", "whole", "auto", "ring",
                            "bruck", "mesh", "\"", "[1, 1]", "broadcast", "{", "measured",
                            "simulated", "~", "118785", "9223372036854775807", "paro-tuning/2"),
         .text = {FUZZ_TEXT(made), FUZZ_TEXT(least)});
