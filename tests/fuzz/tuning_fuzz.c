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
    char *text;
    FILE *f = mem_stream(&text, bytes);

    pick_table_print(t, format, f);
    fclose(f);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct pick_table t = {0}, back = {0};
    size_t first_bytes = 0, again_bytes = 0, other_bytes = 0;

    if (bytes > FUZZ_MAX || parse(&t, data, bytes))
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
