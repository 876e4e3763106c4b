/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of schedules and to the verifier behind it. */
#include "reader_fuzz.h"

#include "schedule/schedule.h"

static int parse(struct schedule *s, const void *data, size_t bytes)
{
    char *text = fuzz_copy(data, bytes);
    struct err err = {0};
    int rc = schedule_parse(s, text, (int64_t)bytes, FUZZ_NAME, &err);

    mem_free(text);
    return fuzz_judge(rc, &err);
}

static char *print(const struct schedule *s, int json, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    assert(f);
    (json ? schedule_print_json : schedule_print)(s, f);
    int rc = fclose(f);
    assert(rc == 0);
    return text;
}

static int is_proven(const struct schedule *s)
{
    struct err err = {0};
    int rc = schedule_verify(s, &err);

    assert(rc == 0 || err.text[0]);
    return rc == 0;
}

/* What was read prints to a text that reads back to the same text and the same verdict. */
int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct schedule s = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0, json_bytes = 0;

    if (bytes > FUZZ_MAX || parse(&s, data, bytes))
        return 0;
    int proven = is_proven(&s);
    char *first = print(&s, 0, &first_bytes);
    free(print(&s, 1, &json_bytes));
    int rc = parse(&back, first, first_bytes);
    assert(rc == 0 && is_proven(&back) == proven);
    char *again = print(&back, 0, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    schedule_release(&s);
    schedule_release(&back);
    return proven;
}
